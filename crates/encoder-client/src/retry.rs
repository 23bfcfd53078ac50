//! Decides when a call to our services is retried: one rule, with the limits of a [`Policy`].

use std::{future::Future, time::Duration};

use isomer_service_kit::Fault;
use tonic::{Code, Status};

/// The number of retries of a request, and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of attempts at a server that names a wait.
    pub overloaded: u32,
    /// Maximum number of attempts at an unreachable server.
    pub unreachable: u32,
    /// Pause before the second attempt; it doubles from attempt to attempt.
    pub first_wait: Duration,
    /// Maximum pause between two attempts.
    pub longest_wait: Duration,
    /// Whether the server belongs to the same installation, in which every overload passes. If so,
    /// an overload without a wait is retried too, and a wait longer than the maximum is shortened.
    /// Otherwise both are final, because they may be a used-up budget or a limit that ends
    /// tomorrow.
    pub same_installation: bool,
}

impl Policy {
    /// For calls between the services of one installation.
    pub const INNER: Self = Self {
        overloaded: 8,
        unreachable: 3,
        first_wait: Duration::from_millis(200),
        longest_wait: Duration::from_secs(20),
        same_installation: true,
    };

    /// For calls from external programs.
    pub const OUTER: Self = Self {
        unreachable: 6,
        same_installation: false,
        ..Self::INNER
    };

    /// Every request is made once.
    pub const NEVER: Self = Self {
        overloaded: 1,
        unreachable: 1,
        ..Self::OUTER
    };

    /// The pause before the next attempt; `None` if the failure of this attempt (counted from 1) is
    /// final. `repeatable` states whether the call may be made twice. If not, only a refusal with
    /// RetryInfo is retried, because the server has not begun.
    pub fn wait(&self, fault: &Fault, attempt: u32, repeatable: bool) -> Option<Duration> {
        let own = self.first_wait.saturating_mul(1 << attempt.saturating_sub(1).min(30));
        let own = own.min(self.longest_wait);
        let (most, asked) = match (fault.code, fault.retry_after) {
            (Code::Unavailable, Some(asked)) if self.same_installation => (self.unreachable, Some(asked)),
            (Code::ResourceExhausted | Code::Unavailable, Some(asked)) => (self.overloaded, Some(asked)),
            (Code::ResourceExhausted, None) if self.same_installation => (self.overloaded, Some(own)),
            (Code::Unavailable, None) if repeatable => (self.unreachable, None),
            // A server that stops, or a proxy before it, may cut calls off like this.
            (Code::Cancelled, None) if repeatable && !self.same_installation => (self.unreachable, None),
            _ => return None,
        };
        let asked = match asked {
            Some(asked) if asked > self.longest_wait && self.same_installation => Some(self.longest_wait),
            Some(asked) if asked > self.longest_wait => return None,
            asked => asked,
        };
        if attempt >= most {
            return None;
        }
        Some(match asked {
            Some(asked) => asked.max(own),
            None if self.same_installation => own,
            // A random pause between half and all of it, so that clients of one server do not
            // return together.
            None => own.mul_f64(0.5 + rand::random::<f64>() / 2.0),
        })
    }
}

/// Repeats a call to a service of the same installation until its answer is final, by
/// [`Policy::INNER`]. Use it only for calls that may be made twice.
///
/// # Errors
/// The status of the last attempt.
pub async fn calls<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut attempt = 1;
    loop {
        let status = match call().await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        let Some(wait) = Policy::INNER.wait(&Fault::from_status(&status), attempt, true) else {
            return Err(status);
        };
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn overload_is_waited_out_as_the_server_asks() {
        let tries = Cell::new(0);
        let started = Instant::now();
        let answer = calls(|| {
            tries.set(tries.get() + 1);
            let overloaded = tries.get() < 3;
            async move {
                if overloaded {
                    return Err(Status::from(Fault::overloaded("full", Duration::from_millis(500))));
                }
                Ok(7)
            }
        });
        assert_eq!(answer.await.unwrap(), 7);
        // Twice the wait that the server requested; the client's own backoff would have been 200
        // and 400 ms.
        assert!(started.elapsed() >= Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_an_unreachable_server_is_given_up() {
        for (code, expected) in [
            (Code::InvalidArgument, 1),
            (Code::Unavailable, Policy::INNER.unreachable),
        ] {
            let tries = Cell::new(0);
            let answer = calls(|| {
                tries.set(tries.get() + 1);
                async move { Err::<(), _>(Status::new(code, "no")) }
            });
            assert_eq!(answer.await.unwrap_err().code(), code);
            assert_eq!(tries.get(), expected);
        }
    }

    #[test]
    fn programs_of_others_wait_as_they_are_asked_and_not_for_what_does_not_pass() {
        let policy = Policy::OUTER;
        let asked = |seconds| Fault::overloaded("full", Duration::from_secs(seconds));
        assert_eq!(policy.wait(&asked(3), 1, false), Some(Duration::from_secs(3)));
        assert_eq!(policy.wait(&asked(1), 4, false), Some(Duration::from_millis(1600)));
        assert_eq!(policy.wait(&asked(3), policy.overloaded, false), None);
        assert_eq!(policy.wait(&asked(21), 1, true), None);
        let budget = Fault::new(Code::ResourceExhausted, "BUDGET_EXCEEDED", "none is left");
        assert_eq!(policy.wait(&budget, 1, true), None);
        assert_eq!(Policy::INNER.wait(&budget, 1, true), Some(Duration::from_millis(200)));
        assert_eq!(
            Policy::INNER.wait(&asked(21), 1, true),
            Some(Policy::INNER.longest_wait)
        );
    }

    #[test]
    fn a_broken_connection_is_tried_again_only_for_calls_that_may_be_made_twice() {
        for code in [Code::Unavailable, Code::Cancelled] {
            let broken = Fault::new(code, "", "gone");
            for attempt in 1..Policy::OUTER.unreachable {
                let longest = Duration::from_millis(200) * 2_u32.pow(attempt - 1);
                let wait = Policy::OUTER.wait(&broken, attempt, true).unwrap();
                assert!(wait >= longest / 2 && wait <= longest, "{wait:?} after {attempt}");
            }
            assert_eq!(Policy::OUTER.wait(&broken, Policy::OUTER.unreachable, true), None);
            assert_eq!(Policy::OUTER.wait(&broken, 1, false), None);
            assert_eq!(Policy::NEVER.wait(&broken, 1, true), None);
        }
        // The 32nd doubling does not overflow.
        let asked = Fault::overloaded("full", Duration::from_secs(1));
        let stubborn = Policy {
            overloaded: u32::MAX,
            ..Policy::OUTER
        };
        assert_eq!(stubborn.wait(&asked, 80, true), Some(stubborn.longest_wait));
    }
}
