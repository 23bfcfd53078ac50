//! How many requests may be sent a second time: retries must not become the load that breaks what is left.

use tokio::time::Instant;

/// Retries that may be saved up, in seconds of the floor.
const SAVED_SECONDS: f64 = 10.0;

/// A share of the requests, and a few a second however few requests there are.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    ratio: f64,
    per_second: f64,
    tokens: f64,
    most: f64,
    last: Instant,
}

impl RetryBudget {
    /// `ratio` retries a request, and `per_second` in any case.
    pub(crate) fn new(ratio: f64, per_second: f64, now: Instant) -> Self {
        let most = per_second * SAVED_SECONDS + ratio * 1000.0;
        Self {
            ratio,
            per_second,
            tokens: per_second * SAVED_SECONDS,
            most,
            last: now,
        }
    }

    /// A request came.
    pub(crate) fn request(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = now;
        self.tokens = (self.tokens + self.ratio + passed * self.per_second).min(self.most);
    }

    /// Takes one retry, if there is one.
    pub(crate) fn take(&mut self) -> bool {
        let may = self.tokens >= 1.0;
        if may {
            self.tokens -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn retries_are_a_share_of_requests_over_a_floor() {
        let start = Instant::now();
        let mut budget = RetryBudget::new(0.25, 1.0, start);
        let mut taken = 0;
        for _ in 0..1000 {
            budget.request(start);
            taken += u32::from(budget.take());
        }
        assert_eq!(taken, 10 + 250, "ten saved, and a quarter of a thousand");
        assert!(!budget.take());
        budget.request(start + Duration::from_secs(3));
        assert!(budget.take() && budget.take() && budget.take() && !budget.take());
    }
}
