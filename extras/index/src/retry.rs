//! The single rule for retrying calls to stores and encoders.

use std::{future::Future, time::Duration};

use backon::{ExponentialBuilder, Retryable};

use crate::error::Result;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Retries a repeatable call while its failure may be transient, for `patience` in total.
pub(crate) async fn calls<T, F>(patience: Duration, call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .with_total_delay(Some(patience));
    call.retry(pauses).when(crate::IndexError::passes).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;

    use super::*;
    use crate::IndexError;

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_repeated_for_the_patience_and_a_refusal_is_final() {
        let failing = |passes: bool| async move {
            Err::<(), _>(match passes {
                true => IndexError::Unavailable {
                    doing: "x".into(),
                    message: "y".into(),
                },
                false => IndexError::Refused {
                    doing: "x".into(),
                    message: "y".into(),
                },
            })
        };
        for (passes, least, most) in [(true, 5, 20), (false, 1, 1)] {
            let tries = Cell::new(0);
            let count = || {
                tries.set(tries.get() + 1);
                failing(passes)
            };
            calls(Duration::from_secs(30), count).await.unwrap_err();
            assert!((least..=most).contains(&tries.get()), "{}", tries.get());
        }
        let tries = Cell::new(0);
        let third = || {
            tries.set(tries.get() + 1);
            let done = tries.get() == 3;
            async move { if done { Ok(7) } else { failing(true).await.map(|()| 0) } }
        };
        assert_eq!(calls(Duration::from_secs(30), third).await.unwrap(), 7);
    }
}
