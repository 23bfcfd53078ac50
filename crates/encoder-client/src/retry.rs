//! The one retry rule for calls to our services.

use std::{future::Future, time::Duration};

use isomer_service_kit::Fault;
use tonic::{Code, Status};

/// Attempts at an overloaded server, which says itself how long to wait.
const OVERLOADED: u32 = 8;
/// Attempts at a server that cannot be reached.
const UNREACHABLE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Repeats a call until its answer is final. Overload and broken connections are retried with
/// growing backoff, a bounded number of times. Use it only for calls that may be made twice.
///
/// # Errors
/// The status of the last attempt.
pub async fn calls<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut tries = 1;
    loop {
        let status = match call().await {
            Ok(answer) => return Ok(answer),
            Err(status) => status,
        };
        let most = match status.code() {
            Code::ResourceExhausted => OVERLOADED,
            Code::Unavailable => UNREACHABLE,
            _ => 1,
        };
        if tries >= most {
            return Err(status);
        }
        let own = FIRST_WAIT.saturating_mul(1 << (tries - 1).min(10));
        let asked = Fault::from_status(&status).retry_after.unwrap_or(own);
        tokio::time::sleep(asked.max(own).min(LONGEST_WAIT)).await;
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{cell::Cell, time::Instant};

    use super::*;

    #[tokio::test]
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
        // Twice the wait that the server asked for; the client's own backoff would have been 200
        // and 400 ms.
        assert!(started.elapsed() >= Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_an_unreachable_server_is_given_up() {
        for (code, expected) in [(Code::InvalidArgument, 1), (Code::Unavailable, UNREACHABLE)] {
            let tries = Cell::new(0);
            let answer = calls(|| {
                tries.set(tries.get() + 1);
                async move { Err::<(), _>(Status::new(code, "no")) }
            });
            assert_eq!(answer.await.unwrap_err().code(), code);
            assert_eq!(tries.get(), expected);
        }
    }
}
