//! An adaptive limit on the concurrent calls of a generator.
//!
//! Additive increase, multiplicative decrease (Chiu & Jain 1989). Each call that ends well raises
//! the bound by one over the bound, so by one for each round of calls. A sign of overload halves
//! it. Calls that were in flight when the bound was cut say nothing about the new bound: of a burst
//! of refusals only the first cuts. It is written here because no well-maintained crate limits
//! calls this way.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Permits for concurrent calls, given in order of arrival.
#[derive(Debug)]
pub struct AdaptiveLimit {
    semaphore: Arc<Semaphore>,
    state: Mutex<State>,
    least: usize,
    most: usize,
    /// The generator's id, for the gauge.
    name: String,
}

#[derive(Debug)]
struct State {
    /// The bound; its whole part is the number of permits.
    bound: f64,
    /// Permits in use that are not returned on drop, since the bound was cut below them.
    owed: usize,
    cut: Option<Instant>,
}

/// A permit; dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    places: Arc<AdaptiveLimit>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        if state.owed > 0 {
            state.owed -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

impl AdaptiveLimit {
    /// Begins at `most` and stays between `least` and `most`, both at least 1. If they are equal
    /// the bound is fixed.
    pub fn new(name: &str, least: usize, most: usize) -> Arc<Self> {
        let most = most.max(1);
        let places = Self {
            semaphore: Arc::new(Semaphore::new(most)),
            state: Mutex::new(State {
                bound: most as f64,
                owed: 0,
                cut: None,
            }),
            least: least.clamp(1, most),
            most,
            name: name.to_owned(),
        };
        places.tell(most);
        Arc::new(places)
    }

    /// Most permits there can be.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Permits there are now.
    pub fn bound(&self) -> usize {
        self.state.lock().bound as usize
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If the generator is being shut down.
    pub async fn take(self: &Arc<Self>) -> Result<Permit, AcquireError> {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await?;
        Ok(self.place(permit))
    }

    /// A permit, if one is free and no caller waits.
    pub fn try_take(self: &Arc<Self>) -> Result<Permit, TryAcquireError> {
        let permit = Arc::clone(&self.semaphore).try_acquire_owned()?;
        Ok(self.place(permit))
    }

    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Permit {
        Permit {
            permit: Some(permit),
            places: Arc::clone(self),
        }
    }

    /// Reports a call that ended well.
    pub fn went_well(&self) {
        let mut state = self.state.lock();
        let before = state.bound as usize;
        if before >= self.most {
            return;
        }
        state.bound = (state.bound + 1.0 / state.bound).min(self.most as f64);
        if state.bound as usize > before {
            if state.owed > 0 {
                state.owed -= 1;
            } else {
                self.semaphore.add_permits(1);
            }
            self.tell(state.bound as usize);
        }
    }

    /// Reports a call, begun at `began`, that was refused for overload or not answered in time.
    pub fn was_overloaded(&self, began: Instant) {
        let mut state = self.state.lock();
        if state.cut.is_some_and(|cut| began < cut) {
            return;
        }
        let before = state.bound as usize;
        state.bound = (state.bound / 2.0).max(self.least as f64);
        state.cut = Some(Instant::now());
        let gone = before - state.bound as usize;
        // Free permits are removed at once, the others when their calls end.
        state.owed += gone - self.semaphore.forget_permits(gone);
        if gone > 0 {
            metrics::counter!(crate::metric_names::CUTS, "generator" => self.name.clone()).increment(1);
            tracing::debug!(generator = %self.name, places = state.bound as usize, "overloaded: fewer calls at once");
            self.tell(state.bound as usize);
        }
    }

    fn tell(&self, bound: usize) {
        metrics::gauge!(crate::metric_names::PLACES, "generator" => self.name.clone()).set(bound as f64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn free(places: &Arc<AdaptiveLimit>) -> Vec<Permit> {
        std::iter::from_fn(|| places.try_take().ok()).collect()
    }

    #[test]
    fn overload_halves_and_a_round_of_good_calls_adds_one() {
        let places = AdaptiveLimit::new("x", 2, 16);
        assert_eq!(free(&places).len(), 16);
        places.was_overloaded(Instant::now());
        assert_eq!((places.bound(), free(&places).len()), (8, 8));
        (0..8).for_each(|_| places.went_well());
        // 8 + 1/8 + 1/8.1 + … is just under 9; the next call makes it.
        places.went_well();
        assert_eq!((places.bound(), free(&places).len()), (9, 9));
        (0..1000).for_each(|_| places.went_well());
        assert_eq!((places.bound(), free(&places).len()), (16, 16), "never above the most");
        (0..9).for_each(|_| places.was_overloaded(Instant::now()));
        assert_eq!((places.bound(), free(&places).len()), (2, 2), "never below the least");
    }

    #[test]
    fn of_a_burst_of_refusals_only_the_first_cuts() {
        let places = AdaptiveLimit::new("x", 1, 16);
        let began = Instant::now();
        (0..10).for_each(|_| places.was_overloaded(began));
        assert_eq!(places.bound(), 8);
        places.was_overloaded(Instant::now());
        assert_eq!(places.bound(), 4);
    }

    #[test]
    fn places_that_are_out_are_not_given_again_until_the_bound_allows() {
        let places = AdaptiveLimit::new("x", 1, 4);
        let mut out = free(&places);
        places.was_overloaded(Instant::now());
        out.truncate(2);
        assert!(places.try_take().is_err(), "two are out and two may be");
        out.truncate(1);
        assert_eq!(free(&places).len(), 1);
        drop(out);
        assert_eq!(free(&places).len(), 2);
    }

    #[test]
    fn a_bound_that_grows_while_places_are_owed_takes_the_debt_first() {
        let places = AdaptiveLimit::new("x", 1, 4);
        let out = free(&places);
        places.was_overloaded(Instant::now());
        (0..9).for_each(|_| places.went_well());
        assert_eq!(places.bound(), 4);
        drop(out);
        assert_eq!(free(&places).len(), 4);
    }

    #[test]
    fn equal_bounds_do_not_move() {
        let places = AdaptiveLimit::new("x", 8, 8);
        places.was_overloaded(Instant::now());
        places.went_well();
        assert_eq!((places.bound(), free(&places).len()), (8, 8));
    }
}
