//! An adaptive limit on the concurrent calls of a generator.
//!
//! Additive increase, multiplicative decrease (Chiu & Jain 1989). Each successful call raises the
//! bound by one over the bound, so by one for each round of calls. A sign of overload halves it.
//! Calls that were in flight when the bound was cut say nothing about the new bound: of a burst of
//! refusals, only the first cuts it. This is our own code because no well-maintained crate limits
//! calls this way.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use isomer_outbound::shared_limits::SharedLimit;
use isomer_service_kit::priority::{Line, Urgency};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

/// Permits for concurrent calls, granted in order of priority and then of arrival.
#[derive(Debug)]
pub struct AdaptiveLimit {
    state: Mutex<State>,
    least: usize,
    most: usize,
    /// The generator's id, for the gauge.
    name: String,
    /// The limit on the calls of all processes of a fleet.
    fleet: Option<Arc<dyn SharedLimit>>,
}

#[derive(Debug)]
struct State {
    /// The bound; its whole part is the number of permits.
    bound: f64,
    /// Permits in use; temporarily more than the bound after a cut.
    in_use: usize,
    cut: Option<Instant>,
    waiting: Line<oneshot::Sender<Permit>>,
}

/// A permit; dropping it returns it.
#[derive(Debug)]
pub struct Permit {
    /// `None` once the permit is returned.
    limit: Option<Arc<AdaptiveLimit>>,
    lost: Option<watch::Receiver<u64>>,
}

impl Permit {
    /// Changes when the permit is lost: other processes may then be granted it, and the call must
    /// end. `None` if the calls of other processes do not count.
    pub(super) fn lost(&self) -> Option<watch::Receiver<u64>> {
        self.lost.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        // The sender lives as long as the limit.
        self.lost
            .as_ref()
            .is_some_and(|lost| lost.has_changed().unwrap_or(true))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(limit) = self.limit.take() else { return };
        let mut state = limit.state.lock();
        limit.give_back(&mut state);
        limit.admit(&mut state);
    }
}

/// A waiting caller. When it leaves, the number of waiting calls reported to the fleet falls.
struct WaitingCall<'a> {
    limit: &'a Arc<AdaptiveLimit>,
    receiver: Option<oneshot::Receiver<Permit>>,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        // A permit that was sent at this moment is returned here.
        drop(self.receiver.take());
        if self.limit.fleet.is_some() {
            self.limit.admit(&mut self.limit.state.lock());
        }
    }
}

impl AdaptiveLimit {
    /// Starts at `most` and stays between `least` and `most`, both at least 1. If they are equal,
    /// the bound is fixed.
    pub fn new(name: &str, least: usize, most: usize) -> Arc<Self> {
        Self::within(name, least, most, None)
    }

    /// Like `new`, within a limit on the calls of all processes of a fleet.
    pub(super) fn within(name: &str, least: usize, most: usize, fleet: Option<Arc<dyn SharedLimit>>) -> Arc<Self> {
        let most = most.max(1);
        let more = fleet.as_ref().map(|fleet| fleet.more());
        let limit = Arc::new(Self {
            state: Mutex::new(State {
                bound: most as f64,
                in_use: 0,
                cut: None,
                waiting: Line::default(),
            }),
            least: least.clamp(1, most),
            most,
            name: name.to_owned(),
            fleet,
        });
        limit.record_bound(most);
        if let Some(more) = more {
            tokio::spawn(admit_when_more(Arc::downgrade(&limit), more));
        }
        limit
    }

    /// Maximum number of permits.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Current number of permits.
    pub fn bound(&self) -> usize {
        self.state.lock().bound as usize
    }

    /// Waits for a permit.
    pub async fn take(self: &Arc<Self>, urgency: &Urgency) -> Permit {
        loop {
            let (sender, receiver) = oneshot::channel();
            let mut waiting = WaitingCall {
                limit: self,
                receiver: Some(receiver),
            };
            {
                let mut state = self.state.lock();
                state.waiting.push(urgency.clone(), sender);
                self.admit(&mut state);
            }
            // Senders of waiting callers are not dropped, so this is a permit.
            if let Some(receiver) = &mut waiting.receiver
                && let Ok(permit) = receiver.await
            {
                return permit;
            }
        }
    }

    /// A permit, if one is free and no caller is waiting.
    pub fn try_take(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.state.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        if state.waiting.is_empty() {
            self.free(&mut state)
        } else {
            None
        }
    }

    /// A permit, if one is free.
    fn free(self: &Arc<Self>, state: &mut State) -> Option<Permit> {
        if state.in_use >= state.bound as usize {
            return None;
        }
        // Subscribed before the call begins, so that no loss is missed.
        let lost = self.fleet.as_ref().map(|fleet| fleet.leases_lost());
        if self.fleet.as_ref().is_some_and(|fleet| !fleet.try_begin()) {
            return None;
        }
        state.in_use += 1;
        Some(Permit {
            limit: Some(Arc::clone(self)),
            lost,
        })
    }

    fn give_back(&self, state: &mut State) {
        state.in_use -= 1;
        if let Some(fleet) = &self.fleet {
            fleet.end();
        }
    }

    /// Grants the free permits to waiting callers.
    fn admit(self: &Arc<Self>, state: &mut State) {
        state.waiting.retain(|waiting| !waiting.is_closed());
        while !state.waiting.is_empty() {
            let Some(permit) = self.free(state) else { break };
            let Some(next) = state.waiting.pop() else { break };
            if let Err(mut permit) = next.send(permit) {
                // The caller left at this moment. The permit is not simply dropped, because that
                // takes the lock.
                permit.limit = None;
                self.give_back(state);
            }
        }
        if let Some(fleet) = &self.fleet {
            let room = (state.bound as usize).saturating_sub(state.in_use);
            fleet.report_waiting(state.waiting.len().min(room));
        }
    }

    /// Reports a successful call.
    pub fn went_well(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let before = state.bound as usize;
        if before >= self.most {
            return;
        }
        state.bound = (state.bound + 1.0 / state.bound).min(self.most as f64);
        if state.bound as usize > before {
            self.admit(&mut state);
            self.record_bound(state.bound as usize);
        }
    }

    /// Reports a call, started at `began`, that was refused for overload or timed out.
    pub fn was_overloaded(&self, began: Instant) {
        let mut state = self.state.lock();
        if state.cut.is_some_and(|cut| began < cut) {
            return;
        }
        let before = state.bound as usize;
        state.bound = (state.bound / 2.0).max(self.least as f64);
        state.cut = Some(Instant::now());
        if (state.bound as usize) < before {
            metrics::counter!(crate::metric_names::CUTS, "generator" => self.name.clone()).increment(1);
            tracing::debug!(generator = %self.name, limit = state.bound as usize, "overloaded: fewer calls at once");
            self.record_bound(state.bound as usize);
        }
    }

    fn record_bound(&self, bound: usize) {
        metrics::gauge!(crate::metric_names::PLACES, "generator" => self.name.clone()).set(bound as f64);
    }
}

/// Grants permits to waiting callers whenever the fleet allows more calls.
async fn admit_when_more(limit: Weak<AdaptiveLimit>, mut more: watch::Receiver<()>) {
    while more.changed().await.is_ok() {
        let Some(limit) = limit.upgrade() else { return };
        limit.admit(&mut limit.state.lock());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn free(limit: &Arc<AdaptiveLimit>) -> Vec<Permit> {
        std::iter::from_fn(|| limit.try_take()).collect()
    }

    #[test]
    fn overload_halves_and_a_round_of_good_calls_adds_one() {
        let limit = AdaptiveLimit::new("x", 2, 16);
        assert_eq!(free(&limit).len(), 16);
        limit.was_overloaded(Instant::now());
        assert_eq!((limit.bound(), free(&limit).len()), (8, 8));
        (0..8).for_each(|_| limit.went_well());
        // 8 + 1/8 + 1/8.1 + … is just under 9; the next call reaches it.
        limit.went_well();
        assert_eq!((limit.bound(), free(&limit).len()), (9, 9));
        (0..1000).for_each(|_| limit.went_well());
        assert_eq!((limit.bound(), free(&limit).len()), (16, 16), "never above the most");
        (0..9).for_each(|_| limit.was_overloaded(Instant::now()));
        assert_eq!((limit.bound(), free(&limit).len()), (2, 2), "never below the least");
    }

    #[test]
    fn of_a_burst_of_refusals_only_the_first_cuts() {
        let limit = AdaptiveLimit::new("x", 1, 16);
        let began = Instant::now();
        (0..10).for_each(|_| limit.was_overloaded(began));
        assert_eq!(limit.bound(), 8);
        limit.was_overloaded(Instant::now());
        assert_eq!(limit.bound(), 4);
    }

    #[test]
    fn places_that_are_out_are_not_given_again_until_the_bound_allows() {
        let limit = AdaptiveLimit::new("x", 1, 4);
        let mut out = free(&limit);
        limit.was_overloaded(Instant::now());
        out.truncate(2);
        assert!(limit.try_take().is_none(), "two are out and two may be");
        out.truncate(1);
        assert_eq!(free(&limit).len(), 1);
        drop(out);
        assert_eq!(free(&limit).len(), 2);
    }

    #[test]
    fn a_bound_that_grows_while_places_are_owed_takes_the_debt_first() {
        let limit = AdaptiveLimit::new("x", 1, 4);
        let out = free(&limit);
        limit.was_overloaded(Instant::now());
        (0..9).for_each(|_| limit.went_well());
        assert_eq!(limit.bound(), 4);
        drop(out);
        assert_eq!(free(&limit).len(), 4);
    }

    #[test]
    fn equal_bounds_do_not_move() {
        let limit = AdaptiveLimit::new("x", 8, 8);
        limit.was_overloaded(Instant::now());
        limit.went_well();
        assert_eq!((limit.bound(), free(&limit).len()), (8, 8));
    }
}
