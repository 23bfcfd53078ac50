//! A limit from the view of one process's callers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use isomer_outbound::shared_limits::{Denial, ReachedLimit, SharedLimit, Spending, Terms};
use isomer_service_kit::priority::{Line, Urgency};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::Instant,
};

use super::store::CounterStore;
use crate::time::millis;

/// Maximum number of characters that are kept of a generator's message about a pause.
const LONGEST_REASON: usize = 200;

/// A call that waits for the rates.
pub(super) struct Waiter {
    pub(super) tokens: u64,
    pub(super) sender: oneshot::Sender<Result<(), Denial>>,
}

/// Calls of this process at the limited server. One lock protects both the start of calls and the
/// reduction of their number, so that calls returned to other processes are not in use here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Slots {
    /// Maximum number of calls in flight.
    pub(super) usable: usize,
    /// Calls in flight.
    pub(super) in_flight: usize,
    /// Number of calls that would begin if more were usable.
    pub(super) waiting: usize,
}

/// The local state of a limit.
#[derive(Default)]
pub(super) struct Local {
    pub(super) waiters: Line<Waiter>,
    /// Granted by the rates and not used yet.
    pub(super) requests: u64,
    pub(super) tokens: u64,
    /// Requests granted to callers that left, to be returned.
    pub(super) unused: u64,
    /// Spending that is not reported yet.
    pub(super) unreported: Spending,
    /// The last known spending of all processes, and its period.
    pub(super) known: (String, Spending),
    /// A pause to report, in milliseconds.
    pub(super) pause: Option<u64>,
    /// The generator's message when it requested the pause.
    pub(super) pause_why: String,
}

/// The shared part of the handles and the agent.
pub(super) struct Inner {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) me: String,
    pub(super) terms: Terms,
    pub(super) store: Arc<dyn CounterStore>,
    pub(super) local: Mutex<Local>,
    pub(super) slots: Mutex<Slots>,
    /// Notified when more calls may be in flight.
    pub(super) more: watch::Sender<()>,
    /// How often a lease was lost.
    pub(super) lost: watch::Sender<u64>,
    /// Whether the counters have been read.
    pub(super) known: watch::Sender<bool>,
    pub(super) paused_until: watch::Sender<Option<Instant>>,
    /// Wakes the agent.
    pub(super) wake: Notify,
    /// Set when another process has returned something.
    pub(super) freed: AtomicBool,
    /// Set when another process begins to wait for its share.
    pub(super) wanted: AtomicBool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limit")
            .field("name", &self.name)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn new(key: &str, name: &str, terms: Terms, store: Arc<dyn CounterStore>) -> Arc<Self> {
        Arc::new(Self {
            key: key.to_owned(),
            name: name.to_owned(),
            me: uuid::Uuid::now_v7().to_string(),
            terms,
            store,
            local: Mutex::default(),
            slots: Mutex::default(),
            more: watch::Sender::new(()),
            lost: watch::Sender::new(0),
            known: watch::Sender::new(false),
            paused_until: watch::Sender::new(None),
            wake: Notify::new(),
            freed: false.into(),
            wanted: false.into(),
        })
    }

    /// Makes callers of this process wait; returns whether that extends their current wait.
    pub(super) fn pause_here(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        self.paused_until.send_if_modified(|current| {
            let longer = current.is_none_or(|current| current < until);
            if longer {
                *current = Some(until);
            }
            longer
        })
    }

    /// Makes callers of this process wait, because another process was asked for a pause.
    pub(super) fn pause_of_fleet(&self, pause: Duration) {
        let is_news = self.pause_left().is_zero();
        if self.pause_here(pause) && is_news {
            tracing::info!(
                generator = %self.name,
                seconds = pause.as_secs_f64(),
                "the generator has asked another process for a pause: no call begins before its end"
            );
        }
    }

    /// Sets the number of calls that may be in flight from now on.
    pub(super) fn set_usable(&self, usable: usize) {
        let before = std::mem::replace(&mut self.slots.lock().usable, usable);
        if usable > before {
            self.more.send_replace(());
        }
    }

    /// Records that another process has returned concurrent calls.
    pub(super) fn freed(&self) {
        self.freed.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Records that another process waits for concurrent calls.
    pub(super) fn wanted(&self) {
        self.wanted.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    pub(super) fn pause_left(&self) -> Duration {
        let until = *self.paused_until.borrow();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Distributes the local grant to waiting calls, in their order.
    pub(super) fn serve(&self) {
        let mut local = self.local.lock();
        let Local {
            waiters,
            requests,
            tokens,
            unused,
            ..
        } = &mut *local;
        waiters.retain(|waiter| !waiter.sender.is_closed());
        let by_tokens = self.terms.tokens_per_second > 0.0;
        while let Some(next) = waiters.peek() {
            let needed = if by_tokens { next.tokens } else { 0 };
            if *requests == 0 || *tokens < needed {
                return;
            }
            let Some(waiter) = waiters.pop() else { return };
            // A caller that leaves at this moment passes its turn to the next.
            if waiter.sender.send(Ok(())).is_ok() {
                *requests -= 1;
                *tokens -= needed;
            }
        }
        // Nobody needs it now. If it were kept, it would later cause a burst above the rate.
        *unused += std::mem::take(requests);
        *tokens = 0;
    }

    /// Refuses all waiting calls.
    pub(super) fn refuse(&self, reached: &ReachedLimit) {
        let mut local = self.local.lock();
        while let Some(waiter) = local.waiters.pop() {
            // The caller may have left.
            let _ = waiter.sender.send(Err(Denial::Spent(reached.clone())));
        }
    }
}

/// A limit of this process. When it is dropped, its holdings are returned.
#[derive(Debug)]
pub struct Limit {
    inner: Arc<Inner>,
}

impl Drop for Limit {
    fn drop(&mut self) {
        // The agent finds that no handle is left.
        self.inner.wake.notify_one();
    }
}

impl Limit {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    async fn pause_over(&self, patience: Duration) -> Result<(), Denial> {
        loop {
            let left = self.inner.pause_left();
            if left.is_zero() {
                return Ok(());
            }
            if left > patience {
                return Err(Denial::Paused(left));
            }
            tokio::time::sleep(left).await;
        }
    }

    /// The budget limit that is reached, as far as is known here.
    fn spent(&self) -> Option<ReachedLimit> {
        let local = self.inner.local.lock();
        self.inner.terms.budget.reached(&local.known.1.plus(&local.unreported))
    }
}

impl SharedLimit for Limit {
    fn try_begin(&self) -> bool {
        if self.inner.terms.concurrency == 0 {
            return true;
        }
        let mut slots = self.inner.slots.lock();
        let free = slots.in_flight < slots.usable;
        if free {
            slots.in_flight += 1;
            slots.waiting = slots.waiting.saturating_sub(1);
        }
        free
    }

    fn end(&self) {
        if self.inner.terms.concurrency > 0 {
            self.inner.slots.lock().in_flight -= 1;
            self.inner.wake.notify_one();
        }
    }

    fn report_waiting(&self, waiting: usize) {
        if self.inner.terms.concurrency > 0 {
            self.inner.slots.lock().waiting = waiting;
            self.inner.wake.notify_one();
        }
    }

    fn more(&self) -> watch::Receiver<()> {
        self.inner.more.subscribe()
    }

    fn leases_lost(&self) -> watch::Receiver<u64> {
        self.inner.lost.subscribe()
    }

    fn turn<'a>(&'a self, tokens: u64, urgency: &'a Urgency, patience: Duration) -> BoxFuture<'a, Result<(), Denial>> {
        async move {
            let inner = &self.inner;
            let mut known = inner.known.subscribe();
            // The sender is in `inner`, so it is not closed.
            let _ = known.wait_for(|known| *known).await;
            let mut granted = !inner.terms.counts_requests();
            loop {
                self.pause_over(patience).await?;
                if let Some(reached) = self.spent() {
                    return Err(Denial::Spent(reached));
                }
                if granted {
                    return Ok(());
                }
                let (sender, receiver) = oneshot::channel();
                inner
                    .local
                    .lock()
                    .waiters
                    .push(urgency.clone(), Waiter { tokens, sender });
                inner.serve();
                inner.wake.notify_one();
                match receiver.await {
                    Ok(turn) => turn?,
                    // Waiters are answered before they are removed.
                    Err(_) => continue,
                }
                granted = true;
            }
        }
        .boxed()
    }

    fn try_turn(&self) -> bool {
        !self.inner.terms.counts_requests()
            && *self.inner.known.borrow()
            && self.inner.pause_left().is_zero()
            && self.spent().is_none()
    }

    fn pay(&self, spent: &Spending) {
        {
            let mut local = self.inner.local.lock();
            local.unreported = local.unreported.plus(spent);
        }
        self.inner.wake.notify_one();
    }

    fn pause(&self, pause: Duration, why: &str) {
        let inner = &self.inner;
        if pause.is_zero() || !inner.pause_here(pause) {
            return;
        }
        tracing::warn!(
            generator = %inner.name,
            seconds = pause.as_secs_f64(),
            why,
            "the generator asks for a pause: no process of the fleet calls it before"
        );
        metrics::counter!(crate::metric_names::PAUSES, "generator" => inner.name.clone()).increment(1);
        let left = millis(pause);
        {
            let mut local = inner.local.lock();
            if local.pause < Some(left) {
                local.pause = Some(left);
                local.pause_why = why.chars().take(LONGEST_REASON).collect();
            }
        }
        inner.wake.notify_one();
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            let left_bytes = serde_json::to_vec(&left).unwrap_or_default().into();
            if let Err(error) = inner.store.announce("paused", &inner.key, left_bytes).await {
                tracing::warn!(%error, "cannot announce a pause; other processes find it in the shared counters");
            }
            let lanes = inner.store.pause_lanes(&inner.key, inner.pause_left());
            if let Err(error) = lanes.await {
                tracing::warn!(%error, "cannot pause the lanes; units are handed back instead");
            }
        });
    }
}
