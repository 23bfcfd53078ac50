//! Limits on requests and tokens per second, and on concurrent requests.

use std::{sync::Arc, time::Duration};

use isomer_service_kit::Bucket;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

/// Burst after a pause: the amount that the rate permits in this time.
const BURST: Duration = Duration::from_secs(1);

/// The permitted rates and concurrency for a server; 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Maximum number of requests per second.
    pub requests_per_second: f64,
    /// Maximum number of tokens per second.
    pub tokens_per_second: f64,
    pub max_concurrency: usize,
}

impl Rates {
    /// Checks the rates.
    ///
    /// # Errors
    /// The first rate that is negative, infinite or not a number.
    pub fn check(&self) -> Result<(), BadRate> {
        for (field, rate) in [
            ("requests_per_second", self.requests_per_second),
            ("tokens_per_second", self.tokens_per_second),
        ] {
            if !(rate.is_finite() && rate >= 0.0) {
                return Err(BadRate { field, rate });
            }
        }
        Ok(())
    }
}

/// Makes callers wait for their turn. There is one limiter per server, which all its callers share.
#[derive(Debug)]
pub struct RateLimiter {
    permits: Option<Arc<Semaphore>>,
    buckets: Mutex<Buckets>,
    /// Bulk requests wait in one queue and reserve no future capacity.
    batch: tokio::sync::Mutex<()>,
    /// Maximum wait of a caller without a deadline.
    patience: Duration,
}

/// The reason why a call gets no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The turn would come after the deadline, or after the maximum wait. Nothing has been
    /// consumed.
    #[error("the server is used as fast as its limits allow; the turn would come in {wait:?}")]
    TooLate {
        /// Time until a retry makes sense.
        wait: Duration,
    },
    /// The deadline passed before a concurrent request ended.
    #[error("the deadline came while other requests were in flight")]
    Deadline,
}

/// A rate that is negative, infinite or not a number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{rate} is not a rate")]
pub struct BadRate {
    /// A field of [`Rates`].
    pub field: &'static str,
    pub rate: f64,
}

#[derive(Debug)]
struct Buckets {
    /// `None` means unlimited.
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// When the buckets were last refilled.
    at: Instant,
}

impl RateLimiter {
    /// `patience` is the maximum wait of a caller without a deadline.
    ///
    /// # Errors
    /// If a rate is not valid.
    pub fn new(rates: Rates, patience: Duration) -> Result<Self, BadRate> {
        rates.check()?;
        let bucket = |rate: f64| (rate > 0.0).then(|| Bucket::full(rate, rate * BURST.as_secs_f64()));
        Ok(Self {
            permits: match rates.max_concurrency {
                0 => None,
                most => Some(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            },
            buckets: Mutex::new(Buckets {
                requests: bucket(rates.requests_per_second),
                tokens: bucket(rates.tokens_per_second),
                at: Instant::now(),
            }),
            batch: tokio::sync::Mutex::new(()),
            patience,
        })
    }

    /// Waits until a request of this many tokens may be sent. The caller must hold the returned
    /// permit until the answer has arrived.
    ///
    /// # Errors
    /// [`TurnError::TooLate`], at once, if the turn would come after the deadline;
    /// [`TurnError::Deadline`] if no other request ended in time.
    pub async fn turn(
        &self,
        tokens: u64,
        deadline: Option<Instant>,
    ) -> Result<Option<OwnedSemaphorePermit>, TurnError> {
        let permit = match &self.permits {
            None => None,
            Some(permits) => {
                let until = deadline.unwrap_or_else(|| Instant::now() + self.patience);
                let permit = tokio::time::timeout_at(until, Arc::clone(permits).acquire_owned()).await;
                match permit {
                    // The semaphore is never closed, so this branch never occurs.
                    Ok(permit) => permit.ok(),
                    Err(_) if deadline.is_some() => return Err(TurnError::Deadline),
                    Err(_) => return Err(TurnError::TooLate { wait: BURST }),
                }
            }
        };
        let now = Instant::now();
        let start = self.reserve(tokens, now, deadline.unwrap_or(now + self.patience))?;
        if start > now {
            sleep_until(start).await;
        }
        Ok(permit)
    }

    /// Like [`RateLimiter::turn`] without a limit on concurrent requests, for bulk work. Other
    /// callers have precedence.
    ///
    /// # Errors
    /// [`TurnError::TooLate`] if the maximum wait ended before a turn.
    pub async fn turn_of_batch(&self, tokens: u64) -> Result<(), TurnError> {
        let latest = Instant::now() + self.patience;
        let too_late = |_| TurnError::TooLate { wait: BURST };
        let _first = tokio::time::timeout_at(latest, self.batch.lock())
            .await
            .map_err(too_late)?;
        loop {
            let now = Instant::now();
            match self.reserve(tokens, now, now) {
                Ok(_) => return Ok(()),
                Err(TurnError::TooLate { wait }) if now + wait <= latest => tokio::time::sleep(wait).await,
                Err(no_turn) => return Err(no_turn),
            }
        }
    }

    /// Whether a request of this many tokens may be sent now. Only then it is counted. Concurrent
    /// requests are not limited.
    pub fn try_turn(&self, tokens: u64) -> bool {
        let now = Instant::now();
        self.reserve(tokens, now, now).is_ok()
    }

    /// The time when a request of this many tokens may be sent. Only a request that may be sent in
    /// time is counted.
    fn reserve(&self, tokens: u64, now: Instant, latest: Instant) -> Result<Instant, TurnError> {
        let mut buckets = self.buckets.lock();
        let passed = now.saturating_duration_since(buckets.at);
        buckets.at = buckets.at.max(now);
        let Buckets {
            requests,
            tokens: bucket,
            ..
        } = &mut *buckets;
        #[allow(clippy::cast_precision_loss)]
        let wanted = [(requests, 1.0), (bucket, tokens as f64)];
        let mut wait = Duration::ZERO;
        let mut held = Vec::with_capacity(wanted.len());
        for (bucket, units) in wanted {
            if let Some(bucket) = bucket {
                bucket.pass(passed);
                // A request larger than the burst waits for a full bucket, and later requests wait
                // for the tokens that it took in advance.
                wait = wait.max(bucket.wait(units));
                held.push((bucket, units));
            }
        }
        if now + wait > latest {
            return Err(TurnError::TooLate { wait });
        }
        for (bucket, units) in held {
            bucket.take(units);
        }
        Ok(now + wait)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn limiter(rates: Rates) -> RateLimiter {
        RateLimiter::new(rates, PATIENCE).unwrap()
    }

    /// Milliseconds until each of several requests with these tokens may be sent, if all of them
    /// arrive at the same moment.
    fn waits(limiter: &RateLimiter, tokens: &[u64]) -> Vec<u128> {
        let now = Instant::now();
        let wait = |tokens: &u64| (limiter.reserve(*tokens, now, now + PATIENCE).unwrap() - now).as_millis();
        tokens.iter().map(wait).collect()
    }

    #[test]
    fn requests_beyond_the_burst_come_at_the_rate() {
        let limiter = limiter(Rates {
            requests_per_second: 4.0,
            ..Rates::default()
        });
        assert_eq!(waits(&limiter, &[1; 8]), [0, 0, 0, 0, 250, 500, 750, 1000]);
    }

    #[test]
    fn tokens_count_by_their_number_and_a_large_request_still_goes() {
        let limiter = limiter(Rates {
            tokens_per_second: 100.0,
            ..Rates::default()
        });
        assert_eq!(waits(&limiter, &[500, 100, 100]), [0, 5000, 6000]);
    }

    #[test]
    fn a_turn_after_the_deadline_is_refused_at_once_and_uses_up_nothing() {
        let limiter = limiter(Rates {
            requests_per_second: 1.0,
            ..Rates::default()
        });
        let now = Instant::now();
        limiter.reserve(1, now, now).unwrap();
        for _ in 0..3 {
            let late = limiter.reserve(1, now, now + Duration::from_millis(500)).unwrap_err();
            let wait = Duration::from_secs(1);
            assert_eq!(late, TurnError::TooLate { wait });
        }
        let start = limiter.reserve(1, now, now + PATIENCE).unwrap();
        assert_eq!((start - now).as_millis(), 1000);
    }

    #[test]
    fn what_may_be_sent_now_is_sent() {
        let limited = limiter(Rates {
            requests_per_second: 1.0,
            ..Rates::default()
        });
        assert_eq!([limited.try_turn(1), limited.try_turn(1)], [true, false]);
        assert!(limiter(Rates::default()).try_turn(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn() {
        let limiter = limiter(Rates {
            requests_per_second: 20.0,
            ..Rates::default()
        });
        let start = Instant::now();
        for _ in 0..22 {
            limiter.turn(1, None).await.unwrap();
        }
        // 20 of them are within the burst.
        assert_eq!(start.elapsed().as_millis() / 10, 10, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bulk_work_comes_at_the_rate_and_reserves_nothing_ahead_of_others() {
        let limiter = Arc::new(limiter(Rates {
            requests_per_second: 1.0,
            ..Rates::default()
        }));
        let start = Instant::now();
        let batch: Vec<_> = (0..4)
            .map(|_| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move {
                    limiter.turn_of_batch(1).await.unwrap();
                    start.elapsed().as_secs_f64().round()
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        limiter.turn(1, None).await.unwrap();
        assert_eq!(start.elapsed().as_secs_f64().round(), 1.0, "the next turn is its own");
        let mut turns = Vec::new();
        for one in batch {
            turns.push(one.await.unwrap());
        }
        turns.sort_by(f64::total_cmp);
        assert_eq!(turns, [0.0, 2.0, 3.0, 4.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_under_way_at_once() {
        let limiter = limiter(Rates {
            max_concurrency: 1,
            ..Rates::default()
        });
        let held = limiter.turn(1, None).await.unwrap();
        let late = limiter.turn(1, Some(Instant::now() + Duration::from_millis(20))).await;
        assert_eq!(late.unwrap_err(), TurnError::Deadline);
        drop(held);
        limiter.turn(1, None).await.unwrap();
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [-1.0, f64::NAN, f64::INFINITY] {
            let rates = Rates {
                tokens_per_second: rate,
                ..Rates::default()
            };
            let bad = RateLimiter::new(rates, PATIENCE).unwrap_err();
            assert_eq!(bad.field, "tokens_per_second");
        }
    }
}
