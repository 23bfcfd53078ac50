//! Keeps a limit of this process in step with the shared counters.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;

use isomer_outbound::shared_limits::Spending;

use super::{
    counters::{Counters, ProcessGrant, ProcessReport},
    limit::{Inner, Slots},
};
use crate::queue::FleetError;

/// How long unused concurrent calls are kept, for calls that follow soon.
const KEPT: Duration = Duration::from_secs(1);
/// How often a process that waits for others to return something asks again; it is also notified.
const ASKED_AGAIN: Duration = Duration::from_millis(250);
/// How long spending is accumulated before it is reported.
const REPORT_AFTER: Duration = Duration::from_millis(200);
/// Pause after a failed exchange with the broker.
const RETRY: Duration = Duration::from_millis(500);
/// Minimum pause between two exchanges.
const SPACING: Duration = Duration::from_millis(2);
/// How often the counters are read if there is nothing to report.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// Number of exchanges that may be lost against other processes before the next round.
const ATTEMPTS: u32 = 50;

/// The agent's state between exchanges.
struct Agent {
    lease: Duration,
    /// Number of concurrent calls that this process holds.
    held: usize,
    held_until: Option<Instant>,
    /// The recent maximum of wanted calls, and its time.
    high: (usize, Instant),
    /// Whether others waited at the last exchange.
    others_wait: bool,
    /// Whether this process waited at the last exchange.
    waits: bool,
    renew_at: Instant,
    grow_at: Instant,
    rates_at: Instant,
    report_at: Instant,
    retry_at: Instant,
    /// Whether the broker is unreachable.
    away: bool,
}

/// The pending exchange with the broker.
struct PendingExchange {
    report: ProcessReport,
    now: bool,
    /// When to check again.
    again: Instant,
}

/// Runs until the limit is dropped.
pub(super) async fn run(limit: Weak<Inner>, lease: Duration) {
    let start = Instant::now();
    let mut agent = Agent {
        lease,
        held: 0,
        held_until: None,
        high: (0, start),
        others_wait: false,
        waits: false,
        renew_at: start,
        grow_at: start,
        rates_at: start,
        report_at: start,
        retry_at: start,
        away: false,
    };
    loop {
        let Some(inner) = limit.upgrade() else { return };
        // Two references: the handle and this function.
        if Arc::strong_count(&inner) == 1 {
            if let Err(error) = leave(&inner).await {
                tracing::debug!(%error, "cannot give concurrent calls back; their lease ends");
            }
            return;
        }
        agent.lose_expired(&inner);
        let due = agent.due(&inner);
        if due.now {
            agent.exchange(&inner, due.report).await;
            tokio::time::sleep(SPACING).await;
            continue;
        }
        let until = agent.held_until.map_or(due.again, |end| due.again.min(end));
        let woken = async {
            inner.wake.notified().await;
        };
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// Removes this process from the counters.
pub(super) async fn leave(inner: &Inner) -> Result<(), FleetError> {
    if inner.terms.concurrency == 0 {
        return Ok(());
    }
    inner.set_usable(0);
    for _ in 0..ATTEMPTS {
        let (revision, content) = inner.store.read(&inner.key).await?;
        let Some(mut counters) = read(&content) else {
            return Ok(());
        };
        counters.leave(&inner.me);
        if inner.store.swap(&inner.key, revision, written(&counters)).await? {
            return inner.store.announce("freed", &inner.key, bytes::Bytes::new()).await;
        }
    }
    Ok(())
}

fn read(content: &[u8]) -> Option<Counters> {
    serde_json::from_slice(content).ok()
}

fn written(counters: &Counters) -> bytes::Bytes {
    serde_json::to_vec(counters).unwrap_or_default().into()
}

impl Agent {
    /// Without a lease no call may be in flight, because its place is granted to other processes.
    fn lose_expired(&mut self, inner: &Inner) {
        if self.held == 0 || self.held_until.is_none_or(|end| Instant::now() < end) {
            return;
        }
        tracing::warn!(
            generator = %inner.name,
            calls = self.held,
            "the lease of concurrent calls could not be renewed: calls in flight end, and are made again"
        );
        self.held = 0;
        self.held_until = None;
        inner.set_usable(0);
        inner.lost.send_modify(|lost| *lost += 1);
    }

    fn wanted(&mut self, inner: &Inner, slots: &Slots) -> usize {
        let wanted = (slots.in_flight + slots.waiting).min(inner.terms.concurrency);
        if wanted >= self.high.0 || self.others_wait || self.high.1.elapsed() > KEPT {
            self.high = (wanted, Instant::now());
        }
        self.high.0
    }

    fn due(&mut self, inner: &Inner) -> PendingExchange {
        let now = Instant::now();
        let limited = inner.terms.concurrency > 0;
        let (want, keep, in_flight) = {
            let mut slots = inner.slots.lock();
            let want = self.wanted(inner, &slots);
            // From here on no call begins above it, so the calls above it can be returned.
            slots.usable = slots.usable.min(want);
            (want, slots.usable.max(slots.in_flight), slots.in_flight)
        };
        let freed = inner.freed.swap(false, Ordering::Relaxed);
        let wanted = inner.wanted.swap(false, Ordering::Relaxed);
        let (requests, tokens, report) = {
            let mut local = inner.local.lock();
            local.waiters.retain(|waiter| !waiter.sender.is_closed());
            let requests = (local.waiters.len() as u64).saturating_sub(local.requests);
            let tokens: u64 = local.waiters.iter().map(|waiter| waiter.tokens).sum();
            let tokens = if inner.terms.tokens_per_second > 0.0 {
                tokens.saturating_sub(local.tokens)
            } else {
                0
            };
            let report = ProcessReport {
                me: inner.me.clone(),
                held: self.held,
                keep,
                want,
                requests,
                tokens,
                unused_requests: local.unused,
                spent: local.unreported,
                known: local.known.clone(),
                pause: local.pause,
                pause_why: local.pause_why.clone(),
            };
            (requests, tokens, report)
        };
        let counts = inner.terms.counts_requests();
        let reasons = [
            // The counters are not known yet, or are due for renewal or reading.
            (true, self.renew_at),
            (limited && want > self.held, if freed { now } else { self.grow_at }),
            (limited && keep < self.held, now),
            (limited && wanted && self.held > 0, now),
            (requests + tokens > 0, self.rates_at),
            (
                counts && (!report.spent.is_nothing() || report.unused_requests > 0),
                self.report_at,
            ),
            (report.pause.is_some(), now),
        ];
        let earliest = reasons.into_iter().filter(|(due, _)| *due).map(|(_, at)| at).min();
        let mut again = earliest.unwrap_or(self.renew_at).max(self.retry_at);
        if limited && want > in_flight {
            again = again.min(self.high.1 + KEPT + SPACING);
        }
        let due = earliest.is_some_and(|at| at <= now) && self.retry_at <= now;
        PendingExchange {
            report,
            now: due,
            again,
        }
    }

    async fn exchange(&mut self, inner: &Inner, report: ProcessReport) {
        let began = Instant::now();
        let lost_at = self.held_until;
        let exchanged = async {
            let exchanging = swap(inner, self.lease, &report);
            match lost_at {
                // A broker that does not answer must not keep a lease from ending.
                Some(end) => tokio::time::timeout_at(end, exchanging).await.ok(),
                None => Some(exchanging.await),
            }
        };
        match exchanged.await {
            Some(Ok(granted)) => {
                if self.away {
                    tracing::info!(generator = %inner.name, "the shared limits can be reached again");
                }
                self.away = false;
                self.take(inner, began, &report, granted).await;
            }
            Some(Err(error)) => {
                if !self.away {
                    tracing::warn!(generator = %inner.name, %error, "the shared limits cannot be reached; calls wait");
                }
                self.away = true;
                self.retry_at = Instant::now() + RETRY;
            }
            None => {}
        }
    }

    async fn take(&mut self, inner: &Inner, began: Instant, report: &ProcessReport, granted: ProcessGrant) {
        let limited = inner.terms.concurrency > 0;
        let gave_back = limited && granted.held < report.held;
        if limited {
            self.held = granted.held;
            // A fifth of the lease is reserved for differences between clocks.
            self.held_until = (granted.held > 0).then(|| began + self.lease * 4 / 5);
            inner.set_usable(granted.usable);
            metrics::gauge!(crate::metric_names::LEASED, "generator" => inner.name.clone()).set(granted.held as f64);
        }
        self.others_wait = granted.others_wait;
        let now = Instant::now();
        let holds = limited && (granted.held > 0 || report.want > 0);
        self.renew_at = now
            + if holds || inner.terms.budget.is_limited() {
                self.lease / 4
            } else {
                READ_AGAIN
            };
        self.grow_at = if limited && report.want > granted.held {
            now + ASKED_AGAIN
        } else {
            now
        };
        self.report_at = now + REPORT_AFTER;
        self.rates_at = now + granted.next.unwrap_or_default().min(READ_AGAIN);
        if !granted.paused.is_zero() {
            inner.pause_of_fleet(granted.paused);
        }
        let (period, spent) = granted.spent;
        {
            let mut local = inner.local.lock();
            local.requests += granted.requests;
            local.tokens += granted.tokens;
            local.unreported = local.unreported.without(&report.spent);
            local.unused = local.unused.saturating_sub(report.unused_requests);
            if local.pause == report.pause {
                local.pause = None;
            }
            local.known = (period, spent);
        }
        record_spent(inner, &spent);
        inner.known.send_if_modified(|known| !std::mem::replace(known, true));
        inner.serve();
        if granted.requests == 0
            && let Some(reached) = inner.terms.budget.requests_reached(&spent)
            && inner.local.lock().requests == 0
        {
            inner.refuse(&reached);
        }
        let waited = std::mem::replace(&mut self.waits, limited && report.want > granted.held);
        let topic = if gave_back && granted.others_wait {
            "freed"
        } else if self.waits && !waited {
            "waits"
        } else {
            return;
        };
        if let Err(error) = inner.store.announce(topic, &inner.key, bytes::Bytes::new()).await {
            tracing::debug!(%error, "cannot notify other processes; they ask again soon");
        }
    }
}

fn record_spent(inner: &Inner, spent: &Spending) {
    let budget = &inner.terms.budget;
    if !budget.is_limited() {
        return;
    }
    let tell = |kind: &'static str, value: f64| {
        metrics::gauge!(crate::metric_names::SPENT, "generator" => inner.name.clone(), "kind" => kind).set(value);
    };
    tell("requests", spent.requests as f64);
    tell("tokens", (spent.prompt_tokens + spent.generated_tokens) as f64);
    tell("cost", budget.cost(spent));
}

/// Makes one exchange: this process's report and requests are merged into the latest revision. If
/// the broker's answer is lost after it has accepted, spending is reported twice. In that case a
/// limit is reached early rather than late.
async fn swap(inner: &Inner, lease: Duration, report: &ProcessReport) -> Result<ProcessGrant, FleetError> {
    let store = &inner.store;
    for attempt in 0..ATTEMPTS {
        let now = store.now().await?;
        let (revision, content) = store.read(&inner.key).await?;
        let mut counters = match read(&content) {
            Some(counters) => counters,
            None => {
                let new = Counters::new(store.created().await?, lease);
                let opens = new.opens_in(now);
                if inner.terms.concurrency > 0 && !opens.is_zero() {
                    tracing::info!(
                        generator = %inner.name,
                        seconds = opens.as_secs_f64(),
                        "the queue is new: calls wait until every process has registered those in flight"
                    );
                }
                new
            }
        };
        let before = counters.clone();
        let granted = counters.apply(now, lease, &inner.terms, report);
        if counters == before || store.swap(&inner.key, revision, written(&counters)).await? {
            return Ok(granted);
        }
        // Processes that collide should not collide again at once.
        let spread = u64::from(inner.me.bytes().last().unwrap_or_default()) % 7 + 1;
        tokio::time::sleep(Duration::from_millis(spread * u64::from(attempt.min(4) + 1))).await;
    }
    Err(FleetError::Broker {
        engine: String::new(),
        what: "cannot write a limit",
        message: format!("other processes were first {ATTEMPTS} times"),
    })
}
