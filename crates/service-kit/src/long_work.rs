//! Long work that ends when its caller leaves.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_fault::Fault;

/// Set when the future of the caller is dropped.
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does long work on a blocking thread of the runtime. The flag is set when the future is dropped;
/// the work looks at it and ends early.
///
/// # Errors
/// `INTERNAL` where the work panicked, or the runtime is shutting down.
pub async fn long_work<T: Send + 'static>(
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, Fault> {
    let left = Left(Arc::default());
    let flag = Arc::clone(&left.0);
    tokio::task::spawn_blocking(move || work(flag))
        .await
        .map_err(|error| Fault::internal(format!("the work failed: {error}")))
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
        let mut work = Box::pin(long_work(move |left| {
            while !left.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        assert!(poll_immediate(&mut work).await.is_none());
        drop(work);
        end.await.unwrap();
    }

    #[tokio::test]
    async fn work_whose_caller_stays_is_not_stopped() {
        let left = long_work(|left| left.load(Ordering::Relaxed)).await.unwrap();
        assert!(!left);
    }
}
