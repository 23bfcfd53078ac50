//! Long work that ends when its caller leaves.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

use isomer_fault::Fault;
use tokio::sync::Semaphore;

use crate::off_runtime::{begin_on_a_core, failed, permit_for_each_core};

/// One permit per core. They are separate from the permits of `off_runtime`, whose work is short
/// and does not wait for long work.
static CORES: LazyLock<Arc<Semaphore>> = LazyLock::new(permit_for_each_core);

/// Set when the caller's future is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs long work on a blocking thread of the runtime. At most one work per core runs at a time, so
/// that memory is bounded. Other works wait, and end if their callers leave. The flag is set when
/// the future is dropped; the work checks it and ends early.
///
/// # Errors
/// `INTERNAL` if the work panicked or the runtime is shutting down.
pub async fn long_work<T: Send + 'static>(
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, Fault> {
    let drop_flag = DropFlag(Arc::default());
    let flag = Arc::clone(&drop_flag.0);
    let working = begin_on_a_core(&CORES, move || work(flag)).await?;
    working.await.map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::future::poll_immediate;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_flag_is_set_when_the_caller_leaves() {
        let (ended, end) = oneshot::channel();
        let mut work = Box::pin(long_work(move |drop_flag| {
            while !drop_flag.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        assert!(poll_immediate(&mut work).await.is_none());
        drop(work);
        end.await.unwrap();
    }

    #[tokio::test]
    async fn as_many_works_go_on_as_there_are_cores() {
        let cores = CORES.available_permits();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(parking_lot::Mutex::new(released));
        let begin = || {
            let released = Arc::clone(&released);
            Box::pin(long_work(move |_| released.lock().recv().unwrap()))
        };
        let mut begun: Vec<_> = (0..cores).map(|_| begin()).collect();
        for work in &mut begun {
            assert!(poll_immediate(work).await.is_none());
        }
        assert_eq!(CORES.available_permits(), 0);
        let mut waiting = Box::pin(long_work(|_| ()));
        assert!(poll_immediate(&mut waiting).await.is_none());
        let mut leaving = Box::pin(long_work(|_| panic!("its caller has left")));
        assert!(poll_immediate(&mut leaving).await.is_none());
        drop(leaving);
        for _ in 0..cores {
            release.send(()).unwrap();
        }
        for work in begun {
            work.await.unwrap();
        }
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn work_whose_caller_stays_is_not_stopped() {
        let drop_flag = long_work(|drop_flag| drop_flag.load(Ordering::Relaxed)).await.unwrap();
        assert!(!drop_flag);
    }
}
