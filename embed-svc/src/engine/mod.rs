//! Dynamic batching: a bounded queue in front of each model, and one or more replicas of the model
//! that take batches from it.
//!
//! Requests arrive tokenised. While a batch runs, further requests gather in the queue. A free
//! replica takes as many as fit into the token budget, so load makes batches larger and an idle
//! model answers at once. Interactive requests take precedence over bulk requests. On the CPU they
//! also take precedence over a bulk batch that has begun ([`precedence`]).

mod lost;
pub mod precedence;
pub mod queue;
mod worker;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    batch::{Outputs, Sequence, runs},
    error::EmbedError,
    model::Model,
};
pub use lost::LostDevice;
pub use precedence::Precedence;
pub use queue::{Priority, Queue};
use worker::{LANES, ReplicaState, Work};

/// A request is split into pieces of the budget divided by this number, so that small requests find
/// room beside a large one.
const PIECES: usize = 4;

/// Bounds of an engine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of tokens in one batch.
    pub batch_tokens: usize,
    /// Maximum number of tokens in the queue.
    pub queued_tokens: usize,
}

/// Vectors and their timing.
#[derive(Debug, Default)]
pub struct TimedOutputs {
    /// The requested results.
    pub outputs: Outputs,
    /// Time from arrival until the first piece ran.
    pub queued: Duration,
    /// Time from then to the end of the last piece.
    pub computed: Duration,
}

/// A model on one device, and the threads that it computes on.
pub struct Replica {
    /// The model. Replicas on the CPU share one.
    pub model: Arc<Model>,
    /// The threads that compute. For a GPU, they do the work left to the CPU.
    pub pool: Arc<rayon::ThreadPool>,
    /// The threads that compute interactive batches. If they are those of `pool`, batches of both
    /// kinds wait for each other.
    pub interactive: Arc<rayon::ThreadPool>,
}

impl Replica {
    /// Whether bulk batches pause between layers while interactive ones are computed. On a GPU they
    /// do not: the layers of a batch are submitted long before the GPU computes them.
    fn gives_way(&self) -> bool {
        self.model.device().is_cpu() && !Arc::ptr_eq(&self.pool, &self.interactive)
    }

    /// The kinds of batches with separate threads.
    fn works(&self) -> &'static [Work] {
        if self.gives_way() {
            &[Work::Interactive, Work::Bulk]
        } else {
            &[Work::Either]
        }
    }
}

/// The state that the engines of a process share. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// Precedence of interactive batches, because all engines compute on the same processors.
    pub precedence: Precedence,
    /// The first device that has failed permanently.
    pub lost: LostDevice,
}

/// A model with its queue and threads. They end when the engine is dropped.
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    id: String,
    replicas: Vec<Replica>,
    limits: Limits,
    common: Common,
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    queue: Queue<Unit>,
    closed: bool,
    /// Tokens per second of all replicas, smoothed; used for the retry hint.
    rate: f64,
    /// When the last batch ended.
    ended: Option<Instant>,
    /// Tokens of the batches that run.
    running_tokens: usize,
    /// When batches began to run after a pause.
    running_since: Option<Instant>,
    /// Turns of each replica and kind of batch.
    turns: Vec<[ReplicaState; Work::KINDS]>,
    /// Batches that each replica has run.
    batches: Vec<u64>,
}

/// Consecutive texts of one request.
struct Unit {
    texts: Vec<Sequence>,
    deadline: Option<Instant>,
    reply: oneshot::Sender<Result<PieceResult, EmbedError>>,
}

struct PieceResult {
    outputs: Outputs,
    started: Instant,
    ended: Instant,
}

impl Engine {
    /// Starts the threads of a model's replicas. All replicas must have the same folder, precision
    /// and kind of device. Whichever replica is free takes the next batch.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(id: &str, replicas: Vec<Replica>, limits: Limits) -> Result<Self, EmbedError> {
        Self::start_beside(id, replicas, limits, Common::default())
    }

    /// Like [`Engine::start`], beside other engines on the same processors. Bulk batches of each
    /// engine give way to interactive ones of all engines.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub fn start_beside(id: &str, replicas: Vec<Replica>, limits: Limits, common: Common) -> Result<Self, EmbedError> {
        let state = State {
            queue: Queue::new(limits.queued_tokens),
            closed: false,
            rate: 0.0,
            ended: None,
            running_tokens: 0,
            running_since: None,
            turns: vec![Default::default(); replicas.len()],
            batches: vec![0; replicas.len()],
        };
        let shared = Arc::new(Shared {
            id: id.to_owned(),
            replicas,
            limits,
            common,
            state: Mutex::new(state),
            work: Condvar::new(),
        });
        // An early return drops the engine, which ends the threads already started.
        let engine = Self { shared };
        for (number, replica) in engine.shared.replicas.iter().enumerate() {
            for work in replica.works().iter().flat_map(|work| [*work; LANES]) {
                let worker = engine.shared.clone();
                std::thread::Builder::new()
                    .name(format!("isomer-embed-{number}"))
                    .spawn(move || worker.work(number, work))
                    .map_err(|error| EmbedError::Internal(format!("no thread for encoder `{id}`: {error}")))?;
            }
        }
        Ok(engine)
    }

    /// Batches that each replica has run so far.
    pub fn batches(&self) -> Vec<u64> {
        self.shared.state.lock().batches.clone()
    }

    /// Tokens that wait in the queue.
    pub fn queued_tokens(&self) -> usize {
        self.shared.state.lock().queue.tokens()
    }

    /// Encodes tokenised texts. Dropping the future cancels the pieces that have not run yet.
    ///
    /// # Errors
    /// [`EmbedError::Overloaded`] at once if the queue is full; [`EmbedError::DeadlineExceeded`] if
    /// the deadline passes first.
    pub async fn encode(
        &self,
        texts: Vec<Sequence>,
        priority: Priority,
        deadline: Option<Instant>,
    ) -> Result<TimedOutputs, EmbedError> {
        let arrived = Instant::now();
        let replies = self.shared.submit(texts, priority, deadline)?;
        let collect = async {
            let mut outputs = Outputs::default();
            let (mut started, mut ended) = (None::<Instant>, arrived);
            for reply in replies {
                let done = reply.await.map_err(|_| EmbedError::DeadlineExceeded)??;
                outputs.append(done.outputs);
                started = Some(started.map_or(done.started, |earliest| earliest.min(done.started)));
                ended = ended.max(done.ended);
            }
            let started = started.unwrap_or(arrived);
            Ok(TimedOutputs {
                outputs,
                queued: started - arrived,
                computed: ended.saturating_duration_since(started),
            })
        };
        match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), collect)
                .await
                .map_err(|_| EmbedError::DeadlineExceeded)?,
            None => collect.await,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
    }
}

type Reply = oneshot::Receiver<Result<PieceResult, EmbedError>>;

impl Shared {
    fn submit(
        &self,
        mut texts: Vec<Sequence>,
        priority: Priority,
        deadline: Option<Instant>,
    ) -> Result<Vec<Reply>, EmbedError> {
        let pieces = runs(
            texts.iter().map(|text| text.ids.len()),
            (self.limits.batch_tokens / PIECES).max(1),
        );
        let mut units = Vec::with_capacity(pieces.len());
        let mut replies = Vec::with_capacity(pieces.len());
        let mut rest = texts.drain(..);
        for piece in pieces {
            let texts: Vec<_> = rest.by_ref().take(piece.len()).collect();
            let tokens = texts.iter().map(|text: &Sequence| text.ids.len()).sum();
            let (reply, receiver) = oneshot::channel();
            units.push((tokens, Unit { texts, deadline, reply }));
            replies.push(receiver);
        }
        let mut state = self.state.lock();
        let pushed = state.queue.push(priority, units).or_else(|units| {
            // Before refusing the request, drop units whose callers have disconnected.
            state.queue.retain(|unit| !unit.reply.is_closed());
            state.queue.push(priority, units)
        });
        let queued_tokens = state.queue.tokens();
        if pushed.is_err() {
            metrics::counter!(crate::metric_names::OVERLOADED, "encoder" => self.id.clone()).increment(1);
            return Err(EmbedError::Overloaded {
                id: self.id.clone(),
                queued_tokens,
                retry_after: state.retry_after(Instant::now()),
            });
        }
        self.gauge(&state);
        drop(state);
        // Wake all threads: a single wake-up could reach a lane that must not run yet.
        self.work.notify_all();
        Ok(replies)
    }

    fn gauge(&self, state: &State) {
        #[allow(clippy::cast_precision_loss)]
        metrics::gauge!(crate::metric_names::QUEUE, "encoder" => self.id.clone()).set(state.queue.tokens() as f64);
    }
}

impl State {
    /// Estimated time until the tokens in the queue and in batches have run: whole seconds, because
    /// HTTP has no others, from 1 to 60.
    fn retry_after(&self, now: Instant) -> Duration {
        #[allow(clippy::cast_precision_loss)]
        let (ahead, running) = (
            (self.queue.tokens() + self.running_tokens) as f64,
            self.running_tokens as f64,
        );
        let age = self
            .running_since
            .map(|since| now.saturating_duration_since(since).as_secs_f64());
        let rate = match age {
            _ if self.rate > 0.0 => self.rate,
            // No batch has ended yet, so the running ones are at most this fast.
            Some(age) if age > 0.0 && running > 0.0 => running / age,
            _ => f64::INFINITY,
        };
        Duration::from_secs_f64((ahead / rate).ceil().clamp(1.0, 60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(queued: usize, running: usize, rate: f64, age: Duration, now: Instant) -> State {
        let mut queue = Queue::new(usize::MAX);
        let (reply, _) = oneshot::channel();
        let unit = Unit {
            texts: Vec::new(),
            deadline: None,
            reply,
        };
        assert!(queue.push(Priority::Batch, vec![(queued, unit)]).is_ok());
        State {
            queue,
            closed: false,
            rate,
            ended: None,
            running_tokens: running,
            running_since: (running > 0).then(|| now.checked_sub(age).unwrap_or(now)),
            turns: Vec::new(),
            batches: Vec::new(),
        }
    }

    #[test]
    fn the_hint_for_a_retry_follows_what_waits_and_what_runs() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (queued, running, rate, age, seconds) in [
            (12_000, 0, 3_000.0, Duration::ZERO, 4),
            (12_000, 4_000, 3_000.0, second, 6),
            // No rate is known: 1,000 tokens have run for two seconds.
            (11_000, 1_000, 0.0, 2 * second, 24),
            (10, 1_000, 0.0, Duration::ZERO, 1),
            (10, 0, 3_000.0, Duration::ZERO, 1),
            (1_000_000, 0, 10.0, Duration::ZERO, 60),
        ] {
            let after = state(queued, running, rate, age, now).retry_after(now);
            assert_eq!(
                after,
                Duration::from_secs(seconds),
                "{queued} and {running} tokens at {rate}"
            );
        }
    }
}
