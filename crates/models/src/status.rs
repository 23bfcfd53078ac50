//! The contents of the cache, and whether they are valid.

use std::{fmt, path::PathBuf};

use serde::Serialize;

use crate::{
    catalogue::ModelKind,
    install::{Source, check},
    manifest::{CacheState, Manifest},
    progress::{NoProgress, Progress, Reporter, drive},
    resolver::{ModelRequest, Resolver, against_catalogue, blocking},
};

/// Whether a model is in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state", content = "problems")]
pub enum ModelState {
    /// Not fetched yet.
    Absent,
    /// Available; sizes and times are unchanged.
    Present,
    /// Damaged; one line per problem. The next use fetches it again.
    Damaged(Vec<String>),
}

impl fmt::Display for ModelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Absent => "absent",
            Self::Present => "present",
            Self::Damaged(_) => "damaged",
        })
    }
}

/// One line of `isomer models list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    pub id: String,
    /// Encoder or generator.
    pub kind: ModelKind,
    /// Size of the weights in bytes (catalogue), or of all files (a cached model outside the
    /// catalogue).
    pub bytes: u64,
    /// Licence of the weights; empty if unknown.
    pub licence: String,
    /// One-line description.
    pub description: String,
    /// Whether it is in the cache.
    #[serde(flatten)]
    pub state: ModelState,
    /// Source of the cached copy or, if absent, the first source that would be tried.
    pub source: String,
    /// Its location if available: the folder of an encoder, the file of a generator.
    pub path: Option<PathBuf>,
}

/// The result of a full check of a cached model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum VerifyState {
    /// Every file has its recorded digest.
    Sound { files: usize, bytes: u64 },
    /// Not in the cache.
    Absent,
    /// One line per problem. The next use fetches it again.
    Damaged {
        /// The problems, one per element.
        problems: Vec<String>,
    },
    /// Neither in the catalogue nor in the cache.
    Unknown {
        /// Catalogue ids of similar spelling.
        nearest: Vec<String>,
    },
}

/// One line of `isomer models verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    pub id: String,
    /// The result of the check.
    #[serde(flatten)]
    pub state: VerifyState,
}

impl VerifyReport {
    /// Whether every file has its digest.
    pub fn is_sound(&self) -> bool {
        matches!(self.state, VerifyState::Sound { .. })
    }
}

impl Resolver {
    /// Every model of the catalogue, then other models in the cache. Sizes and times are checked,
    /// but not digests.
    pub fn list(&self) -> Vec<ModelStatus> {
        let of_catalogue = self.catalogue().iter().map(|entry| {
            let request = ModelRequest::of_entry(entry);
            let first_asked = match (&entry.hub, &entry.pypi) {
                (Some(hub), _) if self.config().hub => format!("hub:{}", hub.repo),
                (_, Some(pypi)) => pypi.packages.first().map(|p| format!("pypi:{p}")).unwrap_or_default(),
                (Some(hub), None) => format!("hub:{}", hub.repo),
                (None, None) => String::new(),
            };
            let (state, source, path) = self.state_of(&request);
            ModelStatus {
                id: entry.id.clone(),
                kind: entry.kind,
                bytes: entry.bytes,
                licence: entry.licence.clone(),
                description: entry.description.clone(),
                state,
                source: source.unwrap_or(first_asked),
                path,
            }
        });
        let others = self.uncatalogued().into_iter().map(|(request, manifest)| {
            let (state, source, path) = self.state_of(&request);
            ModelStatus {
                id: request.id,
                kind: request.kind,
                bytes: manifest.files.iter().map(|note| note.stamp.size).sum(),
                licence: String::new(),
                description: String::new(),
                state,
                source: source.unwrap_or(manifest.source),
                path,
            }
        });
        of_catalogue.chain(others).collect()
    }

    fn state_of(&self, request: &ModelRequest) -> (ModelState, Option<String>, Option<PathBuf>) {
        match self.look(request) {
            CacheState::Absent => (ModelState::Absent, None, None),
            CacheState::Damaged(problems) => (ModelState::Damaged(problems), None, None),
            CacheState::Present(manifest) => {
                let path = manifest.model_path(&self.folder_of(request));
                (ModelState::Present, Some(manifest.source), Some(path))
            }
        }
    }

    /// Cached models that no catalogue entry names, in order of their ids.
    pub(crate) fn uncatalogued(&self) -> Vec<(ModelRequest, Manifest)> {
        let Ok(folders) = std::fs::read_dir(self.config().models_dir()) else {
            return Vec::new();
        };
        let mut found: Vec<(ModelRequest, Manifest)> = folders
            .filter_map(|folder| {
                let folder = folder.ok()?.path();
                let name = folder.file_name()?.to_str()?.to_owned();
                if name.starts_with('.') || self.entry(&name).is_some() {
                    return None;
                }
                let manifest = Manifest::peek(&folder)?;
                let (id, kind) = (manifest.id.clone(), manifest.kind);
                Some((
                    ModelRequest {
                        id,
                        kind,
                        folder: name,
                        entry: None,
                        hub: None,
                    },
                    manifest,
                ))
            })
            .collect();
        found.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        found
    }

    /// Digests every file of one cached model, or of all (absent ones are then skipped). Compares
    /// the digests with those recorded at the fetch and with the catalogue. Repairs nothing.
    pub async fn verify(&self, id: Option<&str>) -> Vec<VerifyReport> {
        self.verify_with(id, &NoProgress).await
    }

    /// [`Resolver::verify`], with progress.
    pub async fn verify_with(&self, id: Option<&str>, progress: &dyn Progress) -> Vec<VerifyReport> {
        let all = self
            .catalogue()
            .iter()
            .map(ModelRequest::of_entry)
            .chain(self.uncatalogued().into_iter().map(|(request, _)| request));
        let chosen: Vec<ModelRequest> = all.filter(|request| id.is_none_or(|id| request.id == id)).collect();
        if let (Some(id), true) = (id, chosen.is_empty()) {
            let state = VerifyState::Unknown {
                nearest: self.catalogue().nearest(id),
            };
            return vec![VerifyReport {
                id: id.to_owned(),
                state,
            }];
        }
        let mut reports = Vec::new();
        for request in chosen {
            let (this, name) = (self.clone(), request.id.clone());
            let work = |reporter: Reporter| blocking(move || Ok(this.verify_one(&request, &reporter)));
            let state = drive(progress, work)
                .await
                .unwrap_or_else(|error| VerifyState::Damaged {
                    problems: vec![error.to_string()],
                });
            if id.is_some() || state != VerifyState::Absent {
                reports.push(VerifyReport { id: name, state });
            }
        }
        reports
    }

    fn verify_one(&self, request: &ModelRequest, reporter: &Reporter) -> VerifyState {
        let folder = self.folder_of(request);
        match against_catalogue(Manifest::verify(&folder, Some(reporter)), request) {
            CacheState::Absent => VerifyState::Absent,
            CacheState::Damaged(problems) => VerifyState::Damaged { problems },
            CacheState::Present(manifest) => {
                let source = if manifest.source.starts_with("hub:") {
                    Source::Hub
                } else {
                    Source::Pypi
                };
                match check(&manifest, manifest.root(&folder), request.entry.as_ref(), source) {
                    Ok(()) => VerifyState::Sound {
                        files: manifest.files.len(),
                        bytes: manifest.files.iter().map(|note| note.stamp.size).sum(),
                    },
                    Err(error) => VerifyState::Damaged {
                        problems: vec![error.to_string()],
                    },
                }
            }
        }
    }
}
