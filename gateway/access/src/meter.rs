//! One caller's usage: pure bookkeeping, without a clock or a database.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use isomer_proto::gateway::v1::BudgetPeriod;
use isomer_service_kit::{Bucket, Fault};
use parking_lot::Mutex;

use crate::{
    calendar::{self, Day, day_of, month_begin},
    faults,
    limits::Limits,
    metric_names,
};

/// Length of a burst: this many seconds' worth of requests pass at once.
const BURST_SECONDS: f64 = 2.0;

/// Usage within a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PeriodUsage {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    /// Billionths of a dollar.
    pub(crate) cost: u64,
}

impl PeriodUsage {
    pub(crate) fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost = self.cost.saturating_add(other.cost);
    }
}

/// The database's sums, on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) as_of: Day,
    pub(crate) day: PeriodUsage,
    pub(crate) month: PeriodUsage,
    pub(crate) total: PeriodUsage,
}

impl Sums {
    /// Usage in the current period of `today`.
    pub(crate) fn of(&self, per: BudgetPeriod, today: Day) -> PeriodUsage {
        match per {
            BudgetPeriod::Day if self.as_of == today => self.day,
            BudgetPeriod::Month if month_begin(self.as_of) == month_begin(today) => self.month,
            BudgetPeriod::Total | BudgetPeriod::Unspecified => self.total,
            BudgetPeriod::Day | BudgetPeriod::Month => PeriodUsage::default(),
        }
    }

    fn add(&mut self, day: Day, spent: PeriodUsage) {
        if day > self.as_of {
            if month_begin(day) != month_begin(self.as_of) {
                self.month = PeriodUsage::default();
            }
            self.day = PeriodUsage::default();
            self.as_of = day;
        }
        if day == self.as_of {
            self.day.add(spent);
        }
        if month_begin(day) == month_begin(self.as_of) {
            self.month.add(spent);
        }
        self.total.add(spent);
    }
}

/// The allowance of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The maximum at once, or per period.
    pub limit: u64,
    /// The part that is left.
    pub remaining: u64,
    /// Time until the full allowance is available again; absent: never.
    pub reset: Option<Duration>,
}

/// The remaining allowance of a caller's limits. Absent: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingLimits {
    pub requests: Option<Allowance>,
    /// Tokens of the budget with the fewest tokens left.
    pub tokens: Option<Allowance>,
}

#[derive(Debug, Default)]
struct Ledger {
    known: Option<Sums>,
    /// Counts that are being written to the database.
    leaving: BTreeMap<Day, PeriodUsage>,
    /// Counts that are not yet written.
    pending: BTreeMap<Day, PeriodUsage>,
    /// Reserved for the requests in flight.
    held: PeriodUsage,
    /// The maximum that the database lets this process reserve, including unwritten counts.
    granted: PeriodUsage,
}

/// The meters of one caller. All its requests share them, even if its limits change.
#[derive(Debug)]
pub(crate) struct Meter {
    /// `key:ID` or `jwt:DIGEST`: the account of the counts.
    pub(crate) principal: String,
    in_flight: AtomicU32,
    /// The rate limiter's bucket, and the time when it was last filled, in microseconds since 1970.
    bucket: Mutex<Option<(Bucket, i64)>>,
    ledger: Mutex<Ledger>,
    last_used: AtomicI64,
    /// Whether the meter is in the queue to be written.
    queued: AtomicBool,
}

/// A permit for one of a caller's concurrent requests.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Meter>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Meter {
    pub(crate) fn new(principal: String) -> Self {
        Self {
            principal,
            in_flight: AtomicU32::new(0),
            bucket: Mutex::new(None),
            ledger: Mutex::new(Ledger::default()),
            last_used: AtomicI64::new(0),
            queued: AtomicBool::new(false),
        }
    }

    /// The id of a key, or `token`: the label of metrics.
    pub(crate) fn label(&self) -> &str {
        self.principal.strip_prefix("key:").unwrap_or("token")
    }

    /// Counts a request that the caller's scopes or limits refused.
    pub(crate) fn count_refusal(&self, fault: &Fault) {
        let labels = [("key", self.label().to_owned()), ("reason", fault.reason.clone())];
        metrics::counter!(metric_names::KEY_REFUSED, &labels).increment(1);
    }

    /// Takes a permit, or refuses if none is left.
    pub(crate) fn enter(self: &Arc<Self>, name: &str, limits: &Limits) -> Result<Permit, Fault> {
        let most = limits.max_concurrency.unwrap_or(u32::MAX);
        self.in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < most).then_some(n + 1))
            .map_err(|_| faults::too_many_at_once(name, most))?;
        Ok(Permit(Arc::clone(self)))
    }

    /// Refuses if a budget is used up.
    pub(crate) fn check_budgets(&self, name: &str, limits: &Limits, now: i64) -> Result<(), Fault> {
        if limits.budgets.is_empty() {
            return Ok(());
        }
        let ledger = self.ledger.lock();
        for budget in &limits.budgets {
            let spent = ledger.spent(budget.per, day_of(now));
            let wait = || calendar::until_end(budget.per, now);
            if let Some(most) = budget.tokens
                && spent.tokens >= most
            {
                return Err(faults::over_budget(name, budget.per, &format!("{most} tokens"), wait()));
            }
            if let (Some(most), Some(dollars)) = (budget.nano(), budget.cost_usd)
                && spent.cost >= most
            {
                return Err(faults::over_budget(
                    name,
                    budget.per,
                    &format!("{dollars} US dollars"),
                    wait(),
                ));
            }
        }
        Ok(())
    }

    /// Takes one request from the bucket, or returns the time until one is available.
    pub(crate) fn take_request(&self, name: &str, limits: &Limits, now: i64) -> Result<(), Fault> {
        let Some(rate) = limits.requests_per_second else {
            return Ok(());
        };
        // A bucket of less than one request would never let a request pass.
        let most = (rate * BURST_SECONDS).max(1.0);
        let mut bucket = self.bucket.lock();
        let (bucket, at) = bucket.get_or_insert((Bucket::full(rate, most), now));
        // The limits may have changed since the last request.
        bucket.change(rate, most);
        // A clock that was set back neither fills nor empties the bucket.
        bucket.pass(Duration::from_micros(u64::try_from(now - *at).unwrap_or(0)));
        *at = now;
        bucket
            .try_take(1.0)
            .map_err(|wait| faults::rate_limited(name, rate, wait))
    }

    /// The remaining allowance of the rate limiter and of the tightest token budget.
    pub(crate) fn remaining(&self, limits: &Limits, now: i64) -> RemainingLimits {
        let requests = limits.requests_per_second.map(|rate| {
            let most = (rate * BURST_SECONDS).max(1.0);
            let level = match self.bucket.lock().as_ref() {
                Some((bucket, at)) => {
                    let passed = Duration::from_micros(u64::try_from(now - *at).unwrap_or(0));
                    (bucket.level() + rate * passed.as_secs_f64()).min(most)
                }
                None => most,
            };
            Allowance {
                limit: most as u64,
                remaining: level.max(0.0) as u64,
                reset: Some(Duration::from_secs_f64((most - level).max(0.0) / rate)),
            }
        });
        let ledger = self.ledger.lock();
        let tokens = limits.budgets.iter().filter_map(|budget| {
            let limit = budget.tokens?;
            Some(Allowance {
                limit,
                remaining: limit.saturating_sub(ledger.spent(budget.per, day_of(now)).tokens),
                reset: calendar::until_end(budget.per, now),
            })
        });
        RemainingLimits {
            requests,
            tokens: tokens.min_by_key(|allowance| allowance.remaining),
        }
    }

    /// Counts usage. Returns true if the meter must be queued for writing.
    pub(crate) fn add(&self, spent: PeriodUsage, now: i64) -> bool {
        self.last_used.fetch_max(now, Ordering::Relaxed);
        self.ledger.lock().pending.entry(day_of(now)).or_default().add(spent);
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Reserves `most` if the grant has room for it.
    pub(crate) fn hold_within_grant(&self, most: PeriodUsage) -> bool {
        let mut ledger = self.ledger.lock();
        let mut wanted = ledger.in_use();
        wanted.add(most);
        let fits = wanted.tokens <= ledger.granted.tokens && wanted.cost <= ledger.granted.cost;
        if fits {
            ledger.held.add(most);
        }
        fits
    }

    /// Reserves `most` without a grant.
    pub(crate) fn hold(&self, most: PeriodUsage) {
        self.ledger.lock().held.add(most);
    }

    /// Records the database's grant, of which `most` is reserved.
    pub(crate) fn granted(&self, granted: PeriodUsage, most: PeriodUsage) {
        let mut ledger = self.ledger.lock();
        ledger.granted = granted;
        ledger.held.add(most);
    }

    /// Releases a request's reservation. The request's usage has already been counted.
    pub(crate) fn release(&self, most: PeriodUsage) {
        let held = &mut self.ledger.lock().held;
        held.tokens = held.tokens.saturating_sub(most.tokens);
        held.cost = held.cost.saturating_sub(most.cost);
    }

    /// Reservations plus unwritten counts.
    pub(crate) fn in_use(&self) -> PeriodUsage {
        self.ledger.lock().in_use()
    }

    /// The last known sums of the database; zero if they were never read.
    pub(crate) fn known(&self, today: Day) -> Sums {
        self.ledger.lock().known.unwrap_or(Sums {
            as_of: today,
            ..Sums::default()
        })
    }

    /// Called after [`Meter::take`]. Shrinks the grant to the amount that is still in use once the
    /// taken counts are written. `None` if nothing was granted.
    pub(crate) fn shrink(&self) -> Option<PeriodUsage> {
        let mut ledger = self.ledger.lock();
        if ledger.granted == PeriodUsage::default() && ledger.held == PeriodUsage::default() {
            return None;
        }
        let mut kept = ledger.held;
        ledger.pending.values().for_each(|spent| kept.add(*spent));
        kept.requests = 0;
        ledger.granted = kept;
        Some(kept)
    }

    /// Marks the meter for the next write. Returns true if it was not marked before.
    pub(crate) fn queue(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Whether requests in flight hold reservations.
    pub(crate) fn is_holding(&self) -> bool {
        self.ledger.lock().held != PeriodUsage::default()
    }

    /// Whether earlier usage has been read from the database.
    pub(crate) fn is_loaded(&self) -> bool {
        self.ledger.lock().known.is_some()
    }

    /// Sets the database's sums before anything was counted here. If calls are concurrent, the
    /// first one wins.
    pub(crate) fn begin(&self, sums: Sums) {
        self.ledger.lock().known.get_or_insert(sums);
    }

    /// Sets the database's sums after all taken counts were written.
    pub(crate) fn loaded(&self, sums: Sums) {
        let mut ledger = self.ledger.lock();
        ledger.known = Some(sums);
        ledger.leaving.clear();
    }

    /// Records that all taken counts were written, but that the database's sums were not read.
    pub(crate) fn written(&self) {
        let mut ledger = self.ledger.lock();
        let leaving = std::mem::take(&mut ledger.leaving);
        if let Some(known) = &mut ledger.known {
            leaving.into_iter().for_each(|(day, spent)| known.add(day, spent));
        }
    }

    /// Takes the counts to be written; [`Meter::loaded`], [`Meter::written`] or [`Meter::put_back`]
    /// must follow.
    pub(crate) fn take(&self) -> Vec<(Day, PeriodUsage)> {
        self.queued.store(false, Ordering::Release);
        let mut ledger = self.ledger.lock();
        let pending = std::mem::take(&mut ledger.pending);
        for (day, spent) in &pending {
            ledger.leaving.entry(*day).or_default().add(*spent);
        }
        pending.into_iter().collect()
    }

    /// Puts the taken counts back after a failed write.
    pub(crate) fn put_back(&self) {
        let mut ledger = self.ledger.lock();
        let leaving = std::mem::take(&mut ledger.leaving);
        for (day, spent) in leaving {
            ledger.pending.entry(day).or_default().add(spent);
        }
        self.queued.store(true, Ordering::Release);
    }

    /// Time of the last request; 0 if there was none since this process began.
    pub(crate) fn last_used(&self) -> i64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Whether nothing is in flight and nothing waits to be written.
    pub(crate) fn is_quiet(&self) -> bool {
        let ledger = self.ledger.lock();
        self.in_flight.load(Ordering::Acquire) == 0
            && ledger.pending.is_empty()
            && ledger.leaving.is_empty()
            && ledger.granted == PeriodUsage::default()
    }
}

impl Ledger {
    fn in_use(&self) -> PeriodUsage {
        let mut used = self.held;
        for unwritten in [&self.leaving, &self.pending] {
            unwritten.values().for_each(|spent| used.add(*spent));
        }
        used.requests = 0;
        used
    }

    fn spent(&self, per: BudgetPeriod, today: Day) -> PeriodUsage {
        let mut spent = self.known.unwrap_or_default().of(per, today);
        let begin = match per {
            BudgetPeriod::Day => today,
            BudgetPeriod::Month => month_begin(today),
            BudgetPeriod::Total | BudgetPeriod::Unspecified => Day::MIN,
        };
        for unwritten in [&self.leaving, &self.pending] {
            unwritten.range(begin..).for_each(|(_, more)| spent.add(*more));
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::limits::Budget;

    const DAY: i64 = 86_400_000_000;
    /// 2026-11-30, 12:00 UTC.
    const NOON: i64 = 20_787 * DAY + DAY / 2;

    fn budget(per: BudgetPeriod, tokens: u64) -> Limits {
        Limits {
            budgets: vec![Budget {
                per,
                tokens: Some(tokens),
                cost_usd: None,
            }],
            ..Limits::default()
        }
    }

    fn tokens(tokens: u64) -> PeriodUsage {
        PeriodUsage {
            requests: 1,
            tokens,
            cost: 0,
        }
    }

    #[test]
    fn what_limits_still_allow_is_told_and_takes_nothing() {
        let meter = Meter::new("key:a".into());
        let limits = Limits {
            requests_per_second: Some(5.0),
            ..budget(BudgetPeriod::Day, 100)
        };
        let left_of = |now| {
            meter
                .remaining(&limits, now)
                .requests
                .map(|one| (one.limit, one.remaining, one.reset))
        };
        assert_eq!(
            left_of(NOON),
            Some((10, 10, Some(Duration::ZERO))),
            "before the first request"
        );
        for _ in 0..4 {
            meter.take_request("a", &limits, NOON).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(left_of(NOON), Some((10, 6, Some(Duration::from_millis(800)))));
        }
        assert_eq!(left_of(NOON + 400_000), Some((10, 8, Some(Duration::from_millis(400)))));
        assert_eq!(left_of(NOON + DAY), Some((10, 10, Some(Duration::ZERO))));
        meter.begin(Sums::default());
        meter.add(tokens(70), NOON);
        let left = meter.remaining(&limits, NOON).tokens.unwrap();
        assert_eq!((left.limit, left.remaining), (100, 30));
        assert_eq!(left.reset, Some(Duration::from_secs(43_200)), "at midnight");
        let both = Limits {
            budgets: [
                budget(BudgetPeriod::Day, 100).budgets,
                budget(BudgetPeriod::Total, 75).budgets,
            ]
            .concat(),
            ..Limits::default()
        };
        let left = meter.remaining(&both, NOON);
        let tightest = left.tokens.unwrap();
        assert_eq!((tightest.limit, tightest.remaining, tightest.reset), (75, 5, None));
        assert_eq!(left.requests, None);
        assert_eq!(meter.remaining(&Limits::default(), NOON), RemainingLimits::default());
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let meter = Meter::new("key:a".into());
        let limits = Limits {
            requests_per_second: Some(5.0),
            ..Limits::default()
        };
        let passed = (0..100)
            .filter(|_| meter.take_request("a", &limits, NOON).is_ok())
            .count();
        assert_eq!(passed, 10);
        let fault = meter.take_request("a", &limits, NOON).unwrap_err();
        assert_eq!(fault.reason, "RATE_LIMITED");
        assert_eq!(fault.retry_after, Some(Duration::from_millis(200)));
        assert!(meter.take_request("a", &limits, NOON + 199_000).is_err());
        assert!(meter.take_request("a", &limits, NOON + 201_000).is_ok());
        // The clock is set back by an hour, and nothing breaks.
        assert!(meter.take_request("a", &limits, NOON - 3_600_000_000).is_err());
        let passed = (0..50)
            .filter(|tenth| meter.take_request("a", &limits, NOON + DAY + tenth * 100_000).is_ok())
            .count();
        assert_eq!(passed, 10 + 24);
    }

    #[test]
    fn the_smallest_rate_lets_one_request_through_and_refuses_the_next() {
        let meter = Meter::new("key:a".into());
        let limits = Limits {
            requests_per_second: Some(1e-30),
            ..Limits::default()
        };
        limits.check().unwrap();
        meter.take_request("a", &limits, NOON).unwrap();
        let fault = meter.take_request("a", &limits, NOON).unwrap_err();
        assert_eq!(fault.reason, "RATE_LIMITED");
    }

    #[test]
    fn places_are_given_back_when_requests_end() {
        let meter = Arc::new(Meter::new("key:a".into()));
        let limits = Limits {
            max_concurrency: Some(2),
            ..Limits::default()
        };
        let first = meter.enter("a", &limits).unwrap();
        let _second = meter.enter("a", &limits).unwrap();
        assert_eq!(meter.enter("a", &limits).unwrap_err().reason, "TOO_MANY_AT_ONCE");
        drop(first);
        meter.enter("a", &limits).unwrap();
    }

    #[test]
    fn budgets_end_and_begin_again_with_their_period() {
        let meter = Meter::new("key:a".into());
        meter.add(tokens(100), NOON);
        for per in [BudgetPeriod::Day, BudgetPeriod::Month, BudgetPeriod::Total] {
            assert!(meter.check_budgets("a", &budget(per, 101), NOON).is_ok());
            let fault = meter.check_budgets("a", &budget(per, 100), NOON).unwrap_err();
            assert_eq!(fault.reason, "BUDGET_EXCEEDED");
            let half_a_day = Duration::from_secs(43_200);
            assert_eq!(fault.retry_after, (per != BudgetPeriod::Total).then_some(half_a_day));
            // Midnight ends the day and the month.
            let next = meter.check_budgets("a", &budget(per, 100), NOON + DAY);
            assert_eq!(next.is_ok(), per != BudgetPeriod::Total);
        }
    }

    #[test]
    fn what_is_on_its_way_to_the_database_counts_once() {
        let meter = Meter::new("key:a".into());
        meter.loaded(Sums {
            as_of: day_of(NOON),
            day: tokens(10),
            month: tokens(20),
            total: tokens(30),
        });
        assert!(meter.add(tokens(5), NOON));
        assert!(!meter.add(tokens(5), NOON));
        let spent = |per| meter.ledger.lock().spent(per, day_of(NOON)).tokens;
        assert_eq!((spent(BudgetPeriod::Day), spent(BudgetPeriod::Total)), (20, 40));
        assert_eq!(
            meter.take(),
            [(
                day_of(NOON),
                PeriodUsage {
                    requests: 2,
                    ..tokens(10)
                }
            )]
        );
        assert_eq!(spent(BudgetPeriod::Day), 20);
        meter.put_back();
        assert_eq!(spent(BudgetPeriod::Day), 20);
        meter.take();
        meter.add(tokens(1), NOON);
        meter.loaded(Sums {
            as_of: day_of(NOON),
            day: tokens(20),
            month: tokens(30),
            total: tokens(40),
        });
        assert_eq!(
            (
                spent(BudgetPeriod::Day),
                spent(BudgetPeriod::Month),
                spent(BudgetPeriod::Total)
            ),
            (21, 31, 41)
        );
    }
}
