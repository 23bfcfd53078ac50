//! Where a dataset's files come from.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Component, Path, PathBuf},
};

use super::{DatasetError, builtin};

/// Where a dataset lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Shipped with Isomer, e.g. `quick/sts`.
    Builtin(String),
    /// A folder, or one file for the single-file tasks.
    Path(PathBuf),
    /// Files sent along, laid out as on disk.
    Inline(Vec<InlineFile>),
}

/// A file sent along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineFile {
    /// Relative path, e.g. `qrels/test.tsv`.
    pub path: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

impl Source {
    /// Name for reports where none is given: of the built-in, of the folder, or of a file that is not just `test.jsonl`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Builtin(name) => name.clone(),
            Self::Inline(_) => "inline".to_owned(),
            Self::Path(path) => {
                let stem = |p: &Path| p.file_stem().map(|s| s.to_string_lossy().into_owned());
                let is_split = stem(path).is_some_and(|s| {
                    let split = s.split('.').next().unwrap_or_default();
                    matches!(split, "test" | "train" | "dev" | "validation")
                });
                let folder = if path.is_file() && is_split {
                    path.parent()
                } else {
                    None
                };
                let named = match folder {
                    Some(folder) => folder.canonicalize().ok().and_then(|f| stem(&f)),
                    None if path.is_dir() => {
                        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                        real.file_name().map(|s| s.to_string_lossy().into_owned())
                    }
                    None => stem(path),
                };
                named.unwrap_or_else(|| path.display().to_string())
            }
        }
    }

    /// The files behind the source.
    pub(super) fn files(&self) -> Result<Files<'_>, DatasetError> {
        match self {
            Self::Builtin(name) => {
                let files = builtin::files(name).ok_or_else(|| DatasetError::UnknownBuiltin { name: name.clone() })?;
                Ok(Files::Memory {
                    place: format!("built-in {name}"),
                    files: files.to_vec(),
                })
            }
            Self::Path(path) => match fs::metadata(path) {
                Ok(found) if found.is_dir() => Ok(Files::Folder(path.clone())),
                Ok(_) => Ok(Files::Single(path.clone())),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(DatasetError::NotFound {
                    path: path.display().to_string(),
                }),
                Err(source) => Err(DatasetError::Unreadable {
                    file: path.display().to_string(),
                    source,
                }),
            },
            Self::Inline(files) => {
                for (i, file) in files.iter().enumerate() {
                    let path = file.path.clone();
                    let plain = Path::new(&path).components().all(|c| matches!(c, Component::Normal(_)));
                    if path.is_empty() || !plain {
                        let problem = "a plain relative path such as `qrels/test.tsv` is needed";
                        return Err(DatasetError::InlinePath { path, problem });
                    }
                    if files[..i].iter().any(|f| f.path == path) {
                        return Err(DatasetError::InlinePath {
                            path,
                            problem: "the path is given twice",
                        });
                    }
                }
                let files = files.iter().map(|f| (f.path.as_str(), f.content.as_slice())).collect();
                Ok(Files::Memory {
                    place: "inline files".to_owned(),
                    files,
                })
            }
        }
    }
}

/// Files that can be listed and opened by relative path.
pub(super) enum Files<'a> {
    Folder(PathBuf),
    Single(PathBuf),
    Memory {
        place: String,
        files: Vec<(&'a str, &'a [u8])>,
    },
}

impl Files<'_> {
    /// What to call the whole in messages.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Folder(path) | Self::Single(path) => path.display().to_string(),
            Self::Memory { place, .. } => place.clone(),
        }
    }

    /// What to call one file in messages.
    pub(super) fn label(&self, name: &str) -> String {
        match self {
            Self::Folder(path) => path.join(name).display().to_string(),
            Self::Single(path) => path.display().to_string(),
            Self::Memory { files, .. } if files.len() == 1 => name.to_owned(),
            Self::Memory { place, .. } => format!("{place}/{name}"),
        }
    }

    /// The only file, where the source is one file rather than a folder.
    pub(super) fn single(&self) -> Option<String> {
        match self {
            Self::Folder(_) => None,
            Self::Single(path) => path.file_name().map(|n| n.to_string_lossy().into_owned()),
            Self::Memory { files, .. } => match files.as_slice() {
                [(name, _)] => Some((*name).to_owned()),
                _ => None,
            },
        }
    }

    /// Names in a folder (`""` for the top), sorted, without folders.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>, DatasetError> {
        let mut names = match self {
            Self::Single(_) => self.single().into_iter().collect(),
            Self::Memory { files, .. } => {
                let inside = files.iter().filter_map(|(name, _)| match name.rsplit_once('/') {
                    Some((parent, file)) => (parent == folder).then(|| file.to_owned()),
                    None => folder.is_empty().then(|| (*name).to_owned()),
                });
                inside.collect()
            }
            Self::Folder(path) => {
                let path = if folder.is_empty() {
                    path.clone()
                } else {
                    path.join(folder)
                };
                let unreadable = |source| DatasetError::Unreadable {
                    file: path.display().to_string(),
                    source,
                };
                let entries = match fs::read_dir(&path) {
                    Ok(entries) => entries,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                    Err(e) => return Err(unreadable(e)),
                };
                let mut names = Vec::new();
                for entry in entries {
                    let entry = entry.map_err(unreadable)?;
                    if !entry.path().is_dir() {
                        names.push(entry.file_name().to_string_lossy().into_owned());
                    }
                }
                names
            }
        };
        names.sort();
        Ok(names)
    }

    /// Opens a file for reading line by line.
    pub(super) fn open(&self, name: &str) -> Result<Box<dyn BufRead + '_>, DatasetError> {
        let path = match self {
            Self::Memory { files, .. } => {
                let found = files.iter().find(|(path, _)| *path == name);
                let Some((_, content)) = found else {
                    return Err(DatasetError::NotFound { path: self.label(name) });
                };
                return Ok(Box::new(*content));
            }
            Self::Folder(folder) => folder.join(name),
            Self::Single(path) => path.clone(),
        };
        match File::open(&path) {
            Ok(file) => Ok(Box::new(BufReader::with_capacity(1 << 16, file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(DatasetError::NotFound {
                path: path.display().to_string(),
            }),
            Err(source) => Err(DatasetError::Unreadable {
                file: path.display().to_string(),
                source,
            }),
        }
    }
}
