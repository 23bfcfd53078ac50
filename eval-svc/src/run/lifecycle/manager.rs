//! Creates, lists, watches, cancels and deletes runs.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::FutureExt;
#[cfg(feature = "fleet")]
use isomer_fleet::Overview;
pub use isomer_proto::eval::v1::ReportFormat;
use isomer_service_kit::{Fault, Tenant};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::{
    execute,
    expiry::Expiry,
    live::Live,
    store::{CancelRequest, Created, FolderStore, INTERRUPTED, Ledger, LedgerStore, RunStore},
    waiting::{Turn, Waiting},
};
use crate::run::{
    RunContext, RunError,
    error::invalid,
    events::Event,
    plan::{Plan, forecast::Forecast, judge::PlannedJudge, prepare},
    record::{Generation, RunRecord, RunRequest, RunState, SuiteChoice},
    report::items_file,
};

/// Number of ended runs whose events stay in memory.
const REMEMBERED: usize = 64;
/// Interval between deletions of expired runs.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// Number of runs whose rate a forecast uses.
const LOOKED_BACK: usize = 50;
/// Maximum length of a request id, in bytes.
const LONGEST_REQUEST_ID: usize = 256;
/// Maximum length of the reason of a cancellation, in bytes.
const LONGEST_REASON: usize = 1000;
/// Interval for reading the record of a run that another replica cancels.
const CANCEL_POLL: Duration = Duration::from_millis(200);
/// Maximum wait for a run to end, or to be handed over, before the process shuts down.
const LONGEST_INTERRUPTION: Duration = Duration::from_secs(10);

/// All runs of this process, and those of its state folder or ledger. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunManager {
    inner: Arc<Inner>,
}

/// A reference to the runs that does not keep them alive.
#[derive(Debug)]
pub(crate) struct WeakRunManager {
    inner: Weak<Inner>,
}

impl WeakRunManager {
    /// The runs, unless all other references are gone.
    pub(crate) fn upgrade(&self) -> Option<RunManager> {
        self.inner.upgrade().map(|inner| RunManager { inner })
    }
}

#[derive(Debug)]
struct Inner {
    context: RunContext,
    store: Arc<dyn RunStore>,
    ledger: Option<Ledger>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// Locks by request id, held while a run with this id is being created.
    creating: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    places: Arc<Semaphore>,
    waiting: Waiting,
    swept: Mutex<Option<Instant>>,
}

/// The owner of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The owner's name in the gateway; absent if the run has no owner.
    pub name: Option<String>,
    /// The tenant whose caches it uses.
    pub tenant: Tenant,
}

/// File name and media type of a report.
fn file_of(format: ReportFormat) -> (&'static str, &'static str) {
    match format {
        ReportFormat::Json | ReportFormat::Unspecified => ("report.json", "application/json"),
        ReportFormat::Markdown => ("report.md", "text/markdown; charset=utf-8"),
        ReportFormat::Html => ("report.html", "text/html; charset=utf-8"),
        ReportFormat::Junit => ("junit.xml", "application/xml"),
        ReportFormat::Items => (items_file::FILE, "application/json"),
    }
}

/// A report's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// Its bytes.
    pub content: Vec<u8>,
    pub media_type: &'static str,
    pub file_name: &'static str,
}

impl RunManager {
    /// Opens the state folder, unless a ledger keeps the runs. See
    /// [`take_part`](super::takeover::take_part) for the part of this process in a ledger.
    ///
    /// # Errors
    /// When a folder cannot be created.
    pub(crate) fn open(context: RunContext, ledger: Option<Ledger>) -> Result<Self, RunError> {
        let config = &context.config;
        let store: Arc<dyn RunStore> = match &ledger {
            Some(ledger) => Arc::new(LedgerStore::new(ledger.clone())),
            None => Arc::new(FolderStore::open(config.runs_dir())?),
        };
        let active = Arc::new(Semaphore::new(config.max_active_runs.max(1)));
        let waiting = Waiting::new(config.max_pending_runs, config.max_pending_runs_per_caller);
        Ok(Self {
            inner: Arc::new(Inner {
                context,
                store,
                ledger,
                live: Mutex::default(),
                creating: Mutex::default(),
                places: active,
                waiting,
                swept: Mutex::default(),
            }),
        })
    }

    /// A reference that does not keep the runs alive.
    pub(crate) fn downgrade(&self) -> WeakRunManager {
        WeakRunManager {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// The ledger, if replicas share the runs.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.inner.ledger.as_ref()
    }

    /// The resources that the stages of a run share.
    pub(crate) fn context(&self) -> &RunContext {
        &self.inner.context
    }

    /// The queue of this process.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.inner.waiting
    }

    /// Validates a request and starts a run for its `owner`. If the same owner used the request id
    /// before, returns the run that was started then.
    ///
    /// # Errors
    /// [`RunError::TooMany`]; any error in the suite, datasets, encoders or transformations, before
    /// anything is generated.
    pub async fn create(
        &self,
        request: RunRequest,
        request_id: Option<String>,
        owner: Owner,
    ) -> Result<RunRecord, RunError> {
        self.sweep();
        let Some(request_id) = request_id.filter(|id| !id.is_empty()) else {
            return self.start(request, None, owner).await;
        };
        if request_id.len() > LONGEST_REQUEST_ID {
            let message = format!("is {} bytes long, at most {LONGEST_REQUEST_ID}", request_id.len());
            return Err(invalid("request_id", message));
        }
        // A request with the same id from another owner is a different request.
        let request_id = match &owner.name {
            Some(owner) => format!("{owner} {request_id}"),
            None => request_id,
        };
        let _creating = Creating {
            manager: self,
            request_id: request_id.clone(),
        };
        let gate = self
            .inner
            .creating
            .lock()
            .entry(request_id.clone())
            .or_default()
            .clone();
        let _held = gate.lock().await;
        let before = match self.inner.store.by_request(&request_id).await? {
            Some(id) => self.get(&id).await,
            None => Err(RunError::Unknown(request_id.clone())),
        };
        match before {
            Err(RunError::Unknown(_)) => self.start(request, Some(request_id), owner).await,
            found => found,
        }
    }

    /// Estimates the usage of a request's run. Generators, encoders and the judge are only queried
    /// for their descriptions. With `power`, the items are found with which every rule passes an
    /// encoder that does not drop, with this probability.
    ///
    /// # Errors
    /// As [`RunManager::create`], but limits refuse nothing.
    pub async fn forecast(&self, request: RunRequest, power: Option<f64>, owner: Owner) -> Result<Forecast, RunError> {
        // Planning costs as much as for a run, so it takes a place in the queue.
        let _turn = self.inner.waiting.enter(owner.name.as_deref())?;
        let context = self.inner.context.for_tenant(&owner.tenant)?;
        let mut forecast = prepare::foresee(&context, &request, power).await?;
        forecast.measured = self.measured(&forecast.total.generator_id).await?;
        Ok(forecast)
    }

    /// The combined generation times of the latest runs with a generator.
    async fn measured(&self, generator: &str) -> Result<Option<Generation>, RunError> {
        let mut all: Option<Generation> = None;
        let (latest, _) = self.inner.store.page(None, None, LOOKED_BACK).await?;
        for record in latest {
            let Some(one) = record.generation.filter(|one| one.generator == generator) else {
                continue;
            };
            all = Some(match all {
                None => one,
                Some(sum) => Generation {
                    texts: sum.texts + one.texts,
                    seconds: sum.seconds + one.seconds,
                    ..sum
                },
            });
        }
        Ok(all)
    }

    async fn start(
        &self,
        request: RunRequest,
        request_id: Option<String>,
        owner: Owner,
    ) -> Result<RunRecord, RunError> {
        let turn = self.inner.waiting.enter(owner.name.as_deref())?;
        let context = self.inner.context.for_tenant(&owner.tenant)?;
        let plan = prepare::prepare(&context, &request).await?;
        let id = uuid::Uuid::now_v7().to_string();
        let mut record = RunRecord::new(id.clone(), request_id, request, Timestamp::now());
        (record.owner, record.tenant) = (owner.name, owner.tenant);
        record.counters.judge = plan.judge.as_ref().map(PlannedJudge::trial_usage);
        record.trial = record.counters.judge;
        let leadership = match self.inner.store.create(&record).await? {
            Created::New(leadership) => leadership,
            // Another replica received the same request at the same time.
            Created::Before(id) => return self.get(&id).await,
        };
        let live = Arc::new(Live::new(record.clone(), leadership, 0));
        self.remember(&id, live.clone());
        metrics::counter!(crate::metric_names::RUNS).increment(1);
        self.spawn(context, plan, live, turn);
        Ok(record)
    }

    /// Executes a run that this process leads, in a separate task. `context` is that of its tenant.
    pub(crate) fn spawn(&self, mut context: RunContext, plan: Plan, live: Arc<Live>, turn: Turn) {
        if self.inner.ledger.is_some() {
            context.work = context.work.of_run(&live.record().id);
        }
        tokio::spawn(drive(context, plan, live, self.inner.places.clone(), turn));
    }

    /// Whether a run could start immediately.
    pub(crate) fn has_place(&self) -> bool {
        self.inner.places.available_permits() > 0
    }

    /// Runs that this process works on.
    pub(crate) fn active(&self) -> Vec<(String, Arc<Live>)> {
        let all = self.inner.live.lock();
        let active = all.iter().filter(|(_, live)| live.is_active() && !live.superseded());
        active.map(|(id, live)| (id.clone(), Arc::clone(live))).collect()
    }

    pub(crate) fn remember(&self, id: &str, live: Arc<Live>) {
        let mut all = self.inner.live.lock();
        all.retain(|_, live| !live.superseded());
        let mut ended: Vec<String> = all
            .iter()
            .filter(|(_, live)| !live.is_active())
            .map(|(id, _)| id.clone())
            .collect();
        ended.sort_unstable();
        let surplus = (ended.len() + 1).saturating_sub(REMEMBERED);
        for id in ended.into_iter().take(surplus) {
            all.remove(&id);
        }
        all.insert(id.to_owned(), live);
    }

    /// A run that this process is executing or has executed to its end.
    pub(crate) fn live(&self, id: &str) -> Option<Arc<Live>> {
        let live = self.inner.live.lock().get(id).cloned();
        live.filter(|live| !live.superseded())
    }

    /// A run.
    ///
    /// # Errors
    /// [`RunError::Unknown`], or a record that cannot be read.
    pub async fn get(&self, id: &str) -> Result<RunRecord, RunError> {
        let Some(live) = self.live(id) else {
            let found = self.inner.store.load(id).await?;
            return found.ok_or_else(|| RunError::Unknown(id.to_owned()));
        };
        let record = live.record();
        if record.is_active() || matches!(record.request.suite, SuiteChoice::Builtin { .. }) {
            return Ok(record);
        }
        // Only the store keeps the suite's text of a run that has ended.
        let stored = self.inner.store.load(id).await.ok().flatten();
        let text = stored.and_then(|stored| stored.suite_text().map(str::to_owned));
        Ok(record.with_suite_text(text.unwrap_or_default()))
    }

    /// A run that this viewer may see ([`RunRecord::is_seen_by`]).
    ///
    /// # Errors
    /// As [`RunManager::get`]. A run of another owner is unknown.
    pub async fn get_for(&self, id: &str, viewer: Option<&str>) -> Result<RunRecord, RunError> {
        let record = self.get(id).await?;
        if record.is_seen_by(viewer) {
            Ok(record)
        } else {
            Err(RunError::Unknown(id.to_owned()))
        }
    }

    /// Deletes ended runs that are too old or too many, at most once an hour, in a separate task.
    fn sweep(&self) {
        {
            let mut swept = self.inner.swept.lock();
            if swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
                return;
            }
            *swept = Some(Instant::now());
        }
        let manager = self.clone();
        tokio::spawn(async move {
            let config = &manager.inner.context.config;
            let rule = Expiry::of(config.keep_runs_days, config.max_kept_runs);
            let ends = match manager.inner.store.ends().await {
                Ok(ends) => ends,
                Err(error) => {
                    tracing::warn!(%error, "cannot list the runs to delete those that expired");
                    return;
                }
            };
            for id in rule.expired(ends, Timestamp::now()) {
                match manager.delete(&id).await {
                    Ok(()) => tracing::info!(id, "an ended run expired"),
                    Err(error) => tracing::warn!(%error, id, "cannot delete a run that expired"),
                }
            }
        });
    }

    /// Runs that this viewer may see, newest first and without the texts of their suites: at most
    /// `size` of them that are older than `before`, and whether there are more.
    ///
    /// # Errors
    /// When the state folder cannot be read. A run whose record is broken is left out and logged.
    pub async fn list(
        &self,
        size: usize,
        before: Option<&str>,
        viewer: Option<&str>,
    ) -> Result<(Vec<RunRecord>, bool), RunError> {
        let (mut runs, more) = self.inner.store.page(before, viewer, size).await?;
        for record in &mut runs {
            if let Some(live) = self.live(&record.id) {
                *record = live.record().outline();
            }
        }
        Ok((runs, more))
    }

    /// The current work of the workers, and the pending work of the runs that this viewer may see;
    /// `None` if this process does the work of runs.
    ///
    /// # Errors
    /// When the queue cannot be reached, or the record of a run cannot be read.
    #[cfg(feature = "fleet")]
    pub(crate) async fn fleet(&self, viewer: Option<&str>) -> Result<Option<Overview>, Fault> {
        let Some(mut overview) = self.inner.context.work.overview().await? else {
            return Ok(None);
        };
        if viewer.is_some() {
            let mut seen = Vec::new();
            for waiting in overview.runs {
                match self.get_for(&waiting.run, viewer).await {
                    Ok(_) => seen.push(waiting),
                    Err(RunError::Unknown(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            overview.runs = seen;
        }
        Ok(Some(overview))
    }

    /// Events of a run that another process executes; `None` if the store keeps none.
    pub(crate) async fn stored_events(&self, id: &str, after: u64) -> Result<Option<Vec<Event>>, RunError> {
        Ok(self.inner.store.events(id, after).await?)
    }

    /// Cancels a run and records the reason, if one is given. A run that has ended does not change.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::Elsewhere`] if another process executes it and there is
    /// no ledger; [`RunError::NotStopped`] if its leader does not stop it in time;
    /// [`RunError::Invalid`] if the reason is too long.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<RunRecord, RunError> {
        if reason.len() > LONGEST_REASON {
            let message = format!("is {} bytes long, at most {LONGEST_REASON}", reason.len());
            return Err(invalid("reason", message));
        }
        let record = self.get(id).await?;
        if !record.is_active() {
            return Ok(record);
        }
        let Some(live) = self.live(id) else {
            return self.cancel_elsewhere(id, reason).await;
        };
        live.cancel(reason);
        until_ended(&live).await;
        self.inner.context.work.wait_for_cancellations().await;
        self.get(id).await
    }

    /// Cancels a run that another replica leads.
    async fn cancel_elsewhere(&self, id: &str, reason: &str) -> Result<RunRecord, RunError> {
        let CancelRequest::Noted(within) = self.inner.store.request_cancel(id, reason).await? else {
            return Err(RunError::Elsewhere(id.to_owned()));
        };
        let asked = Instant::now();
        loop {
            let record = self.get(id).await?;
            if !record.is_active() {
                return Ok(record);
            }
            if asked.elapsed() > within {
                return Err(RunError::NotStopped(id.to_owned()));
            }
            tokio::time::sleep(CANCEL_POLL).await;
        }
    }

    /// Deletes a run that has ended.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::Active`].
    pub async fn delete(&self, id: &str) -> Result<(), RunError> {
        let record = self.get(id).await?;
        if record.is_active() {
            return Err(RunError::Active(id.to_owned()));
        }
        self.inner.store.delete(&record).await?;
        self.inner.live.lock().remove(id);
        // In the background, because the store may be slow.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (context, id) = (self.inner.context.clone(), id.to_owned());
            runtime.spawn(async move { context.release(&id).await });
        }
        Ok(())
    }

    /// A run's report in one format.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::NoReport`] unless the run succeeded.
    pub async fn report(&self, id: &str, format: ReportFormat) -> Result<ReportFile, RunError> {
        let record = self.get(id).await?;
        let none = || RunError::NoReport {
            id: id.to_owned(),
            state: record.state,
        };
        if record.state != RunState::Succeeded {
            return Err(none());
        }
        let (file_name, media_type) = file_of(format);
        let absent = || match format {
            ReportFormat::Items => RunError::NoItems { id: id.to_owned() },
            _ => none(),
        };
        Ok(ReportFile {
            content: self.inner.store.file(id, file_name).await?.ok_or_else(absent)?,
            media_type,
            file_name,
        })
    }

    /// Stops every run of this process before the process shuts down. With a ledger the runs are
    /// handed over to the other replicas, else they are marked as interrupted. Returns when all
    /// have ended.
    pub async fn interrupt(&self) {
        for (id, live) in self.active() {
            live.interrupt();
            if tokio::time::timeout(LONGEST_INTERRUPTION, until_ended(&live))
                .await
                .is_err()
            {
                tracing::warn!(id, "the end of this run could not be written in time");
            }
        }
        self.inner.context.work.wait_for_cancellations().await;
        if let Some(ledger) = &self.inner.ledger
            && let Err(error) = ledger.leave().await
        {
            tracing::warn!(%error, "cannot deregister this replica; its row is removed later");
        }
    }
}

/// Removes the request id from `creating` when the last call that uses it has ended or was dropped.
struct Creating<'a> {
    manager: &'a RunManager,
    request_id: String,
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        let mut creating = self.manager.inner.creating.lock();
        // The map holds one reference, and the caller may still hold another.
        if creating
            .get(&self.request_id)
            .is_some_and(|gate| Arc::strong_count(gate) <= 2)
        {
            creating.remove(&self.request_id);
        }
    }
}

/// Waits until a run's end has been written and sent to its watchers, or the run has been left to
/// another replica.
async fn until_ended(live: &Live) {
    let mut news = live.progress.events.subscribe();
    while live.progress.events.end().is_none() && !live.superseded() && news.changed().await.is_ok() {}
}

/// Executes a run until it has ended, with any outcome, or is left to another replica.
async fn drive(context: RunContext, plan: Plan, live: Arc<Live>, places: Arc<Semaphore>, turn: Turn) {
    let saving = {
        let live = Arc::clone(&live);
        AbortOnDropHandle::new(tokio::spawn(async move { live.save_changes().await }))
    };
    let work = async {
        // The semaphore is never closed; if it were, the run would start without a permit.
        let _place = places.acquire().await.ok();
        drop(turn);
        live.progress.change(|record| {
            record.state = RunState::Running;
            record.started.get_or_insert_with(Timestamp::now);
        });
        live.save().await?;
        Box::pin(execute::execute(&context, plan, &live)).await
    };
    let outcome = live
        .cancel
        .run_until_cancelled(AssertUnwindSafe(work).catch_unwind())
        .await;
    let outcome = outcome.map(|caught| {
        caught.unwrap_or_else(|_| {
            Err(RunError::Internal(
                "a stage of the run panicked; this is a bug of Isomer".to_owned(),
            ))
        })
    });
    drop(saving);
    if live.superseded() {
        return;
    }
    let interrupted = live.interrupted();
    if interrupted && outcome.is_none() && live.hand_back().await {
        tracing::info!(id = live.record().id, "a run was handed back to the other replicas");
        return;
    }
    live.end(|record| match outcome {
        Some(Ok(())) => record.state = RunState::Succeeded,
        Some(Err(error)) => {
            let fault = Fault::from(error);
            record.fail(fault.code, fault.to_string());
        }
        None if interrupted => record.fail(tonic::Code::Aborted, INTERRUPTED.to_owned()),
        None => record.cancel(live.reason()),
    })
    .await;
    let record = live.record();
    if !live.superseded() {
        tracing::info!(id = record.id, state = ?record.state, counters = ?record.counters, "run ended");
    }
}
