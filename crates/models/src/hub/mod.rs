//! The Hugging Face hub. It uses the hub's own cache layout, so that files fetched by Python are
//! found and vice versa.

mod choose;
mod client;
mod dataset;
mod download;
mod repository;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

pub use choose::HubModel;
pub use dataset::{ChooseError, HubDataset};
pub use download::Terms;
pub(crate) use download::is_etag;

use crate::{catalogue::ModelKind, config::ModelsConfig, error::ModelError, progress::Reporter};
use choose::wanted_files;
use client::{Client, RequestError};
use download::FileDownload;
use repository::Repository;

/// A download that receives no byte for this long counts as interrupted.
const STALLED: Duration = Duration::from_secs(60);
/// How long an unreachable hub is not queried again.
const REST: Duration = Duration::from_secs(60);

/// Whether all names may appear in a hub's listing.
pub(crate) fn may_list(names: &[String]) -> bool {
    download::check_listed(names).is_ok()
}

/// A repository's files in the hub's cache.
#[derive(Debug)]
pub struct Snapshot {
    /// Folder of that commit.
    pub folder: PathBuf,
    pub commit: String,
    /// The requested files, relative to the folder.
    pub files: Vec<String>,
}

/// The reason why the hub failed, and whether another source may be tried.
#[derive(Debug)]
pub(crate) enum HubFailure {
    /// No connection, no answer in time, or a server error.
    Unreachable(String),
    /// An answer that does not contain the model.
    Refused { message: String, hint: String },
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
    cache: PathBuf,
    token: Option<String>,
    timeout: Duration,
    /// Folder of the listings of data sets.
    listings: PathBuf,
    unreachable: Mutex<Option<(Instant, String)>>,
}

impl Hub {
    pub(crate) fn new(config: &ModelsConfig) -> Self {
        let cache = config.hub_cache();
        let from_env = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|token| !token.trim().is_empty()));
        let token = from_env.or_else(|| token_beside(&cache));
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

    fn client(&self, terms: Terms) -> Result<Client, HubFailure> {
        Client::new(self.token.as_deref().filter(|_| !terms.anonymous))
            .map_err(|message| HubFailure::refused(message, "check HF_TOKEN"))
    }

    /// A repository in the hub's cache, without network access: the pinned commit, or the last
    /// known commit of the branch.
    fn snapshot(&self, repository: &Repository) -> Option<(PathBuf, String, Vec<String>)> {
        let cached = repository.within(&self.cache);
        let commit = cached
            .commit(&repository.revision)
            .unwrap_or_else(|| repository.revision.clone());
        if !isomer_config::spelling::is_plain_name(&commit) {
            return None;
        }
        let folder = cached.snapshot(&commit);
        let present = crate::manifest::files_under(&folder).ok()?;
        Some((folder, commit, present))
    }

    /// The model in the hub's cache, without network access.
    pub(crate) fn cached(&self, model: &HubModel, kind: ModelKind, weights: Option<&str>) -> Option<Snapshot> {
        let (folder, commit, present) = self.snapshot(&model.repository())?;
        let files = wanted_files(&present, model, kind, weights).ok()?;
        let complete = match kind {
            ModelKind::Encoder => crate::folder::inspect(&folder, kind).is_ok(),
            ModelKind::Generator => files.iter().all(|file| folder.join(file).is_file()),
        };
        complete.then_some(Snapshot { folder, commit, files })
    }

    /// Fetches the model into the hub's cache.
    ///
    /// `expected` gives the expected sha256 of a file. It is compared with the hub's announced
    /// value before the download starts.
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
            self.fetch_now(&model.repository(), model, Terms::default(), choose, expected, reporter)
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

    /// Fetches the files that `choose` selects from a repository. Messages refer to the repository
    /// as `name`.
    async fn fetch_now(
        &self,
        repository: &Repository,
        name: &impl std::fmt::Display,
        terms: Terms,
        choose: impl Fn(&[String]) -> Result<Vec<String>, HubFailure>,
        expected: impl Fn(&str) -> Option<String>,
        reporter: &Reporter,
    ) -> Result<Snapshot, HubFailure> {
        reporter.say(format!("asking {} for {name}", self.endpoint));
        let client = self.client(terms)?;
        let (commit, listed) = self.list(&client, repository, name).await?;
        let files = choose(&listed)?;
        let cached = repository.within(&self.cache);
        let folder = cached.snapshot(&commit);
        for file in files.iter().filter(|file| !folder.join(file).is_file()) {
            let url = repository.file(&self.endpoint, &commit, file);
            if let Some(file_download) = expected(file) {
                self.check_announced(&client, &url, file, &file_download).await?;
            }
            let file_download = FileDownload {
                client: client.clone(),
                cached: cached.clone(),
                url,
                commit: commit.clone(),
                file: file.clone(),
                name: name.to_string(),
                max_bytes: terms.max_file_bytes,
            };
            self.download(file_download, reporter).await?;
        }
        // Python looks up a branch by this reference.
        if let Err(error) = cached.record(&repository.revision, &commit) {
            tracing::debug!(%error, "the hub's branch could not be noted in its cache");
        }
        Ok(Snapshot { folder, commit, files })
    }

    /// Downloads one file into the hub's cache.
    async fn download(&self, file_download: FileDownload, reporter: &Reporter) -> Result<(), HubFailure> {
        let file = file_download.file.clone();
        let heartbeat = Arc::new(AtomicU64::new(0));
        let progress = DownloadProgress {
            what: "".into(),
            total: 0,
            heartbeat: Arc::clone(&heartbeat),
            reporter: reporter.clone(),
        };
        tokio::select! {
            done = file_download.fetch(progress) => done,
            () = stalled(&heartbeat) => {
                Err(HubFailure::Unreachable(format!("{file}: no byte came for {} s", STALLED.as_secs())))
            }
        }
    }

    /// The commit and the names of its files. The call has a timeout, because it is the first to
    /// notice an unreachable hub.
    async fn list(
        &self,
        client: &Client,
        repository: &Repository,
        name: &impl std::fmt::Display,
    ) -> Result<(String, Vec<String>), HubFailure> {
        let url = repository.listing(&self.endpoint);
        let asked = client.list(&url);
        let listing = match tokio::time::timeout(self.timeout, asked).await {
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
            Ok(Ok(listing)) => listing,
        };
        if !isomer_config::spelling::is_plain_name(&listing.sha) {
            return Err(HubFailure::refused(
                format!("it named the commit `{}`", listing.sha),
                "is HF_ENDPOINT a Hugging Face hub?",
            ));
        }
        let commit = listing.sha.clone();
        let files = listing.files();
        download::check_listed(&files)?;
        Ok((commit, files))
    }

    /// The hub announces the sha256 of large files. A file that differs from the catalogue's is not
    /// fetched.
    async fn check_announced(
        &self,
        client: &Client,
        url: &str,
        file: &str,
        file_download: &str,
    ) -> Result<(), HubFailure> {
        let metadata = tokio::time::timeout(self.timeout, client.metadata(url)).await;
        let Ok(Ok(metadata)) = metadata else { return Ok(()) };
        let etag = metadata.etag.to_ascii_lowercase();
        if etag.len() == 64 && etag.chars().all(|c| c.is_ascii_hexdigit()) && etag != file_download {
            return Err(HubFailure::refused(
                format!("{file} there has sha256 {etag}, expected {file_download}; it was not fetched"),
                "pin a revision whose file has that digest in a catalogue of your own",
            ));
        }
        Ok(())
    }
}

/// Distinguishes connection failures from refusals.
fn failure(error: RequestError, name: &impl std::fmt::Display) -> HubFailure {
    let request = match error {
        RequestError::Request(request) => request,
        RequestError::Header(_) => {
            return HubFailure::refused(error.to_string(), "is HF_ENDPOINT a Hugging Face hub?");
        }
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
        None => HubFailure::Unreachable(root_cause(&request)),
    }
}

/// The token that `hf auth login` wrote.
fn token_beside(cache: &Path) -> Option<String> {
    let token = std::fs::read_to_string(cache.parent()?.join("token")).ok()?;
    let token = token.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

/// The innermost cause. The outer ones only say that a request failed, and repeat its address.
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

struct DownloadProgress {
    what: Arc<str>,
    total: u64,
    heartbeat: Arc<AtomicU64>,
    reporter: Reporter,
}

impl DownloadProgress {
    fn begin(&mut self, size: u64, file: &str) {
        self.what = format!("downloading {file}").into();
        self.total = size;
        self.reporter.at(Arc::clone(&self.what), 0, Some(self.total));
    }

    fn advance(&self, bytes: u64) {
        let done = self.heartbeat.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.reporter.at(Arc::clone(&self.what), done, Some(self.total));
    }

    fn finish(&self) {
        self.reporter.at(Arc::clone(&self.what), self.total, Some(self.total));
    }
}
