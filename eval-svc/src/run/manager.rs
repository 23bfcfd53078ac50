//! Creates, lists, watches, cancels and deletes runs.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, stream::BoxStream};
use isomer_service_kit::Fault;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::ReceiverStream;

use super::{
    RunContext, RunError,
    events::Event,
    execute,
    expiry::Expiry,
    forecast::Forecast,
    holding::RunHolds,
    judge,
    live::Live,
    plan::Plan,
    prepare,
    record::{Failure, Generation, RunRecord, RunRequest, RunState},
    store::{INTERRUPTED, RunLock, RunStore},
    units::UnitStore,
    waiting::{Turn, Waiting},
    watch,
};
use crate::{clients::EvalClients, config::EvalConfig, locate::DatasetLocator, work::WorkEngine};

/// Number of ended runs whose events stay in memory.
const REMEMBERED: usize = 64;
/// How many messages a watcher may be behind before its forwarding task waits for it. The run never
/// waits.
const WATCH_BUFFER: usize = 64;
/// How often expired runs are deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// Runs whose rate a forecast looks at.
const LOOKED_BACK: usize = 50;
/// Longest request id, in bytes.
const LONGEST_REQUEST_ID: usize = 256;
/// Longest reason of a cancellation, in bytes.
const LONGEST_REASON: usize = 1000;

/// All runs of this process and of its state folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunManager {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: RunContext,
    store: RunStore,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// By request id: held while a run with this id is being created.
    creating: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    places: Arc<Semaphore>,
    waiting: Waiting,
    swept: Mutex<Option<Instant>>,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// `report.json`, everything.
    Json,
    /// `report.md`.
    Markdown,
    /// `report.html`, one file.
    Html,
    /// `junit.xml`.
    Junit,
}

impl ReportFormat {
    /// File name and media type.
    pub fn file(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("report.json", "application/json"),
            Self::Markdown => ("report.md", "text/markdown; charset=utf-8"),
            Self::Html => ("report.html", "text/html; charset=utf-8"),
            Self::Junit => ("junit.xml", "application/xml"),
        }
    }
}

/// A report's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Its media type.
    pub media_type: &'static str,
    /// Its name.
    pub file_name: &'static str,
}

impl RunManager {
    /// Opens the state folder.
    ///
    /// # Errors
    /// When a folder cannot be created.
    pub(crate) fn open(
        config: EvalConfig,
        clients: EvalClients,
        (work, shared): (Arc<dyn WorkEngine>, Option<RunHolds>),
        places: Arc<DatasetLocator>,
    ) -> Result<Self, RunError> {
        let store = RunStore::open(config.runs_dir())?;
        let units = UnitStore::open(config.units_dir()).map_err(RunError::Units)?;
        let active = Arc::new(Semaphore::new(config.max_active_runs.max(1)));
        let waiting = Waiting::new(config.max_pending_runs, config.max_pending_runs_per_caller);
        let context = RunContext {
            config,
            clients,
            work,
            places,
            units,
            shared,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                context,
                store,
                live: Mutex::default(),
                creating: Mutex::default(),
                places: active,
                waiting,
                swept: Mutex::default(),
            }),
        })
    }

    /// Checks a request and starts a run for its `owner`. If the same owner used the request id
    /// before, returns the run that was started then.
    ///
    /// # Errors
    /// [`RunError::TooMany`]; any error in the suite, datasets, encoders or transformations, before
    /// anything is generated.
    pub async fn create(
        &self,
        request: RunRequest,
        request_id: Option<String>,
        owner: Option<String>,
    ) -> Result<RunRecord, RunError> {
        self.sweep();
        let Some(request_id) = request_id.filter(|id| !id.is_empty()) else {
            return self.start(request, None, owner).await;
        };
        if request_id.len() > LONGEST_REQUEST_ID {
            let message = format!("is {} bytes long, at most {LONGEST_REQUEST_ID}", request_id.len());
            return Err(RunError::Invalid {
                field: "request_id".to_owned(),
                message,
            });
        }
        // A request with the same id from another owner is a different request.
        let request_id = match &owner {
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
        match self.inner.store.by_request(&request_id).map(|id| self.get(&id)) {
            Some(Ok(record)) => Ok(record),
            Some(Err(RunError::Unknown(_))) | None => self.start(request, Some(request_id), owner).await,
            Some(Err(error)) => Err(error),
        }
    }

    /// What the run of a request would take. No generator, encoder or judge is asked for anything
    /// but what it is.
    ///
    /// # Errors
    /// As [`RunManager::create`], but limits refuse nothing.
    pub async fn forecast(&self, request: RunRequest, owner: Option<String>) -> Result<Forecast, RunError> {
        // It costs as much to lay out as a run does, so it takes a place among those that wait.
        let _turn = self.inner.waiting.enter(owner.as_deref())?;
        let mut forecast = prepare::foresee(&self.inner.context, &request).await?;
        forecast.measured = self.measured(&forecast.total.generator_id)?;
        Ok(forecast)
    }

    /// What the latest runs with a generator took together.
    fn measured(&self, generator: &str) -> Result<Option<Generation>, RunError> {
        let mut all: Option<Generation> = None;
        let mut ids = self.inner.store.ids()?;
        ids.sort_unstable();
        for id in ids.iter().rev().take(LOOKED_BACK) {
            let record = self.inner.store.load(id)?;
            let Some(one) = record
                .and_then(|record| record.generation)
                .filter(|one| one.generator == generator)
            else {
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
        owner: Option<String>,
    ) -> Result<RunRecord, RunError> {
        let turn = self.inner.waiting.enter(owner.as_deref())?;
        let plan = prepare::prepare(&self.inner.context, &request).await?;
        let id = uuid::Uuid::now_v7().to_string();
        let mut record = RunRecord::new(id.clone(), request_id, request, Timestamp::now());
        record.owner = owner;
        record.counters.judge = judge::tried(&plan);
        let lock = self.inner.store.create(&record)?;
        let live = Arc::new(Live::new(record.clone(), self.inner.store.clone()));
        self.remember(&id, live.clone());
        metrics::counter!(crate::metric_names::RUNS).increment(1);
        tokio::spawn(drive(
            self.inner.context.clone(),
            self.inner.store.clone(),
            (self.inner.places.clone(), turn),
            plan,
            live,
            lock,
        ));
        Ok(record)
    }

    fn remember(&self, id: &str, live: Arc<Live>) {
        let mut all = self.inner.live.lock();
        let mut ended: Vec<String> = all
            .iter()
            .filter(|(_, live)| !live.record().state.is_active())
            .map(|(id, _)| id.clone())
            .collect();
        ended.sort_unstable();
        let surplus = (ended.len() + 1).saturating_sub(REMEMBERED);
        for id in ended.into_iter().take(surplus) {
            all.remove(&id);
        }
        all.insert(id.to_owned(), live);
    }

    fn live(&self, id: &str) -> Option<Arc<Live>> {
        self.inner.live.lock().get(id).cloned()
    }

    /// A run.
    ///
    /// # Errors
    /// [`RunError::Unknown`], or a record that cannot be read.
    pub fn get(&self, id: &str) -> Result<RunRecord, RunError> {
        if let Some(live) = self.live(id) {
            return Ok(live.record());
        }
        self.inner
            .store
            .load(id)?
            .ok_or_else(|| RunError::Unknown(id.to_owned()))
    }

    /// A run that this viewer may see ([`RunRecord::is_seen_by`]).
    ///
    /// # Errors
    /// As [`RunManager::get`]. A run of another owner is unknown.
    pub fn get_for(&self, id: &str, viewer: Option<&str>) -> Result<RunRecord, RunError> {
        let record = self.get(id)?;
        if record.is_seen_by(viewer) {
            Ok(record)
        } else {
            Err(RunError::Unknown(id.to_owned()))
        }
    }

    /// Deletes ended runs that are too old or too many, at most once an hour, on a blocking thread.
    fn sweep(&self) {
        {
            let mut swept = self.inner.swept.lock();
            if swept.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
                return;
            }
            *swept = Some(Instant::now());
        }
        let manager = self.clone();
        tokio::task::spawn_blocking(move || {
            let config = &manager.inner.context.config;
            let rule = Expiry::of(config.keep_runs_days, config.max_kept_runs);
            for id in rule.expired(&manager.inner.store, Timestamp::now()) {
                match manager.delete(&id) {
                    Ok(()) => tracing::info!(id, "an ended run expired"),
                    Err(error) => tracing::warn!(%error, id, "cannot delete a run that expired"),
                }
            }
        });
    }

    /// Runs that this viewer may see, newest first: at most `size` of them that are older than
    /// `before`, and whether there are more.
    ///
    /// # Errors
    /// When the state folder cannot be read. A run whose record is broken is left out and logged.
    pub fn list(
        &self,
        size: usize,
        before: Option<&str>,
        viewer: Option<&str>,
    ) -> Result<(Vec<RunRecord>, bool), RunError> {
        let mut runs = Vec::new();
        for id in self.inner.store.ids()? {
            if before.is_some_and(|before| id.as_str() >= before) {
                continue;
            }
            match self.get(&id) {
                Ok(record) if !record.is_seen_by(viewer) => {}
                Ok(_) if runs.len() == size => return Ok((runs, true)),
                Ok(record) => runs.push(record),
                Err(RunError::Unknown(_)) => {}
                Err(error) => tracing::warn!(%error, id, "a run is left out of the list"),
            }
        }
        Ok((runs, false))
    }

    /// A run's events after a sequence number, then as they happen, until it ends.
    ///
    /// # Errors
    /// [`RunError::Unknown`], or a record that cannot be read.
    pub fn watch(&self, id: &str, after: u64) -> Result<BoxStream<'static, Event>, RunError> {
        let record = self.get(id)?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WATCH_BUFFER);
        match self.live(id) {
            Some(live) => drop(tokio::spawn(watch::follow(live, after, sender))),
            None => drop(tokio::spawn(watch::look(self.clone(), record, sender))),
        }
        Ok(ReceiverStream::new(receiver).boxed())
    }

    /// Cancels a run and records the reason, if one is given. A run that has ended does not change.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::Elsewhere`] if another process executes it;
    /// [`RunError::Invalid`] if the reason is too long.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<RunRecord, RunError> {
        if reason.len() > LONGEST_REASON {
            return Err(RunError::Invalid {
                field: "reason".to_owned(),
                message: format!("is {} bytes long, at most {LONGEST_REASON}", reason.len()),
            });
        }
        let record = self.get(id)?;
        if !record.state.is_active() {
            return Ok(record);
        }
        let live = self.live(id).ok_or_else(|| RunError::Elsewhere(id.to_owned()))?;
        live.cancel(reason);
        until_ended(&live).await;
        self.inner.context.work.wait_for_cancellations().await;
        Ok(live.record())
    }

    /// Deletes a run that has ended.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::Active`].
    pub fn delete(&self, id: &str) -> Result<(), RunError> {
        let record = self.get(id)?;
        if record.state.is_active() {
            return Err(RunError::Active(id.to_owned()));
        }
        self.inner.store.delete(&record)?;
        self.inner.live.lock().remove(id);
        // In the background: the store may be slow.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (context, id) = (self.inner.context.clone(), id.to_owned());
            runtime.spawn(async move { context.release(&id).await });
        }
        Ok(())
    }

    /// A run's report in one form.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::NoReport`] unless the run succeeded.
    pub fn report(&self, id: &str, format: ReportFormat) -> Result<ReportFile, RunError> {
        let record = self.get(id)?;
        if record.state != RunState::Succeeded {
            return Err(RunError::NoReport {
                id: id.to_owned(),
                state: record.state,
            });
        }
        let (file_name, media_type) = format.file();
        Ok(ReportFile {
            content: self.inner.store.read_file(id, file_name)?,
            media_type,
            file_name,
        })
    }

    /// Stops every run of this process and marks it as interrupted, before the process shuts down.
    /// Returns when all have ended.
    pub async fn interrupt(&self) {
        let active: Vec<Arc<Live>> = self
            .inner
            .live
            .lock()
            .values()
            .filter(|live| live.record().state.is_active())
            .cloned()
            .collect();
        for live in active {
            live.interrupt();
            until_ended(&live).await;
        }
        self.inner.context.work.wait_for_cancellations().await;
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

/// Waits until a run's end has been written and sent to its watchers.
async fn until_ended(live: &Live) {
    let mut news = live.events.subscribe();
    while live.events.end().is_none() && news.changed().await.is_ok() {}
}

/// Executes a run until it has ended, whatever its outcome. The lock is held until then.
async fn drive(
    context: RunContext,
    store: RunStore,
    (places, turn): (Arc<Semaphore>, Turn),
    plan: Plan,
    live: Arc<Live>,
    lock: RunLock,
) {
    let work = async {
        // The semaphore is never closed; if it were, the run would start without a permit.
        let _place = places.acquire().await.ok();
        drop(turn);
        live.change(|record| {
            record.state = RunState::Running;
            record.started = Some(Timestamp::now());
        });
        live.save()?;
        Box::pin(execute::execute(&context, &store, plan, &live)).await
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
    let interrupted = live.interrupted();
    live.end(|record| match outcome {
        Some(Ok(())) => record.state = RunState::Succeeded,
        Some(Err(error)) => {
            let fault = Fault::from(error);
            record.state = RunState::Failed;
            record.failure = Some(Failure {
                code: fault.code as i32,
                message: fault.to_string(),
            });
        }
        None if interrupted => {
            record.state = RunState::Failed;
            record.failure = Some(Failure {
                code: tonic::Code::Aborted as i32,
                message: INTERRUPTED.to_owned(),
            });
        }
        None => {
            record.state = RunState::Cancelled;
            record.failure = live.reason().map(|message| Failure {
                code: tonic::Code::Cancelled as i32,
                message,
            });
        }
    });
    let record = live.record();
    tracing::info!(id = record.id, state = ?record.state, counters = ?record.counters, "run ended");
    drop(lock);
}
