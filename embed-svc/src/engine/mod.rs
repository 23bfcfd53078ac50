//! Dynamic batching: one thread a model, a bounded queue in front of it.
//!
//! Requests arrive tokenised. While a batch runs, the next ones gather in the queue; when the model is free it takes as many
//! as fit into its token budget, so load makes batches larger and an idle model answers at once.

pub mod queue;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    batch::{Sequence, runs},
    error::EmbedError,
    model::Model,
};
pub use queue::{Priority, Queue};

/// A request is cut into pieces of this share of the budget, so that small requests find room beside a large one.
const PIECES: usize = 4;

/// Bounds of an engine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Tokens run at once.
    pub batch_tokens: usize,
    /// Tokens that may wait.
    pub queued_tokens: usize,
}

/// Vectors and where the time went.
#[derive(Debug, Default)]
pub struct Encoded {
    /// The values of each text ([`Model::values`]), before a final normalisation.
    pub vectors: Vec<f32>,
    /// From arrival until the first piece ran.
    pub queued: Duration,
    /// From there to the end of the last piece.
    pub computed: Duration,
}

/// A model with its queue and thread. The thread ends when the engine is dropped.
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    id: String,
    model: Arc<Model>,
    limits: Limits,
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    queue: Queue<Unit>,
    closed: bool,
    /// Tokens a second, smoothed; for the retry hint.
    rate: f64,
}

/// Consecutive texts of one request.
struct Unit {
    texts: Vec<Sequence>,
    deadline: Option<Instant>,
    reply: oneshot::Sender<Result<Done, EmbedError>>,
}

struct Done {
    vectors: Vec<f32>,
    started: Instant,
    ended: Instant,
}

impl Engine {
    /// Starts the thread of a model. `pool` is where it computes.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        id: &str,
        model: Arc<Model>,
        limits: Limits,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Self, EmbedError> {
        let state = State {
            queue: Queue::new(limits.queued_tokens),
            closed: false,
            rate: 0.0,
        };
        let shared = Arc::new(Shared {
            id: id.to_owned(),
            model,
            limits,
            state: Mutex::new(state),
            work: Condvar::new(),
        });
        let worker = shared.clone();
        std::thread::Builder::new()
            .name("isomer-embed".into())
            .spawn(move || worker.work(&pool))
            .map_err(|error| EmbedError::Internal(format!("no thread for encoder `{id}`: {error}")))?;
        Ok(Self { shared })
    }

    /// Encodes tokenised texts. Dropping the future drops what has not run yet.
    ///
    /// # Errors
    /// [`EmbedError::Overloaded`] at once when the queue is full, [`EmbedError::DeadlineExceeded`] when the deadline
    /// passes first.
    pub async fn encode(
        &self,
        texts: Vec<Sequence>,
        priority: Priority,
        deadline: Option<Instant>,
    ) -> Result<Encoded, EmbedError> {
        let arrived = Instant::now();
        let replies = self.shared.submit(texts, priority, deadline)?;
        let collect = async {
            let mut vectors = Vec::new();
            let (mut started, mut ended) = (None::<Instant>, arrived);
            for reply in replies {
                let done = reply.await.map_err(|_| EmbedError::DeadlineExceeded)??;
                vectors.extend_from_slice(&done.vectors);
                started = Some(started.map_or(done.started, |earliest| earliest.min(done.started)));
                ended = ended.max(done.ended);
            }
            let started = started.unwrap_or(arrived);
            Ok(Encoded {
                vectors,
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
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

type Reply = oneshot::Receiver<Result<Done, EmbedError>>;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held; if it did, the queue would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let mut state = self.lock();
        let pushed = state.queue.push(priority, units).or_else(|units| {
            // Before refusing, let go of what nobody waits for any more.
            state.queue.retain(|unit| !unit.reply.is_closed());
            state.queue.push(priority, units)
        });
        let queued_tokens = state.queue.tokens();
        if pushed.is_err() {
            metrics::counter!("isomer_embed_overloaded_total", "encoder" => self.id.clone()).increment(1);
            return Err(EmbedError::Overloaded {
                id: self.id.clone(),
                queued_tokens,
                retry_after: retry_after(queued_tokens, state.rate),
            });
        }
        self.gauge(&state);
        drop(state);
        self.work.notify_one();
        Ok(replies)
    }

    fn gauge(&self, state: &State) {
        #[allow(clippy::cast_precision_loss)]
        metrics::gauge!("isomer_embed_queue_tokens", "encoder" => self.id.clone()).set(state.queue.tokens() as f64);
    }

    /// The model's thread.
    fn work(&self, pool: &rayon::ThreadPool) {
        while let Some(batch) = self.next_batch() {
            let texts = || batch.iter().flat_map(|unit| &unit.texts);
            let tokens: usize = texts().map(|text| text.ids.len()).sum();
            let count = texts().count();
            let started = Instant::now();
            // A panic here would be a bug of ours; it must not take the queue with it.
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| self.model.encode_sequences(texts()))
            }));
            let ended = Instant::now();
            self.account(tokens, count, ended - started);
            let result = match result {
                Ok(Ok(vectors)) => Ok(vectors),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("encoder `{}` panicked on a batch", self.id)),
            };
            let mut first = 0;
            for unit in batch {
                let values = unit
                    .texts
                    .iter()
                    .map(|text| self.model.values(text.view()))
                    .sum::<usize>();
                let reply = match &result {
                    Ok(vectors) => Ok(Done {
                        vectors: vectors[first..first + values].to_vec(),
                        started,
                        ended,
                    }),
                    Err(message) => Err(EmbedError::Internal(message.clone())),
                };
                first += values;
                // Nobody listens when the request was cancelled meanwhile.
                let _ = unit.reply.send(reply);
            }
        }
    }

    /// Waits for work; `None` when the engine was dropped.
    fn next_batch(&self) -> Option<Vec<Unit>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            // Dropping a unit drops its sender, which the waiting side reads as a passed deadline.
            let wanted = |unit: &Unit| !unit.reply.is_closed() && unit.deadline.is_none_or(|deadline| now < deadline);
            let batch = state.queue.take(self.limits.batch_tokens, wanted);
            self.gauge(&state);
            if !batch.is_empty() {
                return Some(batch);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn account(&self, tokens: usize, texts: usize, took: Duration) {
        let rate = tokens as f64 / took.as_secs_f64().max(1e-6);
        let mut state = self.lock();
        state.rate = if state.rate == 0.0 {
            rate
        } else {
            0.8 * state.rate + 0.2 * rate
        };
        drop(state);
        let id = || self.id.clone();
        metrics::counter!("isomer_embed_texts_total", "encoder" => id()).increment(texts as u64);
        metrics::counter!("isomer_embed_tokens_total", "encoder" => id()).increment(tokens as u64);
        metrics::histogram!("isomer_embed_batch_tokens", "encoder" => id()).record(tokens as f64);
        metrics::histogram!("isomer_embed_batch_seconds", "encoder" => id()).record(took.as_secs_f64());
    }
}

/// When the tokens waiting now will have run, between 0.1 and 30 seconds.
fn retry_after(queued_tokens: usize, rate: f64) -> Duration {
    #[allow(clippy::cast_precision_loss)]
    let seconds = if rate > 0.0 { queued_tokens as f64 / rate } else { 1.0 };
    Duration::from_secs_f64(seconds.clamp(0.1, 30.0))
}
