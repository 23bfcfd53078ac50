//! Work that continues whether or not its caller polls, and work that occupies a processor for some
//! time.

use std::{future::Future, panic};

use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;

/// Runs a future as a separate task. Dropping the returned future ends the task. `None` if the
/// runtime is shutting down.
///
/// If a client stops reading its stream, all futures behind the stream are no longer polled. A call
/// in such a future would hold its permit at the generator for an unlimited time, and no other call
/// could get the permit.
pub(super) async fn in_own_task<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut task = JoinSet::new();
    task.spawn(isomer_usage::scoped(future).in_current_span());
    ended(task.join_next().await?)
}

/// Computes a value on a separate thread, so that the runtime's threads stay free for other calls.
/// `None` if the runtime is shutting down.
pub(super) async fn computed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    ended(tokio::task::spawn_blocking(work).await)
}

fn ended<T>(result: Result<T, JoinError>) -> Option<T> {
    match result {
        Ok(output) => Some(output),
        Err(error) => match error.try_into_panic() {
            Ok(cause) => panic::resume_unwind(cause),
            Err(_) => None,
        },
    }
}
