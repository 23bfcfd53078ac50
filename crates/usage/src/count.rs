//! The count of one call, kept while the call runs.
//!
//! The count of the current call is a task-local value: code that calls a model reads it with
//! [`current`] or [`begin`]. Code that spawns a task carries it over with [`scoped`]. Outside a
//! call nothing is counted.

use std::{fmt, future::Future, sync::Arc, task::Waker};

use futures::task::AtomicWaker;
use isomer_proto::common::v1::Usage;
use parking_lot::{Mutex, MutexGuard};

use crate::sum;

tokio::task_local! {
    static CURRENT: Count;
}

/// The count of one call. Clones share it.
#[derive(Clone)]
pub struct Count(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Called with each addition.
    observer: Option<Box<dyn Fn(&Usage) + Send + Sync>>,
    whole: Option<ParentCount>,
    waker: AtomicWaker,
}

/// The count of which another is a part.
struct ParentCount {
    count: Count,
    /// Usage of the part at its price.
    priced: Option<Box<Price>>,
}

type Price = dyn Fn(&Usage) -> Usage + Send + Sync;

impl ParentCount {
    fn priced(&self, usage: &Usage) -> Usage {
        self.priced.as_ref().map_or(*usage, |priced| priced(usage))
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    used: Usage,
    open: Usage,
    version: u64,
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Count")
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl Default for Count {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Count {
    fn new(observer: Option<Box<dyn Fn(&Usage) + Send + Sync>>, whole: Option<ParentCount>) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            observer,
            whole,
            waker: AtomicWaker::new(),
        }))
    }

    /// A count that calls `observer` with each addition, at that moment.
    pub fn telling(observer: impl Fn(&Usage) + Send + Sync + 'static) -> Self {
        Self::new(Some(Box::new(observer)), None)
    }

    /// A count for a part of the current call: additions and pieces of work in it also count in the
    /// current count.
    pub fn of_part() -> Self {
        Self::new(None, current().map(|count| ParentCount { count, priced: None }))
    }

    /// A count for a part of this one, in which it counts at a price: `priced` sets the cost.
    #[must_use]
    pub fn priced_part(&self, priced: impl Fn(&Usage) -> Usage + Send + Sync + 'static) -> Self {
        let whole = ParentCount {
            count: self.clone(),
            priced: Some(Box::new(priced)),
        };
        Self::new(None, Some(whole))
    }

    pub fn add(&self, more: &Usage) {
        if *more == Usage::default() {
            return;
        }
        self.change(|state| sum::add(&mut state.used, more));
        if let Some(observer) = &self.0.observer {
            observer(more);
        }
        if let Some(whole) = &self.0.whole {
            whole.count.add(&whole.priced(more));
        }
    }

    /// Begins a piece of work that uses at most `bound`. If the piece is dropped before its end,
    /// e.g. because the caller disconnected, its actual usage is unknown, so the bound is counted.
    pub fn begin(&self, bound: Usage) -> PendingWork {
        self.open(&bound);
        PendingWork {
            count: Some(self.clone()),
            bound,
        }
    }

    /// The usage so far.
    pub fn used(&self) -> Usage {
        self.state().used
    }

    /// The usage so far, the bound of the pieces in flight, and a version that increases with every
    /// change.
    pub fn snapshot(&self) -> (Usage, Usage, u64) {
        let state = *self.state();
        (state.used, state.open, state.version)
    }

    /// Wakes `waker` at the next change. Only the latest waker is kept.
    pub fn wake(&self, waker: &Waker) {
        self.0.waker.register(waker);
    }

    /// Runs a future with this as the current count.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// Runs a closure with this as the current count.
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    fn open(&self, bound: &Usage) {
        self.change(|state| sum::add(&mut state.open, bound));
        if let Some(whole) = &self.0.whole {
            whole.count.open(&whole.priced(bound));
        }
    }

    fn close(&self, bound: &Usage) {
        self.change(|state| state.open = sum::beyond(&state.open, bound));
        if let Some(whole) = &self.0.whole {
            whole.count.close(&whole.priced(bound));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        {
            let mut state = self.state();
            change(&mut state);
            state.version += 1;
        }
        self.0.waker.wake();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while holding the lock; even after a panic a sum would still be valid.
        self.0.state.lock()
    }
}

/// A piece of work in flight.
#[derive(Debug)]
#[must_use = "dropping it counts its bound"]
pub struct PendingWork {
    count: Option<Count>,
    bound: Usage,
}

impl PendingWork {
    /// Ends the piece with this usage.
    pub fn end(mut self, used: &Usage) {
        if let Some(count) = self.count.take() {
            // In this order, so that the count is never less than the later charge.
            count.add(used);
            count.close(&self.bound);
        }
    }

    /// Ends the piece without usage.
    pub fn nothing(self) {
        self.end(&Usage::default());
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        if let Some(count) = self.count.take() {
            count.add(&self.bound);
            count.close(&self.bound);
        }
    }
}

/// The count of the current call, if there is one.
pub fn current() -> Option<Count> {
    CURRENT.try_with(Count::clone).ok()
}

/// Begins a piece of the current call's work, see [`Count::begin`]. Outside a call nothing is
/// counted.
pub fn begin(bound: Usage) -> PendingWork {
    match current() {
        Some(count) => count.begin(bound),
        None => PendingWork { count: None, bound },
    }
}

/// Carries the current count over into a spawned task.
pub fn scoped<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    let count = current().unwrap_or_default();
    CURRENT.scope(count, future)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(tokens: u64) -> Usage {
        Usage {
            tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn a_piece_counts_what_it_used_and_its_bound_where_it_is_cut() {
        let count = Count::default();
        let (ended, cut, refused) = (
            count.begin(tokens(100)),
            count.begin(tokens(10)),
            count.begin(tokens(1)),
        );
        assert_eq!((count.snapshot().0, count.snapshot().1), (tokens(0), tokens(111)));
        ended.end(&tokens(30));
        refused.nothing();
        drop(cut);
        assert_eq!((count.snapshot().0, count.snapshot().1), (tokens(40), tokens(0)));
    }

    #[test]
    fn a_part_counts_in_the_whole_at_its_price() {
        let whole = Count::default();
        let part = whole.priced_part(|usage| Usage {
            cost_nano_usd: usage.tokens * 7,
            ..*usage
        });
        let at = |tokens: u64| Usage {
            tokens,
            cost_nano_usd: tokens * 7,
            ..Usage::default()
        };
        let (ended, cut) = (part.begin(tokens(100)), part.begin(tokens(10)));
        assert_eq!(whole.snapshot().1, at(110));
        ended.end(&tokens(30));
        assert_eq!((whole.used(), whole.snapshot().1), (at(30), at(10)));
        drop(cut);
        assert_eq!((whole.used(), whole.snapshot().1), (at(40), at(0)));
        assert_eq!(part.used(), tokens(40));
    }

    #[tokio::test]
    async fn the_current_count_follows_into_tasks_and_parts_add_to_the_whole() {
        assert!(current().is_none());
        begin(tokens(5)).end(&tokens(5));
        let whole = Count::default();
        let work = async {
            let task = tokio::spawn(scoped(async { begin(tokens(9)).end(&tokens(4)) }));
            task.await.ok();
            let part = Count::of_part();
            part.scope(async { drop(begin(tokens(3))) }).await;
            let under_way = part.begin(tokens(2));
            assert_eq!(current().map(|whole| whole.snapshot().1), Some(tokens(2)));
            under_way.nothing();
            part.used()
        };
        assert_eq!(whole.scope(work).await, tokens(3));
        assert_eq!(whole.used(), tokens(7));
    }
}
