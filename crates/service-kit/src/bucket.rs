//! Token buckets: how many units are available at a given rate.

use std::time::Duration;

/// Longest wait that is reported to a caller: a year.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Seconds in a day.
const DAY: f64 = 86_400.0;

/// A token bucket: units accrue at a rate, up to a bound, and are taken out. It has no clock: the
/// caller passes in the elapsed time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Units a second.
    rate: f64,
    /// Maximum number of units in the bucket.
    most: f64,
    /// Units available; below 0 if more were taken than were there.
    level: f64,
}

impl Bucket {
    /// A full bucket that gains `rate` units a second and holds at most `most`. Both are finite and
    /// not negative.
    pub fn full(rate: f64, most: f64) -> Self {
        Self {
            rate,
            most,
            level: most,
        }
    }

    /// The same bucket with `level` units in it.
    #[must_use]
    pub fn holding(self, level: f64) -> Self {
        Self { level, ..self }
    }

    /// Units available; below 0 if more were taken than were there.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Sets another rate and bound. Units above the new bound are lost.
    pub fn change(&mut self, rate: f64, most: f64) {
        (self.rate, self.most) = (rate, most);
        self.level = self.level.min(most);
    }

    /// Adds the units that accrue in `time`.
    pub fn pass(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * self.rate);
    }

    /// Puts units in, up to the bound.
    pub fn add(&mut self, units: f64) {
        self.level = (self.level + units).min(self.most);
    }

    /// Time until this many units are available, or until the bucket is full if it cannot hold that
    /// many. At most a year.
    pub fn wait(&self, units: f64) -> Duration {
        let missing = units.min(self.most) - self.level;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        // At rate 0 the division gives infinity; at the smallest rates it exceeds the range of
        // `Duration`.
        Duration::try_from_secs_f64(missing / self.rate).map_or(LONGEST, |wait| wait.min(LONGEST))
    }

    /// Takes units out even if they are not available. Later callers wait for the missing ones. The
    /// debt is at most a day's units.
    pub fn take(&mut self, units: f64) {
        self.level = (self.level - units).max(-self.rate * DAY);
    }

    /// Takes units out if they are available.
    ///
    /// # Errors
    /// The time until they are available; nothing is taken.
    pub fn try_take(&mut self, units: f64) -> Result<(), Duration> {
        match self.wait(units) {
            Duration::ZERO if self.level >= units => {
                self.level -= units;
                Ok(())
            }
            wait => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_full_bucket_gives_a_burst_and_then_its_rate() {
        let mut bucket = Bucket::full(2.0, 3.0);
        for _ in 0..3 {
            assert_eq!(bucket.try_take(1.0), Ok(()));
        }
        assert_eq!(bucket.try_take(1.0), Err(Duration::from_millis(500)));
        bucket.pass(Duration::from_millis(500));
        assert_eq!(bucket.try_take(1.0), Ok(()));
        bucket.pass(seconds(3600));
        assert_eq!(bucket.wait(3.0), Duration::ZERO, "no more than the bound is saved up");
        bucket.take(3.0);
        assert_eq!(bucket.wait(1.0), Duration::from_millis(500));
    }

    #[test]
    fn what_is_taken_ahead_is_waited_for_later() {
        let mut bucket = Bucket::full(100.0, 100.0);
        assert_eq!(
            bucket.wait(500.0),
            Duration::ZERO,
            "a full bucket is all that can be waited for"
        );
        bucket.take(500.0);
        assert_eq!(bucket.wait(100.0), seconds(5));
        assert_eq!(bucket.wait(500.0), seconds(5));
        bucket.pass(seconds(2));
        assert_eq!(bucket.wait(100.0), seconds(3));
        bucket.take(1e30);
        assert_eq!(bucket.wait(100.0), seconds(86_401), "no more than a day is owed");
    }

    #[test]
    fn the_smallest_rates_wait_long_and_do_not_overflow() {
        for rate in [0.0, f64::MIN_POSITIVE, 1e-30] {
            let mut bucket = Bucket::full(rate, 1.0);
            assert_eq!(bucket.try_take(1.0), Ok(()));
            assert_eq!(bucket.try_take(1.0), Err(LONGEST));
        }
    }

    #[test]
    fn a_changed_rate_holds_from_now_on() {
        let mut bucket = Bucket::full(1.0, 10.0).holding(0.0);
        bucket.pass(seconds(4));
        bucket.change(2.0, 3.0);
        assert_eq!(bucket.wait(3.0), Duration::ZERO);
        bucket.take(3.0);
        assert_eq!(bucket.wait(3.0), Duration::from_millis(1500));
    }
}
