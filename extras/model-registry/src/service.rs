//! The service: a receiver of webhooks, a reconciler that finds what they missed, and one worker.

use std::{collections::BTreeMap, fs::File, path::Path, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    routing::post,
};
use http::{HeaderMap, StatusCode};
use isomer_models::pattern;
use isomer_outbound::secret::SecretSource;
use isomer_service_kit::Fault;
use jiff::Timestamp;
use tokio::{
    sync::{Mutex, Notify},
    time::Instant,
};

use crate::{
    check::Checker,
    engine::Engine,
    error::{RegistryError, Result},
    ledger::{Delivery, Job, Ledger},
    mlflow::webhook::{self, Event},
    reconcile::RecheckReason,
    registry::{AliasRegistry, Registry, Version},
    verdict::tag,
};

/// Maximum size of a webhook's body.
const MOST_BODY: usize = 1 << 20;
/// Maximum wait of the worker before it checks for due work.
const IDLE: Duration = Duration::from_millis(500);
/// Number of failures of one kind after which a possibly transient failure is recorded as an error:
/// runs that end without a report. Failures of the registry itself are retried for ever.
const MOST_FAILED_RUNS: i64 = 5;

/// Path of the webhooks.
pub const HOOK: &str = "/hooks/mlflow";

/// Checks the versions of a registry as they appear.
#[derive(Debug)]
pub struct Service<R, E> {
    checker: Checker<R, E>,
    ledger: Ledger,
    models: Vec<String>,
    /// Time after which all files of a version that passed are read again.
    reread: Duration,
    /// For each model, the version whose files were read last, and the time.
    read: Mutex<BTreeMap<String, (String, Instant)>>,
    /// Notified when the queue has work.
    work: Notify,
    /// Notified when the reconciler must check now.
    look: Notify,
}

/// The result of one pass of the reconciler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReconcileSummary {
    /// Number of relevant versions in the registry.
    pub versions: usize,
    /// Versions that were put into the queue.
    pub queued: usize,
    /// Aliases that were removed from versions that have not passed, or whose files have changed.
    pub withdrawn: usize,
    /// Versions that were promoted because a process had ended before that.
    pub promoted: usize,
}

impl<R: Registry + AliasRegistry, E: Engine> Service<R, E> {
    /// A service over its ledger. `models` are the names of the models to check, or patterns with
    /// `*`; empty: all. The files of a version that passed are read again after `reread`.
    pub fn new(checker: Checker<R, E>, ledger: Ledger, models: Vec<String>, reread: Duration) -> Arc<Self> {
        Arc::new(Self {
            checker,
            ledger,
            models,
            reread,
            read: Mutex::default(),
            work: Notify::new(),
            look: Notify::new(),
        })
    }

    /// Makes checks, one after another, for ever.
    pub async fn work(&self) {
        loop {
            match self.ledger.take().await {
                Ok(Some(job)) => self.one(&job).await,
                Ok(None) => {
                    tokio::select! {
                        () = self.work.notified() => {}
                        () = tokio::time::sleep(IDLE) => {}
                    }
                }
                Err(fault) => {
                    tracing::error!(%fault, "the ledger");
                    tokio::time::sleep(IDLE).await;
                }
            }
        }
    }

    /// Makes every check that is due now; returns their number.
    ///
    /// # Errors
    /// If the ledger fails.
    pub async fn drain(&self) -> Result<usize> {
        let mut made = 0;
        while let Some(job) = self.ledger.take().await? {
            self.one(&job).await;
            made += 1;
        }
        Ok(made)
    }

    async fn one(&self, job: &Job) {
        let (model, version) = (job.model.as_str(), job.version.as_str());
        let ended = match self.checked(job).await {
            Ok(outcome) => {
                tracing::info!(model, version, outcome, "checked");
                self.ledger.done(job, &outcome).await
            }
            Err(error) => {
                tracing::warn!(model, version, %error, "not checked yet");
                self.ledger.postpone(job, &error.to_string()).await.map(drop)
            }
        };
        if let Err(fault) = ended {
            // The job stays `running`, and is checked again after a restart. By then the registry
            // has the verdict, so nothing is repeated.
            tracing::error!(model, version, %fault, "the ledger");
        }
    }

    /// Checks a version, if necessary; returns the result as a word.
    async fn checked(&self, job: &Job) -> Result<String> {
        let Some(version) = self.checker.registry().version(&job.model, &job.version).await? else {
            return Ok("gone".to_owned());
        };
        let Some(why) = self.checker.stale(&version).await? else {
            let promoted = self.checker.finish_promotion(&version).await?;
            return Ok(if promoted { "promoted" } else { "stands" }.to_owned());
        };
        tracing::info!(model = job.model, version = job.version, ?why, "checking");
        match self.checker.check(&job.model, &job.version).await {
            Ok(checked) => Ok(checked.verdict.name().to_owned()),
            Err(RegistryError::NoVersion { .. }) => Ok("gone".to_owned()),
            Err(error) if self.is_final(&error, job) => {
                let checked = self
                    .checker
                    .conclude_error(&job.model, &job.version, error.to_string())
                    .await;
                match checked {
                    Ok(checked) => Ok(checked.verdict.name().to_owned()),
                    Err(RegistryError::NoVersion { .. }) => Ok("gone".to_owned()),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn is_final(&self, error: &RegistryError, job: &Job) -> bool {
        let ran = matches!(error, RegistryError::RunFailed { .. });
        !error.passes() || (ran && job.failures + 1 >= MOST_FAILED_RUNS)
    }

    /// Checks the registry at each interval, and whenever a champion changes, for ever.
    pub async fn reconcile(&self, interval: Duration) {
        loop {
            match self.look().await {
                Ok(look) => tracing::debug!(?look, "looked through the registry"),
                Err(error) => tracing::warn!(%error, "could not look through the registry"),
            }
            tokio::select! {
                () = self.look.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// Puts versions that need a check into the queue: versions without a verdict, and the version
    /// with the alias of passed versions if its files or the champion have changed. Removes that
    /// alias from a version that has not passed.
    ///
    /// # Errors
    /// If the registry or the ledger fails.
    pub async fn look(&self) -> Result<ReconcileSummary> {
        let mut summary = ReconcileSummary::default();
        let mut models: Vec<String> = Vec::new();
        for version in self.checker.registry().versions().await? {
            if !self.is_meant(&version.model) {
                continue;
            }
            summary.versions += 1;
            if models.last() != Some(&version.model) {
                models.push(version.model.clone());
            }
            if version.ready && version.tag(tag::VERDICT).is_none() {
                summary.queued += self.enqueue(&version, RecheckReason::NoVerdict).await?;
            }
        }
        models.sort();
        models.dedup();
        for model in models {
            if self.checker.withdraw_unearned(&model).await? {
                tracing::warn!(
                    model,
                    "the alias of those that passed was at a version that has not; it is taken back"
                );
                summary.withdrawn += 1;
            }
            let passed = &self.checker.policy().passed;
            let Some(version) = self.checker.registry().at_alias(&model, passed).await? else {
                continue;
            };
            if let Some(why) = self.checker.stale(&version).await? {
                summary.queued += self.enqueue(&version, why).await?;
            } else if self.checker.finish_promotion(&version).await? {
                tracing::warn!(
                    model,
                    version = version.number,
                    "a promotion that was not finished is made"
                );
                summary.promoted += 1;
            } else if self.reread(&version).await? {
                tracing::warn!(
                    model,
                    version = version.number,
                    "its files are not those that passed; the alias is taken back"
                );
                summary.withdrawn += 1;
                summary.queued += self.enqueue(&version, RecheckReason::Files).await?;
            }
        }
        Ok(summary)
    }

    /// Reads the files of a version again, if it is time. Returns whether they have changed.
    async fn reread(&self, version: &Version) -> Result<bool> {
        let mut read = self.read.lock().await;
        let is_fresh = |(number, at): &(String, Instant)| *number == version.number && at.elapsed() < self.reread;
        if read.get(&version.model).is_some_and(is_fresh)
            || self.ledger.is_active(&version.model, &version.number).await?
        {
            return Ok(false);
        }
        let changed = self.checker.reread(version).await?;
        tracing::info!(
            model = version.model,
            version = version.number,
            changed,
            "the files of what passed were read again"
        );
        read.insert(version.model.clone(), (version.number.clone(), Instant::now()));
        Ok(changed)
    }

    async fn enqueue(&self, version: &Version, why: RecheckReason) -> Result<usize> {
        if self.ledger.is_active(&version.model, &version.number).await? {
            return Ok(0);
        }
        self.ledger.enqueue(&version.model, &version.number).await?;
        tracing::info!(model = version.model, version = version.number, ?why, "to be checked");
        self.work.notify_one();
        Ok(1)
    }

    fn is_meant(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| pattern::matches(pattern, model))
    }

    /// The route for webhooks. `secret` is that of the webhook.
    pub fn routes(self: &Arc<Self>, secret: SecretSource) -> Router {
        let receiver = Receiver {
            service: self.clone(),
            secret: Arc::new(secret),
        };
        Router::new()
            .route(HOOK, post(receive::<R, E>))
            .layer(DefaultBodyLimit::max(MOST_BODY))
            .with_state(receiver)
    }

    /// Processes a genuine delivery; returns the answer.
    async fn take(&self, id: &str, event: &Event) -> Result<StatusCode, Fault> {
        let check = match event {
            // The test delivery of MLflow names a model that does not exist, so models are looked
            // up before anything is done.
            Event::Created { model, version } if self.is_meant(model) => Some((model.as_str(), version.as_str())),
            _ => None,
        };
        if self.ledger.deliver(id, check, 2 * webhook::WINDOW).await? == Delivery::Repeated {
            return Ok(StatusCode::OK);
        }
        if check.is_some() {
            self.work.notify_one();
            return Ok(StatusCode::ACCEPTED);
        }
        let looks = match event {
            Event::Alias { model, alias } => *alias == self.checker.policy().champion && self.is_meant(model),
            // A person removes the verdict to have it made again. Other tag events are ignored, in
            // particular those caused by our own writes.
            Event::Tag { model, key, removed } => *removed && key == tag::VERDICT && self.is_meant(model),
            Event::Created { .. } | Event::Other => false,
        };
        if looks {
            self.look.notify_one();
            return Ok(StatusCode::ACCEPTED);
        }
        Ok(StatusCode::OK)
    }
}

struct Receiver<R, E> {
    service: Arc<Service<R, E>>,
    secret: Arc<SecretSource>,
}

impl<R, E> Clone for Receiver<R, E> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            secret: self.secret.clone(),
        }
    }
}

/// Answers once the delivery is on disk: a delivery that was answered with success is never lost.
async fn receive<R: Registry + AliasRegistry, E: Engine>(
    State(receiver): State<Receiver<R, E>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let secret = match receiver.secret.read() {
        Ok(secret) => secret,
        Err(missing) => {
            tracing::error!(%missing, "the secret of the webhook");
            return (StatusCode::SERVICE_UNAVAILABLE, "the secret cannot be read".to_owned());
        }
    };
    let now = Timestamp::now().as_second();
    let id = match webhook::verify(&secret, &headers, &body, now) {
        Ok(id) => id,
        Err(forged) => {
            tracing::warn!(%forged, "a webhook was refused");
            return (StatusCode::UNAUTHORIZED, forged.to_string());
        }
    };
    let event = match webhook::read(&body) {
        Ok(event) => event,
        Err(message) => return (StatusCode::BAD_REQUEST, message),
    };
    match receiver.service.take(&id, &event).await {
        Ok(status) => (status, String::new()),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, fault.to_string()),
    }
}

/// Lock of the process that serves a folder: two of them would check each version twice.
#[derive(Debug)]
pub struct FolderLock {
    _lock: File,
}

impl FolderLock {
    /// Locks the folder.
    ///
    /// # Errors
    /// If another process holds it, or it cannot be written.
    pub fn take(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(RegistryError::io("creating the folder", folder))?;
        let path = folder.join("serve.lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(RegistryError::io("opening", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                let message = format!(
                    "{} is in use by another `isomer registry serve` or `watch`",
                    folder.display()
                );
                let hint = "stop it, or give another folder (--folder)";
                Err(Fault::precondition("REGISTRY_FOLDER", message).hint(hint).into())
            }
            Err(std::fs::TryLockError::Error(error)) => Err(RegistryError::io("locking", &path)(error)),
        }
    }
}
