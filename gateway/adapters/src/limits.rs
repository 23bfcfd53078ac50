//! What a provider can take: how fast, how much at once, how much in one request.

mod batches;
mod pace;

pub(crate) use batches::{Batches, Most};
pub(crate) use pace::Pace;

use std::{future::Future, time::Duration};

use isomer_service_kit::Fault;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

/// When a caller's patience ends; `None`: never.
pub(crate) type Deadline = Option<Instant>;

/// Waits for a call, as long as both the caller and the provider's own limit allow.
///
/// # Errors
/// `DEADLINE_EXCEEDED` when the caller's time is over; `UNAVAILABLE` (`PROVIDER_TIMEOUT`) when the provider's is, since another one may
/// still answer in time.
pub(crate) async fn within<T>(
    id: &str,
    timeout: Duration,
    deadline: Deadline,
    call: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let own = Instant::now() + timeout;
    let until = deadline.map_or(own, |deadline| deadline.min(own));
    let Ok(answer) = timeout_at(until, call).await else {
        return Err(match deadline {
            Some(deadline) if deadline <= own => late(id),
            _ => Fault::unavailable(
                "PROVIDER_TIMEOUT",
                format!("provider `{id}` did not answer within {timeout:?}"),
            )
            .mend("try again, or raise the provider's limits.timeout")
            .with("provider", id),
        });
    };
    answer
}

/// The caller's time is over.
pub(crate) fn late(id: &str) -> Fault {
    let message = format!("provider `{id}` did not answer before the caller's deadline");
    Fault::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).with("provider", id)
}
