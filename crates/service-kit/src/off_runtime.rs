//! Runs work whose time grows with the size of a message away from the threads that serve requests.

use std::{
    num::NonZero,
    sync::{Arc, LazyLock},
    thread,
};

use isomer_fault::Fault;
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::task::AbortOnDropHandle;

/// Messages of at least this size are processed outside the runtime's threads. For smaller
/// messages, handing the work over takes longer than the work.
const LARGE: usize = 128 << 10;

/// One permit per core. With more threads than cores the work finishes no sooner, and contention in
/// the allocator leaves no time to the threads that serve requests.
static CORES: LazyLock<Arc<Semaphore>> = LazyLock::new(permit_for_each_core);

pub(crate) fn permit_for_each_core() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(thread::available_parallelism().map_or(1, NonZero::get)))
}

/// Runs work on `size` bytes. Short work runs on the current thread, other work on a blocking
/// thread of the runtime. At most one blocking thread per core works at once. Waiting work is
/// dropped with its future.
///
/// # Errors
/// `INTERNAL` if the work panicked or the runtime is shutting down.
pub async fn off_runtime<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    if size < LARGE {
        return Ok(work());
    }
    let working = begin_on_a_core(&CORES, work).await?;
    AbortOnDropHandle::new(working).await.map_err(failed)
}

/// Starts work on a blocking thread of the runtime, which holds a permit while it works.
///
/// # Errors
/// `INTERNAL` if the runtime is shutting down.
pub(crate) async fn begin_on_a_core<T: Send + 'static>(
    cores: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Fault> {
    let core = Arc::clone(cores).acquire_owned().await.map_err(failed)?;
    Ok(tokio::task::spawn_blocking(move || {
        let _core = core;
        work()
    }))
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Fault {
    Fault::internal(format!("the work failed: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use futures::future::{join_all, poll_immediate};

    use super::*;

    #[tokio::test]
    async fn no_more_work_runs_at_once_than_there_are_cores() {
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let cores = thread::available_parallelism().unwrap().get();
        let all = (0..8 * cores).map(|_| {
            off_runtime(LARGE, || {
                MOST.fetch_max(AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            })
        });
        assert!(join_all(all).await.iter().all(Result::is_ok));
        assert!(MOST.load(Ordering::SeqCst) <= cores);
    }

    #[tokio::test]
    async fn work_that_waits_for_a_caller_who_left_is_not_started() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let cores = thread::available_parallelism().unwrap().get();
        let (releases, held): (Vec<_>, Vec<_>) = (0..cores)
            .map(|_| {
                let (release, released) = mpsc::channel::<()>();
                (release, Box::pin(off_runtime(LARGE, move || released.recv().is_err())))
            })
            .unzip();
        let mut held = held;
        for work in &mut held {
            assert!(poll_immediate(work).await.is_none());
        }
        let count = || STARTED.fetch_add(1, Ordering::SeqCst);
        let mut left = Box::pin(off_runtime(LARGE, count));
        assert!(poll_immediate(&mut left).await.is_none());
        drop(left);
        let stays = tokio::spawn(off_runtime(LARGE, count));
        drop(releases);
        assert!(join_all(held).await.into_iter().all(Result::unwrap));
        assert_eq!(
            stays.await.unwrap().unwrap(),
            0,
            "the work of the caller who left did not run before"
        );
        assert_eq!(STARTED.load(Ordering::SeqCst), 1);
    }
}
