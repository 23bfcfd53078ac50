//! Heavy computations. Those of calls begin at once; those of runs wait while calls compute, and
//! have threads of their own.
//!
//! Data-parallel work of calls is on rayon's global threads. If runs were there too, a call would
//! wait in the queues of these threads until a score of a run ends, which may take minutes. On
//! threads of their own a score of a run that has begun shares the processor with calls, evenly at
//! worst; the next one does not begin before them.

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

/// Runs computations on blocking threads. Cheap to clone; clones share the order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compute {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    order: Mutex<Order>,
    /// Threads of runs, made for the first of them; `None` if none could be started.
    threads: OnceLock<Option<ThreadPool>>,
}

#[derive(Debug, Default)]
struct Order {
    /// Computations of calls that have begun.
    interactive: usize,
    /// Computations of runs that wait.
    waiting: VecDeque<oneshot::Sender<()>>,
    /// Computations of calls that have begun since one of a run waits.
    passed: usize,
}

impl Order {
    /// Lets the first of a run begin that is still wanted.
    fn begin_one(&mut self) {
        while let Some(next) = self.waiting.pop_front() {
            if next.send(()).is_ok() {
                return;
            }
        }
    }
}

impl Compute {
    /// A computation of a call: it begins at once.
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

    /// A computation of a run: it begins when no call computes. Of those that wait, one begins with
    /// every [`BATCH_TURN`]th call, so that calls without a pause do not hold runs up for ever.
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
            // The sender is dropped with the order only, which this future holds.
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

/// A computation of a call, from before it begins until it ends.
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

    /// A computation of a call that goes on until it is told to end.
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

    /// Waits, however long the machine takes.
    async fn until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_score_of_a_run_begins_after_the_calls_and_at_once_without_them() {
        let compute = Compute::default();
        // Nobody computes: it begins at once.
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
                        // Until the test ends, when the channel is closed.
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
