//! The record beside a cached model: its files, their source and their digests.
//!
//! It is written last, so a folder without it was interrupted. Its sizes, times and digests reveal
//! later damage.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    catalogue::ModelKind,
    digest::{self, Stamp},
    error::ModelError,
    progress::Reporter,
};

/// Name of the manifest in a model's folder.
pub const FILE: &str = "isomer-model.json";
const FORMAT: u32 = 1;

/// The contents of a cached model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Id under which it was requested.
    pub id: String,
    /// Encoder or generator.
    pub kind: ModelKind,
    /// `hub:org/name@commit` or `pypi:name==version`.
    pub source: String,
    /// Commit on the hub, or `name==version` of the first package.
    pub revision: String,
    /// Folder of the files if it is not the manifest's own: the hub's cache, shared with other
    /// programs.
    pub root: Option<PathBuf>,
    /// Files of the weights, relative to the folder.
    pub weights: Vec<String>,
    /// Digest of the weights: of the single file, or of all together.
    pub weights_digest: String,
    pub files: Vec<FileNote>,
}

/// One file of a cached model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileNote {
    /// Relative to the folder, with `/`.
    pub path: String,
    /// Size and modification time when it was stored.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// sha256, hex.
    pub sha256: String,
}

/// The state of a cached model.
#[derive(Debug)]
pub(crate) enum CacheState {
    /// No folder.
    Absent,
    /// Valid, as far as it was checked.
    Present(Manifest),
    /// It is damaged; one line per problem.
    Damaged(Vec<String>),
}

impl Manifest {
    /// A manifest without files.
    pub(crate) fn new(id: &str, kind: ModelKind, source: String, revision: String) -> Self {
        Self {
            format: FORMAT,
            id: id.to_owned(),
            kind,
            source,
            revision,
            root: None,
            weights: Vec::new(),
            weights_digest: String::new(),
            files: Vec::new(),
        }
    }

    /// Digests the files `paths` under `folder`, or under the manifest's own root if it has one,
    /// and records them.
    pub(crate) fn record(
        mut self,
        folder: &Path,
        paths: Vec<String>,
        weights: Vec<String>,
        reporter: Option<&Reporter>,
    ) -> Result<Self, ModelError> {
        for path in paths {
            let full = self.root(folder).join(&path);
            self.files.push(FileNote {
                stamp: Stamp::of(&full)?,
                sha256: digest::file_reporting(&full, reporter)?,
                path,
            });
        }
        let root = self.root(folder);
        let of_weights = weights
            .iter()
            .map(|name| {
                let note = self.files.iter().find(|note| note.path == *name);
                let note = note.ok_or_else(|| ModelError::PathMissing { path: root.join(name) })?;
                Ok((name.clone(), note.sha256.clone()))
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        self.weights_digest = digest::together(of_weights);
        self.weights = weights;
        Ok(self)
    }

    /// The location of the files, for a manifest in `folder`.
    pub fn root<'a>(&'a self, folder: &'a Path) -> &'a Path {
        self.root.as_deref().unwrap_or(folder)
    }

    /// The location of the model: the folder of an encoder, the file of a generator.
    pub fn model_path(&self, folder: &Path) -> PathBuf {
        let root = self.root(folder);
        match (self.kind, self.weights.first()) {
            (ModelKind::Generator, Some(file)) => root.join(file),
            _ => root.to_path_buf(),
        }
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), ModelError> {
        digest::write_json(&folder.join(FILE), self)
    }

    fn read(folder: &Path) -> Result<Self, String> {
        let data =
            std::fs::read(folder.join(FILE)).map_err(|_| format!("{FILE} is missing: the fetch was interrupted"))?;
        let manifest: Self =
            serde_json::from_slice(&data).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
        if manifest.format != FORMAT {
            return Err(format!(
                "{FILE} is of form {}, this program reads form {FORMAT}",
                manifest.format
            ));
        }
        Ok(manifest)
    }

    /// The manifest of a folder, without a check.
    pub(crate) fn peek(folder: &Path) -> Option<Self> {
        Self::read(folder).ok()
    }

    /// The cheap check of sizes and times. If only a time differs, that file is digested; if the
    /// digest matches, the manifest is updated (a copied or restored cache keeps contents, not
    /// times).
    pub(crate) fn look(folder: &Path) -> CacheState {
        Self::examine(folder, false, None)
    }

    /// The full check: every digest.
    pub(crate) fn verify(folder: &Path, reporter: Option<&Reporter>) -> CacheState {
        Self::examine(folder, true, reporter)
    }

    fn examine(folder: &Path, every_digest: bool, reporter: Option<&Reporter>) -> CacheState {
        if !folder.exists() {
            return CacheState::Absent;
        }
        let mut manifest = match Self::read(folder) {
            Ok(manifest) => manifest,
            Err(problem) => return CacheState::Damaged(vec![problem]),
        };
        let root = manifest.root(folder).to_path_buf();
        let (mut problems, mut moved) = (Vec::new(), false);
        for note in &mut manifest.files {
            let path = root.join(&note.path);
            let Ok(stamp) = Stamp::of(&path) else {
                problems.push(format!("{} is missing", note.path));
                continue;
            };
            if stamp.size != note.stamp.size {
                problems.push(format!(
                    "{} has {} bytes, expected {}",
                    note.path, stamp.size, note.stamp.size
                ));
                continue;
            }
            if !every_digest && stamp == note.stamp {
                continue;
            }
            match digest::file_reporting(&path, reporter) {
                Ok(found) if found == note.sha256 => {
                    moved |= stamp != note.stamp;
                    note.stamp = stamp;
                }
                Ok(found) => {
                    problems.push(format!("{} has sha256 {found}, expected {}", note.path, note.sha256));
                }
                Err(error) => problems.push(error.to_string()),
            }
        }
        if !problems.is_empty() {
            return CacheState::Damaged(problems);
        }
        if moved && let Err(error) = manifest.write(folder) {
            tracing::debug!(%error, "the manifest's times could not be brought up to date");
        }
        CacheState::Present(manifest)
    }
}

/// Relative paths (with `/`) of the files under a folder, in order. Links are followed; hidden
/// files and the manifest are left out.
pub fn files_under(root: &Path) -> Result<Vec<String>, ModelError> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).map_err(ModelError::io("reading", &path))? {
            let entry = entry.map_err(ModelError::io("reading", &path))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') || name == FILE {
                continue;
            }
            let relative = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            if entry.path().is_dir() {
                folders.push(relative);
            } else {
                found.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}
