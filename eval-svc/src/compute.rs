//! Heavy computations. Those of calls start immediately. Those of runs wait while calls compute,
//! and have separate threads.
//!
//! Data-parallel work of calls uses rayon's global threads. If runs used them too, a call would
//! wait in the queues of these threads until a score of a run is complete, which may take minutes.
//! With separate threads, a run's score that has started shares the processor with calls, at worst
//! evenly; the run's next score does not start before the waiting calls.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use isomer_service_kit::priority::BATCH_TURN;
use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::{
    sync::oneshot,
    task::{JoinError, spawn_blocking},
};

/// Runs computations on blocking threads. Cheap to clone; clones share the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compute {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    order: Mutex<Order>,
    /// Threads of runs, created on first use; `None` if no thread could be started.
    threads: OnceLock<Option<ThreadPool>>,
}

#[derive(Debug, Default)]
struct Order {
    /// Number of started computations of calls.
    interactive: usize,
    /// Waiting computations of runs.
    waiting: VecDeque<oneshot::Sender<()>>,
    /// Computations of calls that were started while a computation of a run was waiting.
    passed: usize,
}

impl Order {
    /// Starts the first computation of a run that still has a receiver.
    fn begin_one(&mut self) {
        while let Some(next) = self.waiting.pop_front() {
            if next.send(()).is_ok() {
                return;
            }
        }
    }
}

impl Compute {
    /// Starts a computation of a call immediately.
    ///
    /// # Errors
    /// If it panics.
    pub(crate) async fn interactive<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = Interactive::begin(&self.inner);
        spawn_blocking(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    /// Starts a computation of a run when no call is computing. Every [`BATCH_TURN`]th call also
    /// starts one that waits, so that an unbroken series of calls does not block runs forever.
    ///
    /// # Errors
    /// If it panics.
    pub(crate) async fn batch<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = {
            let mut order = self.inner.order.lock();
            (order.interactive > 0).then(|| {
                let (sender, turn) = oneshot::channel();
                order.waiting.push_back(sender);
                turn
            })
        };
        if let Some(turn) = turn {
            // Only the queue, which this future holds, drops the sender.
            let _ = turn.await;
        }
        let inner = Arc::clone(&self.inner);
        spawn_blocking(move || match inner.threads.get_or_init(threads) {
            Some(threads) => threads.install(work),
            None => work(),
        })
        .await
    }
}

fn threads() -> Option<ThreadPool> {
    let built = ThreadPoolBuilder::new()
        .thread_name(|number| format!("isomer-runs-{number}"))
        .build();
    built
        .inspect_err(|error| tracing::warn!(%error, "no threads for runs can be started; they share those of calls"))
        .ok()
}

/// A computation of a call, from before its start until its end.
struct Interactive {
    inner: Arc<Inner>,
}

impl Interactive {
    fn begin(inner: &Arc<Inner>) -> Self {
        let mut order = inner.order.lock();
        order.interactive += 1;
        if order.waiting.is_empty() {
            order.passed = 0;
        } else {
            order.passed += 1;
            if order.passed >= BATCH_TURN {
                order.passed = 0;
                order.begin_one();
            }
        }
        drop(order);
        Self {
            inner: Arc::clone(inner),
        }
    }
}

impl Drop for Interactive {
    fn drop(&mut self) {
        let mut order = self.inner.order.lock();
        order.interactive -= 1;
        if order.interactive == 0 {
            order.passed = 0;
            while !order.waiting.is_empty() {
                order.begin_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;

    use super::*;

    /// A computation of a call that continues until the test ends it.
    fn held(compute: &Compute) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
        let (end, ends) = mpsc::channel();
        let compute = compute.clone();
        let held = tokio::spawn(async move { compute.interactive(move || ends.recv().unwrap()).await.unwrap() });
        (end, held)
    }

    fn interactive(compute: &Compute) -> usize {
        compute.inner.order.lock().interactive
    }

    fn waiting(compute: &Compute) -> usize {
        compute.inner.order.lock().waiting.len()
    }

    /// Waits without a time limit, because the machine may be slow.
    async fn until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_score_of_a_run_begins_after_the_calls_and_at_once_without_them() {
        let compute = Compute::default();
        // No call is computing, so it starts immediately.
        assert_eq!(compute.batch(|| 1).await.unwrap(), 1);
        let log = Arc::new(Mutex::new(Vec::new()));
        let (end, call) = held(&compute);
        until(|| interactive(&compute) == 1).await;
        let run = {
            let (compute, log) = (compute.clone(), Arc::clone(&log));
            tokio::spawn(async move { compute.batch(move || log.lock().push("run")).await.unwrap() })
        };
        until(|| waiting(&compute) == 1).await;
        let later = Arc::clone(&log);
        compute.interactive(move || later.lock().push("call")).await.unwrap();
        end.send(()).unwrap();
        call.await.unwrap();
        run.await.unwrap();
        assert_eq!(*log.lock(), ["call", "run"]);
    }

    #[tokio::test]
    async fn calls_without_a_pause_let_a_run_in_now_and_then() {
        let compute = Compute::default();
        let (end, call) = held(&compute);
        until(|| interactive(&compute) == 1).await;
        let run = {
            let compute = compute.clone();
            tokio::spawn(async move { compute.batch(|| ()).await.unwrap() })
        };
        until(|| waiting(&compute) == 1).await;
        for passed in 1..BATCH_TURN {
            compute.interactive(|| ()).await.unwrap();
            assert_eq!(waiting(&compute), 1, "after {passed} calls");
        }
        compute.interactive(|| ()).await.unwrap();
        assert_eq!((waiting(&compute), interactive(&compute)), (0, 1));
        run.await.unwrap();
        end.send(()).unwrap();
        call.await.unwrap();
    }

    #[tokio::test]
    async fn one_that_is_not_wanted_any_more_takes_nobody_s_turn() {
        let compute = Compute::default();
        let (end, call) = held(&compute);
        until(|| interactive(&compute) == 1).await;
        let run = || {
            let compute = compute.clone();
            tokio::spawn(async move { compute.batch(|| ()).await.unwrap() })
        };
        let first = run();
        until(|| waiting(&compute) == 1).await;
        let second = run();
        until(|| waiting(&compute) == 2).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        for _ in 0..BATCH_TURN {
            compute.interactive(|| ()).await.unwrap();
        }
        second.await.unwrap();
        end.send(()).unwrap();
        call.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_finishes_while_a_run_keeps_all_threads_of_runs_busy() {
        let compute = Compute::default();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let run = {
            let compute = compute.clone();
            tokio::spawn(async move {
                let work = move || {
                    rayon::broadcast(|_| {
                        let name = std::thread::current().name().unwrap_or_default().to_owned();
                        begun.send((name, rayon::current_num_threads())).unwrap();
                        // Blocks until the test ends and the channel is closed.
                        let _ = ends.lock().recv();
                    });
                };
                compute.batch(work).await.unwrap();
            })
        };
        let all_begun = move || {
            let (first, threads) = begins.recv().unwrap();
            let mut names = vec![first];
            names.extend((1..threads).map(|_| begins.recv().unwrap().0));
            (names, begins)
        };
        let (names, _begins) = tokio::task::spawn_blocking(all_begun).await.unwrap();
        assert!(names.iter().all(|name| name.starts_with("isomer-runs-")), "{names:?}");
        let call = compute.interactive(|| {
            use rayon::prelude::*;
            (0..1000_u64).into_par_iter().sum::<u64>()
        });
        assert_eq!(call.await.unwrap(), 499_500);
        assert!(!run.is_finished());
        drop(end);
        run.await.unwrap();
    }
}
