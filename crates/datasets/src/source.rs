//! The source of a dataset.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use super::{
    DatasetError, LoadOptions, builtin, card,
    files::{Files, Table},
    hub_ref::HubRef,
    row::FieldMap,
};

/// The location of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Shipped with Isomer, e.g. `quick/sts`.
    Builtin(String),
    /// A folder, or one file for the single-file tasks.
    Path(PathBuf),
    /// Files sent with the request, in the layout of a folder.
    Inline(Vec<InlineFile>),
    /// A name in the catalogue; `locate::DatasetLocator::locate` finds its location.
    Catalogue(String),
    /// On the Hugging Face hub; `locate::DatasetLocator::locate` fetches it.
    Hub(HubRef),
    /// A data set on the hub, after `locate::DatasetLocator::locate` has fetched it.
    Fetched(HubFiles),
}

/// A file sent with the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineFile {
    /// Relative path, e.g. `qrels/test.tsv`.
    pub path: String,
    pub content: Vec<u8>,
}

/// Files of a data set on the hub, in this machine's cache or in a copy of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFiles {
    /// `org/name`, with the configuration if there is one.
    pub id: String,
    /// The commit; `None` for a copy, which does not record it.
    pub commit: Option<String>,
    /// Folder of that commit.
    pub folder: PathBuf,
    /// Name of each table as the layout looks for it (`test.jsonl`, `qrels/test.tsv`), and its
    /// files in order, relative to the folder.
    pub tables: Vec<(String, Vec<String>)>,
}

impl Source {
    /// A source in a user's notation: a dataset that ships with Isomer, a Hugging Face id, or else
    /// a name in the catalogue.
    pub fn named(name: &str) -> Self {
        if super::BUILTIN_NAMES.contains(&name) {
            return Self::Builtin(name.to_owned());
        }
        match HubRef::parse(name) {
            Some(hub) => Self::Hub(hub),
            None => Self::Catalogue(name.to_owned()),
        }
    }

    /// Default name for reports: the name of the built-in, of the folder, or of a file not simply
    /// called `test.jsonl`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Builtin(name) | Self::Catalogue(name) => name.clone(),
            Self::Inline(_) => "inline".to_owned(),
            Self::Hub(hub) => hub.to_string(),
            Self::Fetched(fetched) => fetched.id.clone(),
            Self::Path(path) => {
                let stem = |p: &Path| {
                    let name = p.file_name()?.to_string_lossy().into_owned();
                    match super::format::stem(&name) {
                        Some((stem, _)) => Some(stem.to_owned()),
                        None => p.file_stem().map(|s| s.to_string_lossy().into_owned()),
                    }
                };
                let is_split = stem(path).is_some_and(|s| {
                    let split = s.split('.').next().unwrap_or_default();
                    matches!(split, "test" | "train" | "dev" | "validation")
                });
                let folder = if path.is_file() && is_split {
                    path.parent()
                } else {
                    None
                };
                let folder_name = |p: &Path| {
                    let real = p.canonicalize().ok()?;
                    real.file_name().map(|s| s.to_string_lossy().into_owned())
                };
                let named = match folder {
                    Some(folder) => folder_name(folder),
                    None if path.is_dir() => folder_name(path),
                    None => stem(path),
                };
                named.unwrap_or_else(|| path.display().to_string())
            }
        }
    }

    /// The language in the card of its folder.
    pub(super) fn card_language(&self, options: &LoadOptions) -> Option<String> {
        let folder = match self {
            Self::Path(path) if path.is_dir() => path,
            Self::Fetched(fetched) => &fetched.folder,
            _ => return None,
        };
        card::language(&card::of_folder(folder, options.root.as_deref()))
    }

    /// The hub's commit of the fetched version.
    pub(super) fn revision(&self) -> Option<String> {
        match self {
            Self::Fetched(fetched) => fetched.commit.clone(),
            _ => None,
        }
    }

    pub(super) fn files(&self, options: &LoadOptions) -> Result<Files<'_>, DatasetError> {
        let fields = Arc::new(options.fields.clone());
        let files = self.unrestricted(options, fields)?;
        Ok(files.below(options.root.as_deref()))
    }

    fn unrestricted(&self, options: &LoadOptions, fields: Arc<FieldMap>) -> Result<Files<'_>, DatasetError> {
        match self {
            Self::Builtin(name) => {
                let files = builtin::files(name).ok_or_else(|| DatasetError::UnknownBuiltin { name: name.clone() })?;
                Ok(Files::in_memory(format!("built-in {name}"), files, fields))
            }
            Self::Path(path) => match fs::metadata(path) {
                Ok(found) if found.is_dir() => Files::in_folder(path, options.root.as_deref(), fields),
                Ok(_) => Ok(Files::one(path, fields)),
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
                let files: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.content.as_slice())).collect();
                Ok(Files::in_memory("inline files".to_owned(), &files, fields))
            }
            Self::Fetched(fetched) => {
                let commit = fetched
                    .commit
                    .as_ref()
                    .map(|commit| format!("@{commit}"))
                    .unwrap_or_default();
                let place = format!("{}{commit}", fetched.id);
                let tables = fetched.tables.iter().map(|(name, files)| {
                    let paths = files.iter().map(|file| fetched.folder.join(file));
                    Table::of_files(name.clone(), paths)
                });
                Ok(Files::of_tables(place, tables.collect(), fields))
            }
            Self::Hub(hub) => Err(DatasetError::Hub {
                dataset: hub.to_string(),
                message: "it was not fetched; this is read through a service".to_owned(),
            }),
            Self::Catalogue(name) => Err(DatasetError::NotFound { path: name.clone() }),
        }
    }
}
