#![allow(clippy::unwrap_used)]
use ndarray::Array2;

use super::*;
use crate::random::{Stream, below, normal, stream};

const DOSES: [f64; 6] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4];

fn design(full: Option<f64>) -> DoseResponse {
    DoseResponse::new(&DOSES, &[1.0; 6], full).unwrap()
}

/// scikit-learn 1.9.1: `IsotonicRegression(y_min=0, out_of_bounds="clip").fit(doses, effects,
/// sample_weight=weights).predict(doses)`.
#[test]
fn the_curve_equals_scikit_learns_regression_that_is_nowhere_below_0() {
    for (effects, weights, expected) in [
        (
            [-0.004, 0.01, 0.006, 0.05, 0.04, 0.12],
            [1.0; 6],
            [0.0, 0.008, 0.008, 0.045, 0.045, 0.12],
        ),
        (
            [0.02, 0.01, -0.03, 0.07, 0.09, 0.08],
            [100.0, 90.0, 120.0, 100.0, 80.0, 110.0],
            [0.0, 0.0, 0.0, 0.07, 0.08421052631578947, 0.08421052631578947],
        ),
        (
            [0.0, -0.01, -0.02, -0.01, -0.03, -0.001],
            [3.0, 1.0, 2.0, 1.0, 1.0, 1.0],
            [0.0; 6],
        ),
        (
            [0.011, 0.018, 0.031, 0.052, 0.097, 0.131],
            [250.0; 6],
            [0.011, 0.018, 0.031, 0.052, 0.097, 0.131],
        ),
    ] {
        let curve = DoseResponse::new(&DOSES, &weights, None)
            .unwrap()
            .curve(&effects)
            .unwrap();
        assert_eq!(curve[0], (0.0, 0.0));
        for ((dose, effect), expected) in curve[1..].iter().zip(expected) {
            assert!((effect - expected).abs() < 1e-9, "{effects:?} at {dose}");
        }
    }
}

#[test]
fn the_dose_at_half_is_the_first_at_which_the_curve_has_half() {
    let close = |found: HalfDose, dose: f64| assert!((found.dose - dose).abs() < 1e-12, "{found:?}, expected {dose}");
    // A line: half of the effect is at half of the dose.
    close(design(None).half(&DOSES).unwrap(), 0.2);
    // The curve is at half from 0.02 to 0.1.
    close(design(None).half(&[0.1, 0.5, 0.5, 0.5, 0.9, 1.0]).unwrap(), 0.02);
    // Half of the effect is reached before the first dose.
    close(design(None).half(&[1.0; 6]).unwrap(), 0.005);
    // Half of a full effect that the caller gives.
    close(design(Some(0.2)).half(&DOSES).unwrap(), 0.1);
}

#[test]
fn without_an_effect_or_below_half_there_is_a_reason() {
    assert_eq!(
        design(None).half(&[-0.1, -0.2, -0.1, 0.0, -0.1, -0.2]),
        Err(NoHalfDose::NoEffect { effect: 0.0 })
    );
    assert_eq!(
        design(Some(1.0)).half(&DOSES),
        Err(NoHalfDose::Unreached {
            maximum: 0.4,
            half: 0.5
        })
    );
    assert!(matches!(design(None).half(&[0.1]), Err(NoHalfDose::Undefined(_))));
    assert!(matches!(
        design(None).half(&[f64::NAN; 6]),
        Err(NoHalfDose::Undefined(_))
    ));
    for (doses, weights, full) in [
        (&[][..], &[][..], None),
        (&[0.1, 0.1], &[1.0, 1.0], None),
        (&[0.0, 0.1], &[1.0, 1.0], None),
        (&[0.1, 0.2], &[1.0, 0.0], None),
        (&[0.1, 0.2], &[1.0], None),
        (&[0.1, 0.2], &[1.0, 1.0], Some(0.0)),
        (&[0.1, f64::INFINITY], &[1.0, 1.0], None),
    ] {
        assert!(DoseResponse::new(doses, weights, full).is_err(), "{doses:?}");
    }
}

#[test]
fn replicates_below_half_lie_above_every_dose() {
    let rows = |steep: usize, flat: usize| {
        let row = |scale: f64| DOSES.map(|dose| dose * scale);
        let all: Vec<f64> = (0..steep)
            .map(|_| row(1.0))
            .chain((0..flat).map(|_| row(0.25)))
            .flatten()
            .collect();
        Array2::from_shape_vec((steep + flat, 6), all).unwrap()
    };
    let design = design(Some(0.4));
    let closed = design.interval(rows(200, 0).view(), 0.95).unwrap();
    assert_eq!((closed.low, closed.high, closed.unreached), (0.2, Some(0.2), 0));
    let open = design.interval(rows(180, 20).view(), 0.95).unwrap();
    assert_eq!((open.low, open.high, open.unreached), (0.2, None, 20));
    assert!(matches!(
        design.interval(rows(2, 198).view(), 0.95),
        Err(NoHalfDose::Unreached { half, .. }) if half == 0.2
    ));
    assert!(matches!(
        design.interval(Array2::zeros((100, 6)).view(), 0.95),
        Err(NoHalfDose::NoEffect { .. })
    ));
    assert!(design.interval(Array2::zeros((0, 6)).view(), 0.95).is_err());
    assert!(design.interval(Array2::zeros((9, 5)).view(), 0.95).is_err());
    assert!(design.interval(rows(9, 0).view(), 1.0).is_err());
}

const ITEMS: usize = 150;
const RESAMPLES: usize = 300;
const RUNS: usize = 300;

/// Effects of items at each dose: their means times a random effect of the item, and noise.
fn items(means: &[f64; 6], rng: &mut Stream) -> Vec<[f64; 6]> {
    let item = |rng: &mut Stream| {
        let scale = 1.0 + 0.8 * normal(rng);
        means.map(|mean| mean * scale + 0.1 * normal(rng))
    };
    (0..ITEMS).map(|_| item(rng)).collect()
}

fn mean_of<'a>(items: impl Iterator<Item = &'a [f64; 6]>) -> [f64; 6] {
    let mut sum = [0.0; 6];
    for item in items {
        sum.iter_mut()
            .zip(item)
            .for_each(|(sum, effect)| *sum += effect / ITEMS as f64);
    }
    sum
}

fn replicates(items: &[[f64; 6]], rng: &mut Stream) -> Array2<f64> {
    let row = |_| {
        mean_of(
            (0..ITEMS)
                .map(|_| &items[below(rng, ITEMS)])
                .collect::<Vec<_>>()
                .into_iter(),
        )
    };
    Array2::from_shape_vec((RESAMPLES, 6), (0..RESAMPLES).flat_map(row).collect()).unwrap()
}

/// Number of runs with an interval, and number of those whose interval contains the dose at half of
/// the mean curve.
fn coverage(means: &[f64; 6], seed: u64) -> (usize, usize) {
    let design = design(None);
    let truth = design.half(means).map(|half| half.dose).unwrap_or(f64::NAN);
    let (mut found, mut covered) = (0, 0);
    for run in 0..RUNS {
        let mut rng = stream(seed, run);
        let items = items(means, &mut rng);
        if let Ok(interval) = design.interval(replicates(&items, &mut rng).view(), 0.95) {
            found += 1;
            covered += usize::from(interval.low <= truth && interval.high.is_none_or(|high| truth <= high));
        }
    }
    (found, covered)
}

/// A rising curve and one with a plateau. Of 300 intervals of level 0.95, 273 or fewer cover with a
/// probability of 0.1 %.
#[test]
fn the_interval_covers_the_dose_at_half_as_often_as_its_level() {
    let rising = DOSES.map(|dose| 0.2 * dose / (dose + 0.08));
    let plateau = [0.0, 0.01, 0.02, 0.12, 0.12, 0.12];
    for (means, seed) in [(rising, 1), (plateau, 2)] {
        let (found, covered) = coverage(&means, seed);
        assert!(found == RUNS && covered > 273, "{means:?}: {covered} of {found}");
    }
}

/// Without an effect one interval in forty is expected, because one end of the effect's interval
/// lies above 0 that often: 7.5 of 300, and 17 or more with a probability of 0.2 %.
#[test]
fn without_an_effect_hardly_any_interval_is_given() {
    let (found, _) = coverage(&[0.0; 6], 3);
    assert!(found < 17, "{found}");
}
