//! The shared counters of one limit: the holders of concurrent calls, the remaining rates, the
//! spending, and the end of a pause. This module uses neither clock nor network: the caller passes
//! in the broker's time.

use std::{collections::BTreeMap, time::Duration};

use isomer_outbound::shared_limits::{Spending, TOTAL, Terms, day};
use isomer_service_kit::Bucket;
use serde::{Deserialize, Serialize};

use super::share::shares;
use crate::time::millis;

/// A burst after a pause: the amount that a rate permits in this time.
const BURST_SECONDS: f64 = 1.0;
/// How long a process keeps its place in the order if there are fewer concurrent calls than
/// processes. After that, the next one has its turn.
const TURN_MILLIS: u64 = 2_000;
/// Number of remembered budget periods.
const PERIODS: usize = 8;

/// The shared state of a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Counters {
    holders: BTreeMap<String, Holder>,
    requests: Level,
    tokens: Level,
    /// Spending by period.
    spent: BTreeMap<String, Spending>,
    /// No calls begin before this time, in milliseconds at the broker.
    paused_until: u64,
    /// The generator's message when it requested the pause.
    paused_why: String,
    /// Maximum number of calls in flight, as known to the process that last wrote this; 0: no
    /// limit.
    concurrency: usize,
    /// The budget limit that is reached, and the period.
    reached: Option<(String, String)>,
    /// No concurrent call and no budget is granted before this time. It is set when the counters
    /// are created in a new bucket. The broker may have lost them, and processes may hold calls or
    /// know of spending that they have not reported again.
    opens_at: u64,
}

/// The holdings of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Holder {
    /// Number of concurrent calls that it may have in flight.
    slots: usize,
    /// Number of concurrent calls that it could use.
    want: usize,
    /// Its place in the order: the time since which it waits, or has its turn.
    since: u64,
    /// When its holdings expire unless it renews them.
    expires: u64,
}

/// A token bucket at a given time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Level {
    /// `None`: full.
    units: Option<f64>,
    at: u64,
}

impl Level {
    /// Takes up to `wanted` whole units; also returns the time until more are available.
    fn take(&mut self, rate: f64, now: u64, wanted: u64) -> (u64, Option<Duration>) {
        if rate <= 0.0 {
            return (wanted, None);
        }
        let most = (rate * BURST_SECONDS).max(1.0);
        let mut bucket = Bucket::full(rate, most);
        if let Some(units) = self.units {
            bucket = bucket.holding(units.min(most));
            // The clock of a broker may be set back; then nothing accrues for a while.
            bucket.pass(Duration::from_millis(now.saturating_sub(self.at)));
        }
        let available = bucket.level().max(0.0) as u64;
        let taken = wanted.min(available);
        bucket.take(taken as f64);
        // The wait is not per unit: many units may be requested.
        let worth_it = (wanted.saturating_sub(taken) as f64).min(most / 4.0).max(1.0);
        let next = (taken < wanted).then(|| bucket.wait(worth_it));
        *self = Self {
            units: Some(bucket.level()),
            at: now.max(self.at),
        };
        (taken, next)
    }
}

/// The report and the requests of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProcessReport {
    /// Its id.
    pub(super) me: String,
    /// Number of concurrent calls that it holds, as far as it knows.
    pub(super) held: usize,
    /// Number of these that it must keep: those in flight, and those that may begin at any moment.
    pub(super) keep: usize,
    /// Number that it could use.
    pub(super) want: usize,
    /// Number of requests that wait for the rate, or for the budget.
    pub(super) requests: u64,
    /// Number of tokens for which they wait.
    pub(super) tokens: u64,
    /// Number of requests that were granted but not used.
    pub(super) unused_requests: u64,
    /// Spending since its last report.
    pub(super) spent: Spending,
    /// The spending in a period as known to it, because the broker may have lost it.
    pub(super) known: (String, Spending),
    /// A pause, in milliseconds from now.
    pub(super) pause: Option<u64>,
    /// The generator's message when it requested the pause.
    pub(super) pause_why: String,
}

/// The current restrictions of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitState {
    /// End of the pause, in milliseconds at the broker.
    pub paused_until: Option<u64>,
    /// The generator's message when it requested the pause.
    pub paused_why: String,
    /// Maximum number of calls in flight; 0: no limit.
    pub most_calls: usize,
    /// Number of calls in flight that processes hold.
    pub calls: usize,
    /// The budget limit that is reached.
    pub reached: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProcessGrant {
    /// Number of concurrent calls that it holds.
    pub(super) held: usize,
    /// Number of these that it may use: fewer if others wait for theirs.
    pub(super) usable: usize,
    /// Whether another process waits for concurrent calls.
    pub(super) others_wait: bool,
    /// Requests and tokens.
    pub(super) requests: u64,
    pub(super) tokens: u64,
    /// When more of the rates is available, if less than requested was granted.
    pub(super) next: Option<Duration>,
    /// The spending of all processes in the current period.
    pub(super) spent: (String, Spending),
    /// The remaining pause.
    pub(super) paused: Duration,
}

impl Counters {
    /// Counters in a bucket with this creation time. No concurrent call is granted until every
    /// process that held some has registered again, or has lost its lease.
    pub(super) fn new(bucket_created: u64, lease: Duration) -> Self {
        Self {
            opens_at: bucket_created.saturating_add(millis(lease)),
            ..Self::default()
        }
    }

    /// How long until concurrent calls are granted.
    pub(super) fn opens_in(&self, now: u64) -> Duration {
        Duration::from_millis(self.opens_at.saturating_sub(now))
    }

    /// Merges the report of a process, and grants what the terms permit.
    pub(super) fn apply(&mut self, now: u64, lease: Duration, terms: &Terms, report: &ProcessReport) -> ProcessGrant {
        self.holders
            .retain(|id, holder| holder.expires > now || *id == report.me);
        if let Some(until) = report.pause.map(|pause| now.saturating_add(pause))
            && until > self.paused_until
        {
            self.paused_until = until;
            self.paused_why.clone_from(&report.pause_why);
        }
        self.concurrency = terms.concurrency;
        let paused = Duration::from_millis(self.paused_until.saturating_sub(now));
        let spent = self.spend(now, terms, report);
        let (held, usable, others_wait) = self.slots(now, lease, terms, report);
        let opens = self.opens_in(now);
        let (requests, tokens, next) = if !paused.is_zero() {
            (0, 0, Some(paused))
        } else if terms.budget.is_limited() && !opens.is_zero() {
            (0, 0, Some(opens))
        } else {
            self.rates(now, terms, report, &spent)
        };
        let period = terms.budget.period(now);
        let account = self.spent.entry(period.clone()).or_default();
        if terms.counts_requests() {
            account.requests += requests;
        }
        let reached = terms
            .budget
            .reached(account)
            .or_else(|| terms.budget.requests_reached(account));
        self.reached = reached.map(|reached| (reached.what, period.clone()));
        ProcessGrant {
            held,
            usable,
            others_wait,
            requests,
            tokens,
            next,
            spent: (period, *account),
            paused,
        }
    }

    /// The restrictions at a given time.
    pub(super) fn state(&self, now: u64) -> LimitState {
        let there = self.holders.values().filter(|holder| holder.expires > now);
        let calls = there.map(|holder| holder.slots).sum();
        let today = day(now);
        // A period that is over imposes no restriction, even if nobody has written since.
        let lasts = |(_, period): &&(String, String)| period == TOTAL || today.starts_with(period.as_str());
        LimitState {
            paused_until: (self.paused_until > now).then_some(self.paused_until),
            paused_why: self.paused_why.clone(),
            most_calls: self.concurrency,
            calls,
            reached: self.reached.as_ref().filter(lasts).map(|(what, _)| what.clone()),
        }
    }

    /// Removes a process.
    pub(super) fn leave(&mut self, me: &str) {
        self.holders.remove(me);
    }

    fn spend(&mut self, now: u64, terms: &Terms, report: &ProcessReport) -> Spending {
        let period = terms.budget.period(now);
        let account = self.spent.entry(period.clone()).or_default();
        if report.known.0 == period {
            *account = account.at_least(&report.known.1);
        }
        account.prompt_tokens += report.spent.prompt_tokens;
        account.generated_tokens += report.spent.generated_tokens;
        if terms.counts_requests() {
            account.requests = account.requests.saturating_sub(report.unused_requests);
        } else {
            account.requests += report.spent.requests;
        }
        let account = *account;
        while self.spent.len() > PERIODS {
            let oldest = self.spent.keys().find(|name| **name != period).cloned();
            let Some(oldest) = oldest else { break };
            self.spent.remove(&oldest);
        }
        account
    }

    fn slots(&mut self, now: u64, lease: Duration, terms: &Terms, report: &ProcessReport) -> (usize, usize, bool) {
        if terms.concurrency == 0 {
            self.holders.remove(&report.me);
            return (usize::MAX, usize::MAX, false);
        }
        let mine = self.holders.entry(report.me.clone()).or_insert_with(|| Holder {
            since: now,
            ..Holder::default()
        });
        if mine.want == 0 && report.want > 0 && report.held == 0 {
            mine.since = now;
        }
        mine.want = report.want;
        mine.expires = now.saturating_add(millis(lease));
        // Calls that are neither in flight nor imminent are returned.
        mine.slots = report.held.min(report.keep);
        self.next_turns(now);
        let mut order: Vec<(&String, &Holder)> = self.holders.iter().collect();
        order.sort_by_key(|(id, holder)| (holder.since, *id));
        let wants: Vec<usize> = order.iter().map(|(_, holder)| holder.want).collect();
        let shares = shares(terms.concurrency, &wants);
        let waits = |(at, (id, holder)): (usize, &(&String, &Holder))| **id != report.me && holder.slots < shares[at];
        let others_wait = order.iter().enumerate().any(waits);
        let at = order.iter().position(|(id, _)| **id == report.me);
        let share = at.map_or(0, |at| shares[at]);
        let others: usize = order
            .iter()
            .filter(|(id, _)| **id != report.me)
            .map(|(_, holder)| holder.slots)
            .sum();
        let opens = self.opens_at <= now;
        let Some(mine) = self.holders.get_mut(&report.me) else {
            return (0, 0, others_wait);
        };
        if opens && share > mine.slots {
            let free = terms.concurrency.saturating_sub(others + mine.slots);
            mine.slots += free.min(share - mine.slots);
        }
        (mine.slots, mine.slots.min(share), others_wait)
    }

    /// Processes that have had their turn move to the end of the order while another process has
    /// nothing.
    fn next_turns(&mut self, now: u64) {
        let starves = |holder: &Holder| holder.want > 0 && holder.slots == 0;
        if !self.holders.values().any(starves) {
            return;
        }
        for holder in self.holders.values_mut() {
            if holder.slots > 0 && now.saturating_sub(holder.since) > TURN_MILLIS {
                holder.since = now;
            }
        }
    }

    fn rates(
        &mut self,
        now: u64,
        terms: &Terms,
        report: &ProcessReport,
        spent: &Spending,
    ) -> (u64, u64, Option<Duration>) {
        let left = terms.budget.requests_left(spent);
        let (requests, first) = self
            .requests
            .take(terms.requests_per_second, now, report.requests.min(left));
        let (tokens, second) = self.tokens.take(terms.tokens_per_second, now, report.tokens);
        let next = match (first, second) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        };
        (requests, tokens, next)
    }
}
