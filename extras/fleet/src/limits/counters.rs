//! The counters of one limit, as all processes share them: who holds how many concurrent calls,
//! what is left of the rates, what is spent, and until when nobody may call. No clock and no
//! network: the caller says what time it is at the broker.

use std::{collections::BTreeMap, time::Duration};

use isomer_outbound::shared_limits::{Spent, TOTAL, Terms, day};
use isomer_service_kit::Bucket;
use serde::{Deserialize, Serialize};

use super::share::shares;
use crate::time::millis;

/// A burst after a pause: as much as a rate allows in this time.
const BURST_SECONDS: f64 = 1.0;
/// How long a process keeps its place in the order when there are fewer concurrent calls than
/// processes; then the next one has its turn.
const TURN_MILLIS: u64 = 2_000;
/// Budget periods that are remembered.
const PERIODS: usize = 8;

/// The shared state of a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Counters {
    holders: BTreeMap<String, Holder>,
    requests: Level,
    tokens: Level,
    /// By period.
    spent: BTreeMap<String, Spent>,
    /// Nobody calls before this time, in milliseconds at the broker.
    paused_until: u64,
    /// What the generator said when it asked for that.
    paused_why: String,
    /// Most calls in flight, as the process that last wrote this has it; 0: no limit.
    concurrency: usize,
    /// The limit of the budget that is reached, and the period.
    reached: Option<(String, String)>,
    /// No concurrent call and nothing of a budget is granted before this time. Set when the
    /// counters are created in a new bucket: the broker may have lost them, and processes may hold
    /// calls, or know of spending, that they have not told again.
    opens_at: u64,
}

/// What a process holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Holder {
    /// Concurrent calls that it may have in flight.
    slots: usize,
    /// Those that it could use.
    want: usize,
    /// Its place in the order: since when it waits, or has its turn.
    since: u64,
    /// When what it holds is free again unless it renews it.
    expires: u64,
}

/// A token bucket as it was at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Level {
    /// `None`: full.
    units: Option<f64>,
    at: u64,
}

impl Level {
    /// Takes up to `wanted` whole units; also returns how long until there are more.
    fn take(&mut self, rate: f64, now: u64, wanted: u64) -> (u64, Option<Duration>) {
        if rate <= 0.0 {
            return (wanted, None);
        }
        let most = (rate * BURST_SECONDS).max(1.0);
        let mut bucket = Bucket::full(rate, most);
        if let Some(units) = self.units {
            bucket = bucket.holding(units.min(most));
            // The clock of a broker may be set back: then nothing accrues for a while.
            bucket.pass(Duration::from_millis(now.saturating_sub(self.at)));
        }
        let available = bucket.level().max(0.0) as u64;
        let taken = wanted.min(available);
        bucket.take(taken as f64);
        // Not for each unit: many may be waited for.
        let worth_it = (wanted.saturating_sub(taken) as f64).min(most / 4.0).max(1.0);
        let next = (taken < wanted).then(|| bucket.wait(worth_it));
        *self = Self {
            units: Some(bucket.level()),
            at: now.max(self.at),
        };
        (taken, next)
    }
}

/// What a process tells and asks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ask {
    /// Its id.
    pub(super) me: String,
    /// Concurrent calls that it holds, as far as it knows.
    pub(super) held: usize,
    /// How many of these it must keep: those in flight, and those that may begin at any moment.
    pub(super) keep: usize,
    /// How many it could use.
    pub(super) want: usize,
    /// Requests that wait for the rate, or for the budget.
    pub(super) requests: u64,
    /// Tokens that they wait for.
    pub(super) tokens: u64,
    /// Requests that were granted and not used.
    pub(super) unused_requests: u64,
    /// What was spent since it last told.
    pub(super) spent: Spent,
    /// What it knew to be spent in a period: the broker may have lost it.
    pub(super) known: (String, Spent),
    /// A pause, in milliseconds from now.
    pub(super) pause: Option<u64>,
    /// What the generator said when it asked for the pause.
    pub(super) pause_why: String,
}

/// What a limit holds back now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitState {
    /// Until when nobody calls, in milliseconds at the broker.
    pub paused_until: Option<u64>,
    /// What the generator said when it asked for that.
    pub paused_why: String,
    /// Most calls in flight; 0: no limit.
    pub most_calls: usize,
    /// Calls in flight that processes hold.
    pub calls: usize,
    /// The limit of the budget that is reached.
    pub reached: Option<String>,
}

/// What it is granted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Granted {
    /// Concurrent calls that it holds.
    pub(super) held: usize,
    /// How many of these it may use: fewer where others wait for theirs.
    pub(super) usable: usize,
    /// Whether another process waits for concurrent calls.
    pub(super) others_wait: bool,
    /// Requests and tokens.
    pub(super) requests: u64,
    pub(super) tokens: u64,
    /// When more of the rates is available, if less than asked for was granted.
    pub(super) next: Option<Duration>,
    /// What all processes have spent in the period of this time.
    pub(super) spent: (String, Spent),
    /// How long nobody may call.
    pub(super) paused: Duration,
}

impl Counters {
    /// Counters in a bucket that was created at a time: no concurrent call is granted until every
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

    /// Takes what a process tells, and grants what the terms allow.
    pub(super) fn apply(&mut self, now: u64, lease: Duration, terms: &Terms, ask: &Ask) -> Granted {
        self.holders.retain(|id, holder| holder.expires > now || *id == ask.me);
        if let Some(until) = ask.pause.map(|pause| now.saturating_add(pause))
            && until > self.paused_until
        {
            self.paused_until = until;
            self.paused_why.clone_from(&ask.pause_why);
        }
        self.concurrency = terms.concurrency;
        let paused = Duration::from_millis(self.paused_until.saturating_sub(now));
        let spent = self.spend(now, terms, ask);
        let (held, usable, others_wait) = self.slots(now, lease, terms, ask);
        let opens = self.opens_in(now);
        let (requests, tokens, next) = if !paused.is_zero() {
            (0, 0, Some(paused))
        } else if terms.budget.is_limited() && !opens.is_zero() {
            (0, 0, Some(opens))
        } else {
            self.rates(now, terms, ask, &spent)
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
        Granted {
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

    /// What holds calls back at a time.
    pub(super) fn state(&self, now: u64) -> LimitState {
        let there = self.holders.values().filter(|holder| holder.expires > now);
        let calls = there.map(|holder| holder.slots).sum();
        let today = day(now);
        // A period that is over holds nothing back, though nobody has written since.
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

    fn spend(&mut self, now: u64, terms: &Terms, ask: &Ask) -> Spent {
        let period = terms.budget.period(now);
        let account = self.spent.entry(period.clone()).or_default();
        if ask.known.0 == period {
            *account = account.at_least(&ask.known.1);
        }
        account.prompt_tokens += ask.spent.prompt_tokens;
        account.generated_tokens += ask.spent.generated_tokens;
        if terms.counts_requests() {
            account.requests = account.requests.saturating_sub(ask.unused_requests);
        } else {
            account.requests += ask.spent.requests;
        }
        let account = *account;
        while self.spent.len() > PERIODS {
            let oldest = self.spent.keys().find(|name| **name != period).cloned();
            let Some(oldest) = oldest else { break };
            self.spent.remove(&oldest);
        }
        account
    }

    fn slots(&mut self, now: u64, lease: Duration, terms: &Terms, ask: &Ask) -> (usize, usize, bool) {
        if terms.concurrency == 0 {
            self.holders.remove(&ask.me);
            return (usize::MAX, usize::MAX, false);
        }
        let mine = self.holders.entry(ask.me.clone()).or_insert_with(|| Holder {
            since: now,
            ..Holder::default()
        });
        if mine.want == 0 && ask.want > 0 && ask.held == 0 {
            mine.since = now;
        }
        mine.want = ask.want;
        mine.expires = now.saturating_add(millis(lease));
        // What is neither in flight nor about to be is given back.
        mine.slots = ask.held.min(ask.keep);
        self.next_turns(now);
        let mut order: Vec<(&String, &Holder)> = self.holders.iter().collect();
        order.sort_by_key(|(id, holder)| (holder.since, *id));
        let wants: Vec<usize> = order.iter().map(|(_, holder)| holder.want).collect();
        let shares = shares(terms.concurrency, &wants);
        let waits = |(at, (id, holder)): (usize, &(&String, &Holder))| **id != ask.me && holder.slots < shares[at];
        let others_wait = order.iter().enumerate().any(waits);
        let at = order.iter().position(|(id, _)| **id == ask.me);
        let share = at.map_or(0, |at| shares[at]);
        let others: usize = order
            .iter()
            .filter(|(id, _)| **id != ask.me)
            .map(|(_, holder)| holder.slots)
            .sum();
        let opens = self.opens_at <= now;
        let Some(mine) = self.holders.get_mut(&ask.me) else {
            return (0, 0, others_wait);
        };
        if opens && share > mine.slots {
            let free = terms.concurrency.saturating_sub(others + mine.slots);
            mine.slots += free.min(share - mine.slots);
        }
        (mine.slots, mine.slots.min(share), others_wait)
    }

    /// Processes that had their turn go to the end of the order while another has nothing.
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

    fn rates(&mut self, now: u64, terms: &Terms, ask: &Ask, spent: &Spent) -> (u64, u64, Option<Duration>) {
        let left = terms.budget.requests_left(spent);
        let (requests, first) = self
            .requests
            .take(terms.requests_per_second, now, ask.requests.min(left));
        let (tokens, second) = self.tokens.take(terms.tokens_per_second, now, ask.tokens);
        let next = match (first, second) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        };
        (requests, tokens, next)
    }
}
