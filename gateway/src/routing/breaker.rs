//! Decides when to stop sending requests to a failing server, and when to try it again. It is
//! written here because no well-maintained crate has a circuit breaker that gets the time as an
//! argument.

use std::time::Duration;

use tokio::time::Instant;

/// The parameters of a breaker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerRules {
    /// Consecutive failures that open it.
    pub(crate) consecutive: u32,
    /// How long it stays open the first time. The time doubles with each failed trial, up to
    /// `longest`.
    pub(crate) first: Duration,
    /// Maximum time that it stays open.
    pub(crate) longest: Duration,
}

/// Number of remembered outcomes for the failure rate.
const WINDOW: u32 = 64;
/// Minimum number of outcomes for the failure rate; a rate of one half opens the breaker.
const ENOUGH: u32 = 32;

/// A circuit breaker. Closed: requests pass. Open: none do. After the open time, one request is let
/// through as a trial, and its outcome decides.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    rules: BreakerRules,
    failures: u32,
    /// The last outcomes, newest in the lowest bit, 1 for a failure.
    outcomes: u64,
    seen: u32,
    /// Consecutive times that it opened.
    opened: u32,
    until: Option<Instant>,
    on_trial: bool,
}

impl Breaker {
    pub(crate) fn new(rules: BreakerRules) -> Self {
        Self {
            rules,
            failures: 0,
            outcomes: 0,
            seen: 0,
            opened: 0,
            until: None,
            on_trial: false,
        }
    }

    /// Whether a request may be sent now. Changes nothing.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until && !self.on_trial)
    }

    /// Records a sent request. After the open time, this request is the trial.
    pub(crate) fn sent(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.on_trial = true;
        }
    }

    /// Records that a sent request had no outcome: its caller disconnected, or the request itself
    /// was at fault. If it was the trial, the next request becomes the trial.
    pub(crate) fn abandoned(&mut self) {
        self.on_trial = false;
    }

    /// Records a request's outcome.
    pub(crate) fn heard(&mut self, succeeded: bool, now: Instant) {
        self.outcomes = self.outcomes << 1 | u64::from(!succeeded);
        self.seen = (self.seen + 1).min(WINDOW);
        let trial = std::mem::take(&mut self.on_trial);
        if succeeded {
            self.failures = 0;
            if trial {
                self.close();
            }
            return;
        }
        self.failures += 1;
        let failed = self.outcomes.count_ones();
        // Answers to requests sent before the breaker opened do not open it again.
        let may_open = self.until.is_none() || trial;
        if may_open
            && (trial || self.failures >= self.rules.consecutive || self.seen >= ENOUGH && failed * 2 >= self.seen)
        {
            let doubled = self.rules.first.saturating_mul(1 << self.opened.min(16));
            self.until = Some(now + doubled.min(self.rules.longest));
            self.opened += 1;
            self.failures = 0;
        }
    }

    /// Whether a failure now would open it.
    pub(crate) fn would_open(&self, now: Instant) -> bool {
        let mut next = self.clone();
        next.heard(false, now);
        next.until > self.until
    }

    /// Consecutive failures so far.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Closes the breaker because the server was found healthy.
    pub(crate) fn close(&mut self) {
        *self = Self::new(self.rules);
    }

    /// When the next request may be sent; `None` if it may be sent now.
    pub(crate) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules {
        consecutive: 5,
        first: Duration::from_secs(1),
        longest: Duration::from_secs(4),
    };

    fn failing(breaker: &mut Breaker, times: u32, now: Instant) {
        for _ in 0..times {
            breaker.sent(now);
            breaker.heard(false, now);
        }
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_one_good_trial() {
        let (mut breaker, start) = (Breaker::new(RULES), Instant::now());
        failing(&mut breaker, 4, start);
        breaker.heard(true, start);
        failing(&mut breaker, 4, start);
        assert!(breaker.allows(start), "four in a row are not five");
        failing(&mut breaker, 1, start);
        assert!(!breaker.allows(start));
        let later = start + Duration::from_secs(1);
        assert!(breaker.allows(later));
        breaker.sent(later);
        assert!(!breaker.allows(later), "one trial at a time");
        breaker.heard(true, later);
        assert!(breaker.allows(later));
    }

    #[test]
    fn each_failed_trial_doubles_the_wait_up_to_the_longest() {
        let (mut breaker, mut now) = (Breaker::new(RULES), Instant::now());
        failing(&mut breaker, 5, now);
        for wait in [1, 2, 4, 4] {
            assert_eq!(breaker.opens_at(now), Some(now + Duration::from_secs(wait)));
            now += Duration::from_secs(wait);
            failing(&mut breaker, 1, now);
        }
    }

    #[test]
    fn a_share_of_one_half_opens_it_and_a_fifth_does_not() {
        let now = Instant::now();
        let mut fifth = Breaker::new(RULES);
        let mut half = Breaker::new(RULES);
        for k in 0..200 {
            fifth.heard(k % 5 != 0, now);
            half.heard(k % 2 != 0, now);
        }
        assert!(fifth.allows(now) && !half.allows(now));
    }

    #[test]
    fn a_trial_whose_caller_went_away_leaves_the_place_to_the_next() {
        let (mut breaker, start) = (Breaker::new(RULES), Instant::now());
        failing(&mut breaker, 5, start);
        let later = start + Duration::from_secs(1);
        breaker.sent(later);
        breaker.abandoned();
        assert!(breaker.allows(later));
    }
}
