//! The side that executes units.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream::{
    AckKind, Message,
    consumer::{self, PullConsumer},
};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use isomer_blobs::{BlobStore, Put};
use isomer_outbound::shared_limits::PAUSED;
use isomer_service_kit::{Fault, client::join_trace};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Code;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    activity::Activity,
    metric_names,
    queue::{ANSWER, FleetError, Queue, about, trace_of},
    time::millis,
    unit::{Address, Kind, Lane},
    worker_info::{HEARTBEAT, WorkerInfo},
};

/// How often the list of lanes is read, unless a new lane is announced.
const LOOK: Duration = Duration::from_secs(5);
/// Minimum and maximum pause after all lanes were empty.
const IDLE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// Maximum pause before a failed unit is executed again.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Maximum wait of a stopping worker for the broker's answers. A pending request for a unit is
/// answered, or gives up, before that.
const LEAVING: Duration = ANSWER.saturating_add(Duration::from_secs(1));
/// Maximum wait for units that are returned to the queue when the worker ends.
const RETURNING: Duration = Duration::from_secs(2);

/// The reason of a fault: the store lacks the request of a unit.
pub(crate) const UNIT_MISSING: &str = "UNIT_MISSING";
/// Maximum number of executions of a unit whose answer contains transient failures.
const PARTIAL_EXECUTIONS: i64 = 2;

/// Executes the units of a worker.
pub trait Executor: Send + Sync + 'static {
    /// The class of this machine's arithmetic. Within a class, answers are equal bit for bit.
    fn class(&self) -> &str;

    /// Executes the request of a unit. Dropping the future stops it. A request of the same
    /// `dispatch` may have been partly executed before, by this worker or another, without counting
    /// its answer. The references of the answer to the store are recorded for the `unit`.
    fn execute(
        &self,
        unit: &Address,
        kind: Kind,
        request: Bytes,
        dispatch: Option<Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>>;
}

/// The answer of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitOutput {
    pub answer: Bytes,
    /// Whether the answer may be cached. An answer with transient failures (a generator did not
    /// answer for one of many texts) may not: the unit is executed once more, and the second answer
    /// goes only to the current waiters.
    pub cacheable: bool,
}

/// How a unit ended, as announced to dispatchers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Completion {
    /// The answer is in the store.
    Done,
    /// The answer contains transient failures; the store has it under a separate name.
    Partial { name: String },
    /// The unit failed permanently.
    Failed(WireFault),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WireFault {
    code: i32,
    reason: String,
    message: String,
    field: Option<String>,
    hint: Option<String>,
    metadata: HashMap<String, String>,
}

impl From<Fault> for WireFault {
    fn from(fault: Fault) -> Self {
        Self {
            code: fault.code.into(),
            reason: fault.reason,
            message: fault.message,
            field: fault.field,
            hint: fault.hint,
            metadata: fault.metadata,
        }
    }
}

impl From<WireFault> for Fault {
    fn from(failed: WireFault) -> Self {
        Self {
            field: failed.field,
            hint: failed.hint,
            metadata: failed.metadata,
            ..Self::new(Code::from(failed.code), failed.reason, failed.message)
        }
    }
}

/// Counts of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of units whose answer it wrote.
    pub done: u64,
    /// Number of units that already had an answer.
    pub found: u64,
    /// Number of units that failed permanently.
    pub failed: u64,
    /// Number of units returned to the queue, or stopped.
    pub handed_back: u64,
}

/// The queue of units, and the store of their requests and answers.
#[derive(Debug, Clone)]
pub struct UnitSource {
    pub queue: Queue,
    pub blobs: BlobStore,
}

struct Worker {
    queue: Queue,
    blobs: BlobStore,
    executor: Arc<dyn Executor>,
    /// Cancelled when no more units are taken.
    stop: CancellationToken,
    tracker: TaskTracker,
    running: Mutex<HashMap<Address, CancellationToken>>,
    activity: Mutex<Activity>,
    summary: Mutex<Summary>,
}

/// Executes units of some kinds, up to a maximum per kind, until `shutdown` resolves. Units in
/// progress then have `grace` to finish; the rest are returned to the queue. Without a broker the
/// end takes at most 8 more seconds, and the units are delivered again when their leases end.
///
/// # Errors
/// If the queue refuses at the start. Later failures are retried.
pub async fn work(
    source: UnitSource,
    executor: Arc<dyn Executor>,
    kinds: BTreeMap<Kind, usize>,
    shutdown: impl Future<Output = ()> + Send,
    grace: Duration,
) -> Result<Summary, FleetError> {
    isomer_service_kit::metric_names::describe(metric_names::ALL);
    let UnitSource { queue, blobs } = source;
    let mut cancelled = queue.subscribe("cancel").await?;
    let mut announced = queue.new_lanes().await?;
    let worker = Arc::new(Worker {
        queue,
        blobs,
        executor,
        stop: CancellationToken::new(),
        tracker: TaskTracker::new(),
        running: Mutex::default(),
        activity: Mutex::new(Activity::new(Instant::now())),
        summary: Mutex::default(),
    });
    let present = WorkerInfo::here(worker.executor.class(), &kinds);
    worker.queue.register(&present).await?;
    let (new_lane, lanes) = watch::channel(());
    let mut pulling = tokio::task::JoinSet::new();
    for (kind, at_once) in kinds {
        pulling.spawn(pull(Arc::clone(&worker), kind, at_once, lanes.clone()));
    }
    let cancelling = {
        let worker = Arc::clone(&worker);
        async move {
            while let Some(message) = cancelled.next().await {
                let Some((address, _)) = about(message) else { continue };
                if let Some(running) = worker.running.lock().get(&address) {
                    running.cancel();
                }
            }
            // The subscription ends only with the process.
            std::future::pending::<()>().await;
        }
    };
    let hearing = async {
        while announced.next().await.is_some() {
            new_lane.send_replace(());
        }
        // The subscription ends only with the process.
        std::future::pending::<()>().await;
    };
    let saying = async {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            if let Err(error) = worker.queue.heartbeat(&worker.present(&present)).await {
                tracing::warn!(%error, "cannot renew the record of this worker; retrying");
            }
        }
    };
    tokio::pin!(cancelling);
    tokio::select! {
        () = shutdown => {}
        () = &mut cancelling => {}
        () = saying => {}
        () = hearing => {}
    }
    worker.stop.cancel();
    let leaving = async {
        let deregister = worker.queue.deregister(&present);
        let pulls = async { while pulling.join_next().await.is_some() {} };
        tokio::join!(deregister, pulls).0
    };
    let left = tokio::time::timeout(LEAVING, leaving).await;
    let left = left.unwrap_or_else(|_| {
        let failed = worker.queue.failed("cannot deregister a worker");
        Err(failed(format!("no answer in {} s", LEAVING.as_secs())))
    });
    if let Err(error) = left {
        tracing::warn!(
            %error,
            "the queue does not answer: this worker's record expires, and units in progress are delivered again when \
             their leases end"
        );
    }
    drop(pulling);
    worker.tracker.close();
    tokio::select! {
        () = worker.tracker.wait() => {}
        () = &mut cancelling => {}
        () = tokio::time::sleep(grace) => {}
    }
    for running in worker.running.lock().values() {
        running.cancel();
    }
    // Stopped units are returned to the queue now, or when their lease ends.
    let _ = tokio::time::timeout(RETURNING, worker.tracker.wait()).await;
    let summary = *worker.summary.lock();
    Ok(summary)
}

/// Pulls units of one kind, lane by lane.
async fn pull(worker: Arc<Worker>, kind: Kind, at_once: usize, mut announced: watch::Receiver<()>) {
    let stop = &worker.stop;
    let permits = Arc::new(Semaphore::new(at_once.max(1)));
    let mut lanes: Vec<(Arc<Lane>, PullConsumer)> = Vec::new();
    let mut looked: Option<tokio::time::Instant> = None;
    let (mut next, mut idle) = (0, IDLE.0);
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            () = stop.cancelled() => return,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        // The channel is closed only when the worker ends.
        let heard = announced.has_changed().unwrap_or_default();
        if heard || looked.is_none_or(|at| at.elapsed() >= LOOK) {
            announced.mark_unchanged();
            looked = Some(tokio::time::Instant::now());
            let found = tokio::select! {
                found = look(&worker.queue, kind, worker.executor.class()) => found,
                () = stop.cancelled() => return,
            };
            match found {
                Ok(found) => lanes = found,
                Err(error) => tracing::warn!(%error, %kind, "cannot read the lanes; retrying"),
            }
        }
        let mut taken = None;
        // Round robin, so that a full lane does not starve the others.
        for step in 0..lanes.len() {
            let at = (next + step) % lanes.len();
            match take(&lanes[at].1).await {
                Ok(Some(message)) => {
                    next = at + 1;
                    taken = Some((at, message));
                    break;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(error, lane = lanes[at].0.name(), "cannot take units of a lane");
                    looked = None;
                    break;
                }
            }
        }
        let Some((at, message)) = taken else {
            drop(permit);
            tokio::select! {
                () = tokio::time::sleep(idle) => {}
                Ok(()) = announced.changed() => looked = None,
                () = stop.cancelled() => return,
            }
            idle = (idle * 2).min(IDLE.1);
            continue;
        };
        idle = IDLE.0;
        let (own, lane) = (Arc::clone(&worker), Arc::clone(&lanes[at].0));
        worker
            .tracker
            .spawn(async move { own.handle(&lane, message, permit).await });
    }
}

/// The lanes of a kind with their consumers. A lane without a consumer is left out.
async fn look(queue: &Queue, kind: Kind, class: &str) -> Result<Vec<(Arc<Lane>, PullConsumer)>, FleetError> {
    let mut found = Vec::new();
    for lane in queue.lanes(&[kind], class).await? {
        match queue.consumer(&lane).await {
            Ok(consumer) => {
                record_lane(&lane, consumer.cached_info());
                found.push((Arc::new(lane), consumer));
            }
            Err(error) => tracing::debug!(%error, lane = lane.name(), "a lane has no consumer"),
        }
    }
    Ok(found)
}

/// Reports the broker's figures for a lane.
fn record_lane(lane: &Lane, info: &consumer::Info) {
    let tell = |name: &'static str, value: f64| {
        metrics::gauge!(name, "kind" => lane.kind.name(), "of" => lane.resource().to_owned()).set(value);
    };
    tell(metric_names::QUEUED, info.num_pending as f64);
    tell(metric_names::IN_WORK, info.num_ack_pending as f64);
    tell(metric_names::REDELIVERED, info.num_redelivered as f64);
    tell(metric_names::PAUSED, if info.paused { 1.0 } else { 0.0 });
}

/// Takes one message of a lane, if it has one now.
///
/// The broker answers at once. If the connection is lost before that, the client would wait without
/// end, so there is a limit. A message that arrives later is delivered again when its lease ends.
async fn take(consumer: &PullConsumer) -> Result<Option<Message>, String> {
    let taking = async {
        let batch = consumer.fetch().max_messages(1).messages().await;
        let mut batch = batch.map_err(|error| error.to_string())?;
        match batch.next().await {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(error)) => Err(error.to_string()),
        }
    };
    let taken = tokio::time::timeout(ANSWER, taking).await;
    taken.unwrap_or_else(|_| Err(format!("no answer in {} s", ANSWER.as_secs())))
}

/// How the execution of a unit ended.
enum ExecutionEnd {
    Done(Put),
    Partial(String),
    Failed(Fault),
    Retry(Fault),
    /// The unit's limit is paused for longer than a call waits.
    Paused(Fault),
    Stopped,
}

impl ExecutionEnd {
    /// Its name in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Done(Put::Created) => "done",
            Self::Done(Put::Exists) => "found",
            Self::Partial(_) => "partial",
            Self::Failed(_) => "failed",
            Self::Retry(_) => "retry",
            Self::Paused(_) => "paused",
            Self::Stopped => "stopped",
        }
    }
}

fn record_unit(lane: &Lane, end: &ExecutionEnd, took: Duration) {
    let (kind, of) = (lane.kind.name(), lane.resource().to_owned());
    metrics::counter!(metric_names::UNITS, "kind" => kind, "of" => of.clone(), "end" => end.name()).increment(1);
    metrics::histogram!(metric_names::UNIT_SECONDS, "kind" => kind, "of" => of).record(took.as_secs_f64());
}

impl Worker {
    /// The current record of this worker.
    fn present(&self, worker: &WorkerInfo) -> WorkerInfo {
        let (now, mut activity) = (Instant::now(), self.activity.lock());
        WorkerInfo {
            up_millis: millis(activity.up(now)),
            lanes: activity.lanes(now),
            ..worker.clone()
        }
    }

    async fn handle(&self, lane: &Lane, message: Message, _permit: OwnedSemaphorePermit) {
        let (kind, began) = (lane.kind, Instant::now());
        let Some(address) = Queue::address_of(&message.subject) else {
            tracing::warn!(subject = %message.subject, "the subject of a message is not a unit's; the message is dropped");
            acknowledge(&message, AckKind::Term).await;
            return;
        };
        let times = message.info().map_or(1, |info| info.delivered);
        let token = CancellationToken::new();
        self.running.lock().insert(address.clone(), token.clone());
        self.activity.lock().begin(lane, &address, began);
        let end = {
            let dispatch = std::str::from_utf8(&message.payload)
                .ok()
                .and_then(|id| Uuid::try_parse(id).ok());
            let span = tracing::info_span!("unit of work", %kind, of = lane.resource(), unit = %address, times);
            join_trace(&span, &trace_of(&message));
            let doing = self.unit(kind, &address, times, dispatch).instrument(span);
            let renewing = self.renew_lease(&message);
            tokio::select! {
                end = doing => end,
                () = token.cancelled() => ExecutionEnd::Stopped,
                never = renewing => match never {},
            }
        };
        self.running.lock().remove(&address);
        let finished = matches!(end, ExecutionEnd::Done(_) | ExecutionEnd::Partial(_));
        self.activity.lock().end(&address, finished, Instant::now());
        record_unit(lane, &end, began.elapsed());
        let mut summary = Summary::default();
        let (completion, ack) = match end {
            ExecutionEnd::Done(kept) => {
                summary.done = u64::from(kept == Put::Created);
                summary.found = u64::from(kept == Put::Exists);
                (Some(Completion::Done), AckKind::Ack)
            }
            ExecutionEnd::Partial(name) => {
                summary.done = 1;
                (Some(Completion::Partial { name }), AckKind::Ack)
            }
            ExecutionEnd::Failed(fault) => {
                tracing::warn!(%fault, unit = %address, %kind, "a unit failed");
                summary.failed = 1;
                (Some(Completion::Failed(fault.into())), AckKind::Term)
            }
            ExecutionEnd::Retry(fault) => {
                let wait = fault.retry_after.unwrap_or_else(|| backoff(times));
                tracing::warn!(%fault, unit = %address, %kind, ?wait, "a unit failed; it is retried later");
                summary.handed_back = 1;
                (None, AckKind::Nak(Some(wait)))
            }
            ExecutionEnd::Paused(fault) => {
                tracing::warn!(%fault, unit = %address, %kind, "a unit waits for the end of a pause");
                summary.handed_back = 1;
                // Removed rather than returned, so that it does not count as begun. Its dispatcher
                // queues it again, and the lane delivers it after the pause.
                (None, AckKind::Ack)
            }
            ExecutionEnd::Stopped => {
                summary.handed_back = 1;
                (None, AckKind::Nak(None))
            }
        };
        {
            let mut all = self.summary.lock();
            all.done += summary.done;
            all.found += summary.found;
            all.failed += summary.failed;
            all.handed_back += summary.handed_back;
        }
        // Announced before the acknowledgement, because dispatchers read the store, not the queue.
        if let Some(completion) = completion {
            let completion = serde_json::to_vec(&completion).unwrap_or_default();
            if let Err(error) = self.queue.announce("done", &address, completion.into()).await {
                tracing::debug!(%error, "cannot announce a completion; dispatchers find the answer in the store");
            }
        }
        acknowledge(&message, ack).await;
    }

    /// Renews the lease at intervals.
    async fn renew_lease(&self, message: &Message) -> std::convert::Infallible {
        let mut every = tokio::time::interval(self.queue.config().lease() / 3);
        every.tick().await;
        loop {
            every.tick().await;
            if let Err(error) = message.ack_with(AckKind::Progress).await {
                tracing::debug!(error = %error, "cannot renew a lease");
            }
        }
    }

    async fn unit(&self, kind: Kind, address: &Address, times: i64, dispatch: Option<Uuid>) -> ExecutionEnd {
        let most = i64::from(self.queue.config().attempts);
        let store = |error: isomer_blobs::BlobError| ExecutionEnd::Retry(FleetError::from(error).into());
        match self.blobs.exists(&address.answer()).await {
            Ok(true) => return ExecutionEnd::Done(Put::Exists),
            Ok(false) => {}
            Err(error) => return store(error),
        }
        if times > most {
            let message = format!(
                "a unit of work was begun {most} times and never finished: it may crash the workers that execute it"
            );
            let fault = Fault::internal(message).with("unit", address.to_string());
            return ExecutionEnd::Failed(
                fault.hint("search the workers' logs for this unit; fleet.attempts sets how often a unit is executed"),
            );
        }
        let request = match self.blobs.get(&address.request()).await {
            Ok(Some(request)) => request,
            Ok(None) => {
                let message = format!("the store has nothing under {}", address.request());
                return again(Fault::precondition(UNIT_MISSING, message), times, most);
            }
            Err(error) => return store(error),
        };
        // Inside the future, so that a panic before the first await is also caught.
        let doing =
            std::panic::AssertUnwindSafe(async { self.executor.execute(address, kind, request, dispatch).await });
        let done = doing.catch_unwind().await;
        let done = done.unwrap_or_else(|_| Err(Fault::internal("a unit of work panicked; this is a bug of Isomer")));
        match done {
            Ok(done) if done.cacheable => match self.blobs.put_new(&address.answer(), &done.answer).await {
                Ok(kept) => ExecutionEnd::Done(kept),
                Err(error) => store(error),
            },
            Ok(_) if times < PARTIAL_EXECUTIONS => {
                let message = "parts of a unit failed; it is executed once more";
                ExecutionEnd::Retry(Fault::unavailable("UNIT_PARTLY_FAILED", message))
            }
            Ok(done) => {
                let name = address.partial();
                match self.blobs.put_new(&name, &done.answer).await {
                    Ok(_) => ExecutionEnd::Partial(name),
                    Err(error) => store(error),
                }
            }
            Err(fault) if fault.reason == PAUSED => ExecutionEnd::Paused(fault),
            Err(fault) if is_transient(&fault) => again(fault, times, most),
            Err(fault) => ExecutionEnd::Failed(fault),
        }
    }
}

/// Whether a retry may succeed.
fn is_transient(fault: &Fault) -> bool {
    matches!(
        fault.code,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted | Code::Cancelled | Code::DeadlineExceeded
    )
}

fn again(fault: Fault, times: i64, most: i64) -> ExecutionEnd {
    if times >= most {
        ExecutionEnd::Failed(fault)
    } else {
        ExecutionEnd::Retry(fault)
    }
}

/// 1, 2, 4, … seconds.
fn backoff(times: i64) -> Duration {
    let doublings = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    Duration::from_secs(1 << doublings).min(LONGEST_BACKOFF)
}

async fn acknowledge(message: &Message, ack: AckKind) {
    if let Err(error) = message.double_ack_with(ack).await {
        // The unit is delivered again when its lease ends; by then, the answer is in the store.
        tracing::debug!(error = %error, "cannot acknowledge a unit");
    }
}
