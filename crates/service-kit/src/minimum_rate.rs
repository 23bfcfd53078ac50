//! The minimum rate of bytes, in either direction.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum number of bytes per second, on average over the grace period.
const BYTES_PER_SECOND: f64 = 4096.0;

/// The time by which more bytes must have passed.
///
/// Bytes that pass extend the time by their duration at the minimum rate, but never beyond one
/// grace period from now. So a fast burst does not permit a long silence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinimumRate {
    grace: Duration,
    bytes_per_second: f64,
    deadline: Instant,
}

impl MinimumRate {
    /// Starts the clock.
    pub(crate) fn new(grace: Duration) -> Self {
        Self::of(grace, BYTES_PER_SECOND)
    }

    pub(crate) fn of(grace: Duration, bytes_per_second: f64) -> Self {
        Self {
            grace,
            bytes_per_second,
            deadline: Instant::now() + grace,
        }
    }

    pub(crate) fn passed(&mut self, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        self.deadline = (self.deadline + earned.min(self.grace)).min(Instant::now() + self.grace);
    }

    pub(crate) fn restart(&mut self) {
        self.deadline = Instant::now() + self.grace;
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn is_over(&self) -> bool {
        self.deadline <= Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn bytes_at_the_minimum_rate_may_pass_for_ever() {
        let mut rate = MinimumRate::new(GRACE);
        for _ in 0..1000 {
            tokio::time::advance(Duration::from_secs(4)).await;
            assert!(!rate.is_over());
            rate.passed(4 * 4096);
        }
        tokio::time::advance(GRACE).await;
        assert!(rate.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_gigabyte_earns_no_more_than_the_grace() {
        let mut rate = MinimumRate::new(GRACE);
        rate.passed(1 << 30);
        tokio::time::advance(GRACE - Duration::from_secs(1)).await;
        assert!(!rate.is_over());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(rate.is_over());
    }
}
