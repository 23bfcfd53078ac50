//! Requests and tokens a second, and requests at once.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use isomer_proto::gateway::v1::ProviderLimits;
use isomer_service_kit::Fault;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use super::{Deadline, late};

/// How much may come at once after a pause: what this long would allow.
const BURST: Duration = Duration::from_secs(1);

/// Makes callers wait their turn. One for a provider, shared by all who call it.
#[derive(Debug)]
pub(crate) struct Pace {
    id: String,
    places: Option<Arc<Semaphore>>,
    buckets: Mutex<Buckets>,
    /// Longest wait of a caller without a deadline.
    patience: Duration,
}

#[derive(Debug)]
struct Buckets {
    requests: Bucket,
    tokens: Bucket,
}

/// A token bucket in the form of the generic cell rate algorithm: one instant says how far ahead of its rate the use is.
#[derive(Debug)]
struct Bucket {
    /// Units a second; infinite without a limit.
    rate: f64,
    /// When all that was let through would have been due at the rate.
    due: Instant,
}

impl Pace {
    pub(crate) fn new(id: &str, limits: Option<&ProviderLimits>, patience: Duration) -> Result<Self, Fault> {
        let limits = limits.cloned().unwrap_or_default();
        let now = Instant::now();
        let bucket = |name: &str, rate: f64| match rate {
            0.0 => Ok(Bucket {
                rate: f64::INFINITY,
                due: now,
            }),
            rate if rate.is_finite() && rate > 0.0 => Ok(Bucket { rate, due: now }),
            _ => Err(Fault::invalid(format!("provider.limits.{name}"), "is no rate")
                .mend("give a number above 0, or 0 for no limit")),
        };
        Ok(Self {
            id: id.to_owned(),
            places: match usize::try_from(limits.max_concurrency).unwrap_or(0) {
                0 => None,
                most => Some(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            },
            buckets: Mutex::new(Buckets {
                requests: bucket("requests_per_second", limits.requests_per_second)?,
                tokens: bucket("tokens_per_second", limits.tokens_per_second)?,
            }),
            patience,
        })
    }

    /// Waits until a request of so many tokens may go. What is returned is held until the answer is there.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` with a hint, at once, when its turn would come after the deadline; then it has used up nothing.
    /// `DEADLINE_EXCEEDED` when no place became free in time.
    pub(crate) async fn turn(&self, tokens: u64, deadline: Deadline) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        let place = match &self.places {
            None => None,
            Some(places) => {
                let until = deadline.unwrap_or_else(|| Instant::now() + self.patience);
                let place = tokio::time::timeout_at(until, Arc::clone(places).acquire_owned()).await;
                let place = place.map_err(|_| match deadline {
                    Some(_) => late(&self.id),
                    None => self.exhausted(Duration::from_secs(1)),
                })?;
                Some(place.map_err(|_| Fault::internal("the places of a provider are gone"))?)
            }
        };
        let now = Instant::now();
        let start = self.reserve(tokens, now, deadline.unwrap_or(now + self.patience))?;
        if start > now {
            sleep_until(start).await;
        }
        Ok(place)
    }

    /// When a request of so many tokens may go. Only one that may go in time is counted.
    fn reserve(&self, tokens: u64, now: Instant, latest: Instant) -> Result<Instant, Fault> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        #[allow(clippy::cast_precision_loss)]
        let (requests, tokens) = (
            buckets.requests.after(1.0, now),
            buckets.tokens.after(tokens as f64, now),
        );
        let start = requests.start.max(tokens.start);
        if start > latest {
            return Err(self.exhausted(start - now));
        }
        buckets.requests.due = requests.due;
        buckets.tokens.due = tokens.due;
        Ok(start)
    }

    fn exhausted(&self, wait: Duration) -> Fault {
        Fault::overloaded(
            format!("provider `{}` is used as fast as its limits allow", self.id),
            wait,
        )
        .mend("send less, or raise the provider's limits")
        .with("provider", &self.id)
    }
}

/// What a bucket would say to a request.
struct Turn {
    start: Instant,
    due: Instant,
}

impl Bucket {
    fn after(&self, units: f64, now: Instant) -> Turn {
        // A day is long enough to be refused by any deadline.
        let cost = Duration::from_secs_f64((units / self.rate).clamp(0.0, 86_400.0));
        let due = self.due.max(now) + cost;
        // A request that is larger than the burst waits until what was before it is due.
        let start = due.checked_sub(cost.max(BURST)).unwrap_or(now);
        Turn {
            start: start.max(now),
            due,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tonic::Code;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pace(limits: ProviderLimits) -> Pace {
        Pace::new("p", Some(&limits), PATIENCE).unwrap()
    }

    /// Milliseconds until each of some requests of these tokens may go, all asked for at one moment.
    fn waits(pace: &Pace, tokens: &[u64]) -> Vec<u128> {
        let now = Instant::now();
        let wait = |tokens: &u64| (pace.reserve(*tokens, now, now + PATIENCE).unwrap() - now).as_millis();
        tokens.iter().map(wait).collect()
    }

    #[test]
    fn requests_beyond_the_burst_come_at_the_rate() {
        let pace = pace(ProviderLimits {
            requests_per_second: 4.0,
            ..ProviderLimits::default()
        });
        assert_eq!(waits(&pace, &[1; 8]), [0, 0, 0, 0, 250, 500, 750, 1000]);
    }

    #[test]
    fn tokens_count_by_their_number_and_a_large_request_still_goes() {
        let pace = pace(ProviderLimits {
            tokens_per_second: 100.0,
            ..ProviderLimits::default()
        });
        assert_eq!(waits(&pace, &[500, 100, 100]), [0, 5000, 6000]);
    }

    #[test]
    fn a_turn_after_the_deadline_is_refused_at_once_and_uses_up_nothing() {
        let pace = pace(ProviderLimits {
            requests_per_second: 1.0,
            ..ProviderLimits::default()
        });
        let now = Instant::now();
        pace.reserve(1, now, now).unwrap();
        for _ in 0..3 {
            let fault = pace.reserve(1, now, now + Duration::from_millis(500)).unwrap_err();
            assert_eq!(fault.code, Code::ResourceExhausted);
            assert_eq!(fault.retry_after.unwrap().as_millis(), 1000);
        }
        let start = pace.reserve(1, now, now + PATIENCE).unwrap();
        assert_eq!((start - now).as_millis(), 1000);
    }

    #[tokio::test]
    async fn a_request_waits_for_its_turn() {
        let pace = pace(ProviderLimits {
            requests_per_second: 20.0,
            ..ProviderLimits::default()
        });
        let start = Instant::now();
        for _ in 0..22 {
            pace.turn(1, None).await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn only_so_many_are_under_way_at_once() {
        let pace = pace(ProviderLimits {
            max_concurrency: 1,
            ..ProviderLimits::default()
        });
        let held = pace.turn(1, None).await.unwrap();
        let fault = pace.turn(1, Some(Instant::now() + Duration::from_millis(20))).await;
        assert_eq!(fault.unwrap_err().code, Code::DeadlineExceeded);
        drop(held);
        pace.turn(1, None).await.unwrap();
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [-1.0, f64::NAN, f64::INFINITY] {
            let limits = ProviderLimits {
                tokens_per_second: rate,
                ..ProviderLimits::default()
            };
            let fault = Pace::new("p", Some(&limits), PATIENCE).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some("provider.limits.tokens_per_second"));
        }
    }
}
