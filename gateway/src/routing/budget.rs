//! The retry budget: it limits retries, so that they do not overload the remaining replicas.

use isomer_service_kit::Bucket;
use tokio::time::Instant;

/// Limit on saved retries, in seconds of the minimum rate.
const SAVED_SECONDS: f64 = 10.0;

/// Permits retries as a share of the requests, and a few per second however few requests there are.
/// `tower::retry::budget` counts the same, but reads the clock itself. This one gets the time as an
/// argument, so that its tests need no clock.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    ratio: f64,
    retries: Bucket,
    last: Instant,
}

impl RetryBudget {
    /// `ratio` retries per request, and at least `per_second`.
    pub(crate) fn new(ratio: f64, per_second: f64, now: Instant) -> Self {
        let saved = per_second * SAVED_SECONDS;
        Self {
            ratio,
            retries: Bucket::full(per_second, saved + ratio * 1000.0).holding(saved),
            last: now,
        }
    }

    /// Records a request.
    pub(crate) fn request(&mut self, now: Instant) {
        self.retries.pass(now.saturating_duration_since(self.last));
        self.last = now;
        self.retries.add(self.ratio);
    }

    /// Takes one retry, if one is available.
    pub(crate) fn take(&mut self) -> bool {
        self.retries.try_take(1.0).is_ok()
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
