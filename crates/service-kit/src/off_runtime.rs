//! Work whose time grows with the size of a message, away from the threads that serve requests.

use isomer_fault::Fault;

/// Messages of this size or more are processed outside the runtime's threads: below it, handing the
/// work over takes longer than the work.
const LARGE: usize = 128 << 10;

/// Does work on `size` bytes: on the current thread if it is short, else on a blocking thread of
/// the runtime.
///
/// # Errors
/// `INTERNAL` where the work panicked, or the runtime is shutting down.
pub async fn off_runtime<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    if size < LARGE {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::internal(format!("work on a message failed: {error}")))
}
