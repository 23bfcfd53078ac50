//! A peer is a provider or a server behind the gateway. Routing knows its load, its health and its
//! speed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_service_kit::Fault;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    breaker::{Breaker, BreakerRules},
    content::Content,
    suspects::Suspects,
};

/// State of a peer whose health checks pass and whose circuit is closed.
pub(crate) const HEALTHY: &str = "healthy";
/// Weight of a new latency in the moving average.
const NEWEST: f64 = 0.1;
/// Weight of a provider that was just added or has just recovered.
const COLD: f64 = 0.1;
/// Consecutive failed health checks that eject a provider.
const SICK_AFTER: u32 = 2;

/// A provider or server that requests can be sent to.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Name for display: an id in the registry, an address, `this process`.
    pub(crate) name: String,
    /// Whether the peer is in this process. If so, a call takes as long as its work, and would fail
    /// again if repeated.
    here: bool,
    outstanding: AtomicUsize,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Number of times that it was unreachable or ejected.
    outages: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    /// Moving average of the time to an answer, in seconds.
    latency: Option<f64>,
    /// Why it is unhealthy, after failed health checks.
    sick: Option<String>,
    failed_checks: u32,
    /// When it was added, or recovered.
    since: Instant,
    /// Cancelled when the peer is ejected for silence. Its waiting requests are then sent to
    /// another peer, if one is healthy.
    out: CancellationToken,
    last_failure: Option<String>,
    suspects: Suspects,
}

/// The health of a replica, for display.
#[derive(Debug, Clone)]
pub(crate) struct PeerHealth {
    pub(crate) state: &'static str,
    pub(crate) why: Option<String>,
    pub(crate) latency: Option<Duration>,
    pub(crate) outstanding: usize,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
}

impl Peer {
    pub(crate) fn new(name: String, rules: BreakerRules) -> Self {
        Self {
            name,
            here: false,
            outstanding: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            outages: AtomicU64::new(0),
            state: Mutex::new(State {
                breaker: Breaker::new(rules),
                latency: None,
                sick: None,
                failed_checks: 0,
                since: Instant::now(),
                out: CancellationToken::new(),
                last_failure: None,
                suspects: Suspects::default(),
            }),
        }
    }

    /// A peer in this process.
    pub(crate) fn here(name: String, rules: BreakerRules) -> Self {
        Self {
            here: true,
            ..Self::new(name, rules)
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.here
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held; even then the numbers would be valid.
        self.state.lock()
    }

    /// Whether requests may be sent to it now.
    pub(crate) fn available(&self, now: Instant) -> bool {
        let state = self.state();
        state.sick.is_none() && state.breaker.allows(now)
    }

    /// Load of the peer: requests in flight divided by its target share.
    pub(crate) fn load(&self, now: Instant, warmup: Duration) -> f64 {
        let age = now.saturating_duration_since(self.state().since).as_secs_f64();
        let warm = if warmup.is_zero() {
            1.0
        } else {
            (age / warmup.as_secs_f64()).min(1.0)
        };
        (self.outstanding.load(Ordering::Relaxed) + 1) as f64 / (COLD + (1.0 - COLD) * warm)
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Number of times that it was unreachable or ejected. After each, another server may be behind
    /// its address.
    pub(crate) fn outages(&self) -> u64 {
        self.outages.load(Ordering::Acquire)
    }

    fn out(&self) {
        self.outages.fetch_add(1, Ordering::Release);
    }

    /// Whether a request that just failed is an exception: earlier requests were answered, and no
    /// earlier failure counts.
    pub(crate) fn answers_others(&self) -> bool {
        let state = self.state();
        self.answers() > 0 && state.sick.is_none() && state.breaker.failures() <= 1
    }

    /// Counts a failure that was attributed to the request, because another peer has now answered
    /// that request.
    pub(crate) fn blame(&self) {
        self.count_failure(&mut self.state());
    }

    fn count_failure(&self, state: &mut State) {
        let now = Instant::now();
        state.breaker.heard(false, now);
        if !state.breaker.allows(now) {
            self.out();
        }
    }

    pub(crate) fn latency(&self) -> Option<f64> {
        self.state().latency
    }

    /// Consecutive health checks it has failed.
    pub(crate) fn failed_checks(&self) -> u32 {
        self.state().failed_checks
    }

    /// Whether failed health checks have ejected it.
    pub(crate) fn is_out(&self) -> bool {
        self.state().sick.is_some()
    }

    /// Completes the next time the peer is ejected for silence.
    pub(crate) fn silenced(&self) -> impl Future<Output = ()> + use<> {
        self.state().out.clone().cancelled_owned()
    }

    /// When its breaker lets the next request through.
    pub(crate) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.state().breaker.opens_at(now)
    }

    /// Begins an attempt.
    pub(crate) fn send(self: &Arc<Self>) -> Attempt {
        let now = Instant::now();
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        self.state().breaker.sent(now);
        Attempt {
            peer: Arc::clone(self),
            begun: now,
            heard: false,
        }
    }

    /// Records a health check's outcome. Waiting requests are moved to another peer only if the
    /// check got no answer at all and another peer is healthy. A peer that refuses new requests, or
    /// whose port is closed, may still finish its requests in flight. If a process is gone, its
    /// connections break.
    pub(crate) fn checked(&self, outcome: Result<(), Fault>, silent: bool) {
        let mut state = self.state();
        match outcome {
            Ok(()) => {
                state.failed_checks = 0;
                if state.sick.take().is_some() {
                    tracing::info!(peer = self.name, "is healthy again");
                    state.breaker.close();
                    state.latency = None;
                    state.since = Instant::now();
                }
            }
            Err(fault) => {
                self.out();
                state.failed_checks += 1;
                if state.failed_checks < SICK_AFTER {
                    return;
                }
                if silent {
                    std::mem::take(&mut state.out).cancel();
                }
                if state.sick.is_none() {
                    tracing::warn!(peer = self.name, %fault, "is unhealthy: its health checks fail");
                    state.sick = Some(fault.to_string());
                }
            }
        }
    }

    /// Its state for display: [`HEALTHY`]; `unhealthy` while its health checks fail; or
    /// `circuit open` after its own failures, with the last one.
    pub(crate) fn health(&self, now: Instant) -> PeerHealth {
        let state = self.state();
        let (name, why) = match &state.sick {
            Some(why) => ("unhealthy", Some(why.clone())),
            None if !state.breaker.allows(now) => ("circuit open", state.last_failure.clone()),
            None => (HEALTHY, None),
        };
        PeerHealth {
            state: name,
            why,
            latency: state.latency.map(Duration::from_secs_f64),
            outstanding: self.outstanding.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Attempt {
    peer: Arc<Peer>,
    begun: Instant,
    heard: bool,
}

impl Attempt {
    /// Records that the provider answered; a refusal of the request is also an answer.
    pub(crate) fn answered(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun).as_secs_f64();
        self.heard = true;
        self.peer.answered.fetch_add(1, Ordering::Relaxed);
        let mut state = self.peer.state();
        state.breaker.heard(true, now);
        let latency = state.latency.unwrap_or(took);
        state.latency = Some(latency + NEWEST * (took - latency));
    }

    /// Records that the provider fulfilled the request, so none of its texts is at fault.
    pub(crate) fn passed(&mut self, content: Content<'_>) {
        self.answered();
        if self.peer.state().suspects.is_empty() {
            return;
        }
        let texts = (content.texts)();
        self.peer.state().suspects.passed(&texts);
    }

    /// Whether a failure of these texts would eject the provider.
    pub(crate) fn would_eject(&self, texts: &[u64]) -> bool {
        let state = self.peer.state();
        !state.suspects.explains(texts) && state.breaker.would_open(Instant::now())
    }

    /// Records that the provider answered another request. It is healthy, whatever the outcome of
    /// this request.
    pub(crate) fn vouched(&mut self) {
        self.peer.state().breaker.close();
    }

    /// Records that the provider failed. `texts` are those of the request if the provider answered
    /// it. Returns whether the failure counts against the provider. It does not count if one of the
    /// texts failed here before. Otherwise, repeating a bad text would eject a provider that
    /// answers all others.
    pub(crate) fn failed(mut self, fault: &Fault, texts: Option<&[u64]>) -> bool {
        self.heard = true;
        self.peer.failed.fetch_add(1, Ordering::Relaxed);
        let labels = [("provider", self.peer.name.clone()), ("reason", fault.reason.clone())];
        metrics::counter!(super::metrics::FAILURES, &labels).increment(1);
        let mut state = self.peer.state();
        state.last_failure = Some(fault.to_string());
        match texts {
            Some(texts) if state.suspects.explain(texts) => {
                state.breaker.abandoned();
                return false;
            }
            Some(_) => {}
            None => self.peer.out(),
        }
        self.peer.count_failure(&mut state);
        true
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.peer.outstanding.fetch_sub(1, Ordering::Relaxed);
        if !self.heard {
            self.peer.state().breaker.abandoned();
        }
    }
}
