//! The Hugging Face hub. It uses the hub's own cache layout, so that files fetched by Python are
//! found and vice versa.

mod choose;
mod dataset;
mod download;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hf_hub::{
    Cache, Repo, RepoType,
    api::tokio::{Api, ApiBuilder, ApiError},
};
use parking_lot::Mutex;

pub use choose::HubModel;
pub use dataset::{ChooseError, HubDataset};
pub use download::Terms;
pub(crate) use download::is_etag;

use crate::{catalogue::ModelKind, config::ModelsConfig, error::ModelError, progress::Reporter};
use choose::wanted_files;
use download::Wanted;

/// A download that receives no byte for this long counts as broken off.
const STALLED: Duration = Duration::from_secs(60);
/// A hub found unreachable is not asked again for this long.
const REST: Duration = Duration::from_secs(60);

/// Whether a hub may list files of these names.
pub(crate) fn may_list(names: &[String]) -> bool {
    download::check_listed(names).is_ok()
}

/// A repository's files in the hub's cache.
#[derive(Debug)]
pub struct Snapshot {
    /// Folder of that commit.
    pub folder: PathBuf,
    /// The commit.
    pub commit: String,
    /// The wanted files, relative to the folder.
    pub files: Vec<String>,
}

/// Why the hub failed, and whether another source may be tried.
#[derive(Debug)]
pub(crate) enum HubFailure {
    /// No connection, no answer in time, or a server error.
    Unreachable(String),
    /// An answer that does not give the model.
    Refused {
        /// What happened.
        message: String,
        /// How to fix it.
        hint: String,
    },
}

impl HubFailure {
    fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub(crate) fn into_error(self, endpoint: &str, repository: &impl std::fmt::Display) -> ModelError {
        let (message, hint) = match self {
            Self::Unreachable(message) => (
                message,
                "check the network, a proxy, or HF_ENDPOINT; or give a folder instead of an id".to_owned(),
            ),
            Self::Refused { message, hint } => (message, hint),
        };
        ModelError::Hub {
            endpoint: endpoint.to_owned(),
            repo: repository.to_string(),
            message,
            hint,
        }
    }
}

impl std::fmt::Display for HubFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(message) => write!(f, "unreachable: {message}"),
            Self::Refused { message, .. } => f.write_str(message),
        }
    }
}

/// A client of the hub.
#[derive(Debug)]
pub(crate) struct Hub {
    endpoint: String,
    cache: Cache,
    token: Option<String>,
    timeout: Duration,
    /// Folder of the listings of data sets.
    listings: PathBuf,
    unreachable: Mutex<Option<(Instant, String)>>,
}

impl Hub {
    pub(crate) fn new(config: &ModelsConfig) -> Self {
        let cache = Cache::new(config.hub_cache());
        let from_env = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|token| !token.trim().is_empty()));
        let token = from_env.or_else(|| cache.token());
        Self {
            endpoint: config.hub_endpoint(),
            cache,
            token,
            timeout: Duration::from_secs_f64(config.hub_timeout_s),
            listings: config.home.join("datasets"),
            unreachable: Mutex::new(None),
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn api(&self, terms: Terms) -> Result<Api, HubFailure> {
        ApiBuilder::from_cache(self.cache.clone())
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone().filter(|_| !terms.anonymous))
            .with_progress(false)
            .build()
            .map_err(|error| HubFailure::refused(error.to_string(), "check HF_ENDPOINT and HF_TOKEN"))
    }

    /// A repository in the hub's cache, without a network: the pinned commit, or the last known
    /// commit of the branch.
    fn snapshot(&self, handle: &Repo) -> Option<(PathBuf, String, Vec<String>)> {
        let folder = self.cache.path().join(handle.folder_name());
        let commit = std::fs::read_to_string(folder.join("refs").join(handle.revision()))
            .ok()
            .map(|commit| commit.trim().to_owned())
            .unwrap_or_else(|| handle.revision().to_owned());
        if !isomer_config::spelling::is_plain_name(&commit) {
            return None;
        }
        let folder = self.cache.repo(handle.clone()).pointer_path(&commit);
        let present = crate::manifest::files_under(&folder).ok()?;
        Some((folder, commit, present))
    }

    /// The model in the hub's cache, without a network.
    pub(crate) fn cached(&self, model: &HubModel, kind: ModelKind, weights: Option<&str>) -> Option<Snapshot> {
        let (folder, commit, present) = self.snapshot(&model.handle())?;
        let files = wanted_files(&present, model, kind, weights).ok()?;
        let complete = match kind {
            ModelKind::Encoder => crate::folder::inspect(&folder, kind).is_ok(),
            ModelKind::Generator => files.iter().all(|file| folder.join(file).is_file()),
        };
        complete.then_some(Snapshot { folder, commit, files })
    }

    /// Fetches the model into the hub's cache.
    ///
    /// `expected` gives the expected sha256 of a file. It is compared with the hub's announcement
    /// before the download starts.
    pub(crate) async fn fetch(
        &self,
        model: &HubModel,
        kind: ModelKind,
        weights: Option<&str>,
        expected: impl Fn(&str) -> Option<String>,
        reporter: &Reporter,
    ) -> Result<Snapshot, HubFailure> {
        self.unless_resting(async {
            let choose = |listed: &[String]| wanted_files(listed, model, kind, weights);
            self.fetch_now(&model.handle(), model, Terms::default(), choose, expected, reporter)
                .await
        })
        .await
    }

    /// Runs `asked`, unless the hub was found unreachable a moment ago.
    async fn unless_resting<T>(&self, asked: impl Future<Output = Result<T, HubFailure>>) -> Result<T, HubFailure> {
        if let Some((when, why)) = &*self.unreachable.lock()
            && when.elapsed() < REST
        {
            return Err(HubFailure::Unreachable(format!("{why} (not asked again yet)")));
        }
        let result = asked.await;
        if let Err(HubFailure::Unreachable(why)) = &result {
            *self.unreachable.lock() = Some((Instant::now(), why.clone()));
        }
        result
    }

    /// Fetches the files of a repository that `choose` picks. Messages refer to the repository as
    /// `name`.
    async fn fetch_now(
        &self,
        handle: &Repo,
        name: &impl std::fmt::Display,
        terms: Terms,
        choose: impl Fn(&[String]) -> Result<Vec<String>, HubFailure>,
        expected: impl Fn(&str) -> Option<String>,
        reporter: &Reporter,
    ) -> Result<Snapshot, HubFailure> {
        reporter.say(format!("asking {} for {name}", self.endpoint));
        let api = self.api(terms)?;
        let (commit, listed) = self.list(&api, handle, name).await?;
        let files = choose(&listed)?;
        let cached = self.cache.repo(handle.clone());
        let folder = cached.pointer_path(&commit);
        for file in files.iter().filter(|file| !folder.join(file).is_file()) {
            let url = api.repo(at_commit(handle, &commit)).url(file);
            if let Some(wanted) = expected(file) {
                self.check_announced(&api, &url, file, &wanted).await?;
            }
            let wanted = Wanted {
                api: api.clone(),
                cache: self.cache.repo(handle.clone()),
                url,
                commit: commit.clone(),
                file: file.clone(),
                name: name.to_string(),
                max_bytes: terms.max_file_bytes,
            };
            self.download(wanted, reporter).await?;
        }
        // Python looks up a branch by this reference.
        if let Err(error) = cached.create_ref(&commit) {
            tracing::debug!(%error, "the hub's branch could not be noted in its cache");
        }
        Ok(Snapshot { folder, commit, files })
    }

    /// Downloads one file into the hub's cache, in a separate task, since the client may panic on
    /// an unexpected answer.
    async fn download(&self, wanted: Wanted, reporter: &Reporter) -> Result<(), HubFailure> {
        let file = wanted.file.clone();
        let heartbeat = Arc::new(AtomicU64::new(0));
        let progress = Downloading {
            what: "".into(),
            total: 0,
            heartbeat: Arc::clone(&heartbeat),
            reporter: reporter.clone(),
        };
        // A `JoinSet`, because its tasks end when it is dropped.
        let mut task = tokio::task::JoinSet::new();
        task.spawn(wanted.fetch(progress));
        tokio::select! {
            ended = task.join_next() => match ended {
                Some(Ok(done)) => done,
                Some(Err(_)) | None => Err(HubFailure::refused(
                    format!("{file}: its answer is not understood"),
                    "is HF_ENDPOINT a Hugging Face hub?",
                )),
            },
            () = stalled(&heartbeat) => {
                Err(HubFailure::Unreachable(format!("{file}: no byte came for {} s", STALLED.as_secs())))
            }
        }
    }

    /// The commit and the names of its files. The call has a timeout, since it is the first to
    /// notice an unreachable hub.
    async fn list(
        &self,
        api: &Api,
        handle: &Repo,
        name: &impl std::fmt::Display,
    ) -> Result<(String, Vec<String>), HubFailure> {
        let asked = async {
            let response = api
                .repo(handle.clone())
                .info_request()
                .send()
                .await?
                .error_for_status()?;
            response.json::<hf_hub::api::RepoInfo>().await
        };
        let info = match tokio::time::timeout(self.timeout, asked).await {
            Err(_) => {
                return Err(HubFailure::Unreachable(format!(
                    "no answer within {:.1} s",
                    self.timeout.as_secs_f64()
                )));
            }
            Ok(Err(error)) if error.is_decode() => {
                return Err(HubFailure::refused(
                    format!("its answer is not understood: {}", root_cause(&error)),
                    "is HF_ENDPOINT a Hugging Face hub?",
                ));
            }
            Ok(Err(error)) => return Err(failure(error.into(), name)),
            Ok(Ok(info)) => info,
        };
        if !isomer_config::spelling::is_plain_name(&info.sha) {
            return Err(HubFailure::refused(
                format!("it named the commit `{}`", info.sha),
                "is HF_ENDPOINT a Hugging Face hub?",
            ));
        }
        let files: Vec<String> = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        download::check_listed(&files)?;
        Ok((info.sha, files))
    }

    /// The hub announces the sha256 of large files. A file that differs from the catalogue's is not
    /// fetched.
    async fn check_announced(&self, api: &Api, url: &str, file: &str, wanted: &str) -> Result<(), HubFailure> {
        let metadata = tokio::time::timeout(self.timeout, api.metadata(url)).await;
        let Ok(Ok(metadata)) = metadata else { return Ok(()) };
        let etag = metadata.etag().to_ascii_lowercase();
        if etag.len() == 64 && etag.chars().all(|c| c.is_ascii_hexdigit()) && etag != wanted {
            return Err(HubFailure::refused(
                format!("{file} there has sha256 {etag}, expected {wanted}; it was not fetched"),
                "pin a revision whose file has that digest in a catalogue of your own",
            ));
        }
        Ok(())
    }
}

/// Tells connection failures from answers that refuse.
fn failure(error: ApiError, name: &impl std::fmt::Display) -> HubFailure {
    let ApiError::RequestError(request) = &error else {
        return HubFailure::refused(
            error.to_string(),
            "try again, or remove the repository from the hub's cache",
        );
    };
    let status = request.status().map(|status| status.as_u16());
    match status {
        Some(401 | 403) => HubFailure::refused(
            format!("access refused (HTTP {})", status.unwrap_or_default()),
            "accept the terms on its page and set HF_TOKEN",
        ),
        Some(404) => HubFailure::refused(
            format!("no repository or revision `{name}` (HTTP 404)"),
            "check the spelling; a private repository needs HF_TOKEN",
        ),
        Some(code @ (408 | 429 | 500..=599)) => HubFailure::Unreachable(format!("HTTP {code}")),
        Some(code) => HubFailure::refused(format!("HTTP {code}"), "check HF_ENDPOINT"),
        None => HubFailure::Unreachable(root_cause(request)),
    }
}

/// The same repository, at this commit.
fn at_commit(handle: &Repo, commit: &str) -> Repo {
    let (kind, id) = match handle.url().split_once("datasets/") {
        Some(("", id)) => (RepoType::Dataset, id.to_owned()),
        _ => (RepoType::Model, handle.url()),
    };
    Repo::with_revision(id, kind, commit.to_owned())
}

/// The innermost cause: the outer ones only say that a request failed, and repeat its address.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

async fn stalled(heartbeat: &AtomicU64) {
    let mut last = heartbeat.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(STALLED).await;
        let now = heartbeat.load(Ordering::Relaxed);
        if now == last {
            return;
        }
        last = now;
    }
}

#[derive(Clone)]
struct Downloading {
    what: Arc<str>,
    total: u64,
    heartbeat: Arc<AtomicU64>,
    reporter: Reporter,
}

impl hf_hub::api::tokio::Progress for Downloading {
    async fn init(&mut self, size: usize, filename: &str) {
        self.what = format!("downloading {filename}").into();
        self.total = size as u64;
        self.reporter.at(Arc::clone(&self.what), 0, Some(self.total));
    }

    async fn update(&mut self, size: usize) {
        // Every chunk gets a clone of this; the sum of all is in the shared counter.
        let done = self.heartbeat.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
        self.reporter.at(Arc::clone(&self.what), done, Some(self.total));
    }

    async fn finish(&mut self) {
        self.reporter.at(Arc::clone(&self.what), self.total, Some(self.total));
    }
}
