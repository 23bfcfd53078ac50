//! Creates, lists, watches, cancels and deletes runs.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

#[cfg(feature = "fleet")]
use isomer_fleet::Overview;
#[cfg(feature = "fleet")]
use isomer_service_kit::Fault;
use isomer_service_kit::Tenant;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    drive::drive,
    expiry::Expiry,
    live::LiveRun,
    live_runs::LiveRuns,
    queue::{QueueTicket, RunQueue},
    request_locks::RequestLocks,
    store::{Creation, FolderStore, Ledger, RunPage, RunStore},
};
use crate::run::{
    RunContext, RunError,
    error::invalid,
    events::Event,
    plan::{JudgePlan, Plan, forecast::Forecast, prepare},
    record::{Generation, RunRecord, RunRequest, SuiteChoice},
};

/// Interval between deletions of expired runs.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// Number of runs whose rate a forecast uses.
const LOOKED_BACK: usize = 50;
/// Maximum length of a request id, in bytes.
const LONGEST_REQUEST_ID: usize = 256;

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
    live: LiveRuns,
    creating: RequestLocks,
    /// One for each run that may be executed at once.
    permits: Arc<Semaphore>,
    queue: RunQueue,
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

impl RunManager {
    /// Opens the state folder, unless a ledger keeps the runs. See
    /// [`take_part`](super::takeover::take_part) for the part of this process in a ledger.
    ///
    /// # Errors
    /// When a folder cannot be created.
    pub(crate) fn open(context: RunContext, ledger: Option<Ledger>) -> Result<Self, RunError> {
        let config = &context.config;
        let store: Arc<dyn RunStore> = match &ledger {
            Some(ledger) => Arc::new(ledger.clone()),
            None => Arc::new(FolderStore::open(config.runs_dir())?),
        };
        let permits = Arc::new(Semaphore::new(config.max_active_runs.max(1)));
        let queue = RunQueue::new(config.max_pending_runs, config.max_pending_runs_per_caller);
        Ok(Self {
            inner: Arc::new(Inner {
                context,
                store,
                ledger,
                live: LiveRuns::default(),
                creating: RequestLocks::default(),
                permits,
                queue,
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

    pub(super) fn store(&self) -> &dyn RunStore {
        &*self.inner.store
    }

    /// The queue of this process.
    pub(crate) fn queue(&self) -> &RunQueue {
        &self.inner.queue
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
        let _lock = self.inner.creating.lock(&request_id).await;
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
        let _ticket = self.inner.queue.enter(owner.name.as_deref())?;
        let context = self.inner.context.for_tenant(&owner.tenant)?;
        let mut forecast = prepare::foresee(&context, &request, power).await?;
        forecast.measured = self.measured(&forecast.total.generator_id).await?;
        Ok(forecast)
    }

    /// The combined generation times of the latest runs with a generator.
    async fn measured(&self, generator: &str) -> Result<Option<Generation>, RunError> {
        let mut all: Option<Generation> = None;
        let latest = self.inner.store.page(None, None, LOOKED_BACK).await?;
        for record in latest.runs {
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
        let ticket = self.inner.queue.enter(owner.name.as_deref())?;
        let context = self.inner.context.for_tenant(&owner.tenant)?;
        let plan = prepare::prepare(&context, &request).await?;
        let id = uuid::Uuid::now_v7().to_string();
        let mut record = RunRecord::new(id.clone(), request_id, request, Timestamp::now());
        (record.owner, record.tenant) = (owner.name, owner.tenant);
        record.counters.judge = plan.stages.judge.as_ref().map(JudgePlan::trial_usage);
        record.trial = record.counters.judge;
        let leadership = match self.inner.store.create(&record).await? {
            Creation::New(leadership) => leadership,
            // Another replica received the same request at the same time.
            Creation::Existing(id) => return self.get(&id).await,
        };
        let live = Arc::new(LiveRun::new(record.clone(), leadership, 0));
        self.inner.live.insert(&id, live.clone());
        metrics::counter!(crate::metric_names::RUNS).increment(1);
        self.spawn(context, plan, live, ticket);
        Ok(record)
    }

    /// Executes a run that this process leads, in a separate task. `context` is that of its tenant.
    pub(crate) fn spawn(&self, mut context: RunContext, plan: Plan, live: Arc<LiveRun>, ticket: QueueTicket) {
        if self.inner.ledger.is_some() {
            context.work = context.work.of_run(&live.record().id);
        }
        tokio::spawn(drive(context, plan, live, self.inner.permits.clone(), ticket));
    }

    /// Whether a run could start immediately.
    pub(crate) fn has_free_permit(&self) -> bool {
        self.inner.permits.available_permits() > 0
    }

    /// The runs of this process.
    pub(super) fn live_runs(&self) -> &LiveRuns {
        &self.inner.live
    }

    /// A run.
    ///
    /// # Errors
    /// [`RunError::Unknown`], or a record that cannot be read.
    pub async fn get(&self, id: &str) -> Result<RunRecord, RunError> {
        let Some(live) = self.inner.live.get(id) else {
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
            if let Some(oldest) = rule.oldest_attempt(Timestamp::now())
                && let Err(error) = manager.inner.store.expire_attempts(oldest).await
            {
                tracing::warn!(%error, "cannot delete the attempts that expired");
            }
            for id in rule.expired(ends, Timestamp::now()) {
                match manager.delete(&id).await {
                    Ok(()) => tracing::info!(id, "an ended run expired"),
                    Err(error) => tracing::warn!(%error, id, "cannot delete a run that expired"),
                }
            }
        });
    }

    /// Runs that this viewer may see: at most `size` of them that are older than `before`.
    ///
    /// # Errors
    /// When the state folder cannot be read. A run whose record is broken is left out and logged.
    pub async fn list(&self, size: usize, before: Option<&str>, viewer: Option<&str>) -> Result<RunPage, RunError> {
        let mut page = self.inner.store.page(before, viewer, size).await?;
        for record in &mut page.runs {
            if let Some(live) = self.inner.live.get(&record.id) {
                *record = live.record().outline();
            }
        }
        Ok(page)
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
        self.inner.live.remove(id);
        // In the background, because the store may be slow.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (context, id) = (self.inner.context.clone(), id.to_owned());
            runtime.spawn(async move { context.release(&id).await });
        }
        Ok(())
    }
}
