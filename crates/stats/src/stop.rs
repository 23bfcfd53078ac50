//! Stops the draws of a computation whose caller has left.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;

thread_local! {
    static LEFT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Restores the flag of an outer computation.
struct Outer(Option<Arc<AtomicBool>>);

impl Drop for Outer {
    fn drop(&mut self) {
        LEFT.set(self.0.take());
    }
}

/// Computes on this thread, with draws on any thread, until a flag is set. `None` if it was set,
/// because the result then lacks draws.
pub fn until<T>(left: &Arc<AtomicBool>, compute: impl FnOnce() -> T) -> Option<T> {
    let outer = Outer(LEFT.replace(Some(Arc::clone(left))));
    let found = compute();
    drop(outer);
    (!left.load(Ordering::Relaxed)).then_some(found)
}

/// Whether the caller of the computation on this thread has left.
pub(crate) fn caller_left() -> bool {
    LEFT.with_borrow(|left| left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed)))
}

/// The numbers of draws, in parallel, until the caller of the computation on this thread leaves.
pub(crate) fn draws(count: usize) -> impl ParallelIterator<Item = usize> {
    let left = LEFT.with_borrow(Clone::clone);
    (0..count)
        .into_par_iter()
        .take_any_while(move |_| left.as_ref().is_none_or(|left| !left.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicUsize;

    use ndarray::Array2;

    use super::*;
    use crate::{
        Alternative, Bootstrap, Correlation, IntervalMethod, Statistic, paired_bootstrap_test,
        permutation::{sign_flip_test, two_sample_permutation_test},
        reliability::split_half_reliability,
        sample_interval, statistic_interval,
    };

    #[test]
    fn draws_come_in_order_and_end_when_the_caller_leaves() {
        assert_eq!(draws(1000).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        let (left, drawn) = (Arc::default(), AtomicUsize::new(0));
        let settings = Bootstrap {
            resamples: 1_000_000,
            level: 0.95,
            seed: 1,
            method: IntervalMethod::Percentile,
        };
        let leave = |_: &[f64]| {
            drawn.fetch_add(1, Ordering::Relaxed);
            AtomicBool::store(&left, true, Ordering::Relaxed);
            Some(0.0)
        };
        let found = until(&left, || sample_interval(&[1.0, 2.0], leave, &settings));
        assert!(found.is_none());
        assert!(drawn.load(Ordering::Relaxed) <= 4 * rayon::current_num_threads());
        assert!(!caller_left(), "the flag is that of one computation");
    }

    /// Without stopping, each computation would take hours.
    #[test]
    fn every_computation_with_draws_stops() {
        let left = Arc::new(AtomicBool::new(true));
        let draws = usize::MAX >> 16;
        let values: Vec<f64> = (0..60_000).map(f64::from).collect();
        let bca = Bootstrap {
            resamples: 1,
            level: 0.95,
            seed: 1,
            method: IntervalMethod::Bca,
        };
        assert!(until(&left, || sign_flip_test(&values, Alternative::Greater, draws, 1)).is_none());
        assert!(until(&left, || paired_bootstrap_test(&values, Alternative::Greater, draws, 1)).is_none());
        assert!(
            until(&left, || two_sample_permutation_test(
                &values,
                &values,
                Alternative::Greater,
                draws,
                1
            ))
            .is_none()
        );
        let scores = Array2::from_shape_fn((3, 20), |(i, j)| (i * j) as f64);
        assert!(until(&left, || split_half_reliability(scores.view(), &["x"; 20], draws, 1)).is_none());
        assert!(until(&left, || statistic_interval(&values, Statistic::HodgesLehmann, &bca)).is_none());
        assert!(until(&left, || Correlation::KendallTauB.bootstrap(&values, &values, &bca)).is_none());
    }
}
