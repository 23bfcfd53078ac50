//! The gate's default bounds at the limit, under skewed laws: a small version of
//! `examples/gate_laws.rs`. And laws that hold for any sample.

use isomer_stats::{
    clopper_pearson_lower,
    gate::{
        Limit, Verdict,
        bounded::{Range, bounded_interval},
        items::{Stratum, decide_items},
        rule::{Basis, Rule, decide},
    },
};
use proptest::prelude::*;

use crate::lab::{
    boundary::{Candidate, Count, Settings, simulate, simulate_clusters},
    laws::{self, Law, Shape, SharedTexts},
    layouts::{MINIMAL, QUICK, Spread},
};

const ALPHA: f64 = 0.05;
const GATES: usize = 600;

fn settings(law: &Law) -> Settings {
    Settings {
        limit: law.mean(),
        range: law.range,
        alpha: ALPHA,
        gates: GATES,
        resamples: 199,
        seed: 7,
    }
}

fn errors(candidates: &[Candidate], law: &Law, n: usize) -> Vec<Count> {
    simulate(candidates, &settings(law), |rng| {
        (0..n).map(|_| law.draw(rng)).collect()
    })
    .unwrap()
}

/// Whether this number of errors of [`GATES`] rules alpha out.
fn beyond_alpha(count: usize) -> bool {
    clopper_pearson_lower(count as u64, GATES as u64, 0.001) > ALPHA
}

#[test]
fn the_default_holds_its_level_under_every_law() {
    let mut decided = 0;
    let cells = laws::of_units()
        .into_iter()
        .flat_map(|law| [5, 13, 30, 150].map(|n| (law, n)))
        .chain(laws::of_items().into_iter().flat_map(|law| [80, 300].map(|n| (law, n))));
    for (law, n) in cells {
        for one in errors(&[Candidate::Bounded], &law, n) {
            assert!(!beyond_alpha(one.passed), "{} of {n}: {one:?} false passes", law.name);
            assert!(!beyond_alpha(one.failed), "{} of {n}: {one:?} false failures", law.name);
            decided += one.passed + one.failed;
        }
    }
    // A bound that never decides would also keep its level.
    assert!(decided > 100, "{decided}");
}

#[test]
fn bases_that_forgive_a_collapse_are_caught() {
    let collapse = Law::of_units("collapse", Shape::Collapse { share: 0.15 });
    let wrong = [
        Candidate::SignedRank,
        Candidate::Student,
        Candidate::Johnson,
        Candidate::Hall,
        Candidate::Percentile,
        Candidate::Bca,
        Candidate::Studentised,
    ];
    for one in errors(&wrong, &collapse, 10) {
        assert!(beyond_alpha(one.passed), "{one:?}");
    }
    let exponential = Law::of_units("exponential", Shape::Exponential { mean: 3.0 });
    for one in errors(&[Candidate::SignedRank, Candidate::Student], &exponential, 19) {
        assert!(beyond_alpha(one.passed), "{one:?}");
    }
}

#[test]
fn a_range_that_is_stated_too_narrow_is_caught() {
    // Drops of up to 30 points, while the gate's range says that none exceeds 8: values above 8 are
    // refused, and if none was drawn the bound is too low.
    let law = Law::of_units("collapse", Shape::Collapse { share: 0.1 });
    let narrow = Range { low: -8.0, high: 8.0 };
    let passed = simulate(&[Candidate::Bounded], &settings(&law), |rng| {
        (0..14).map(|_| law.draw(rng).min(narrow.high)).collect()
    });
    let told = Settings {
        range: narrow,
        ..settings(&law)
    };
    let wrong = simulate(&[Candidate::Bounded], &told, |rng| {
        (0..14).map(|_| law.draw(rng).min(narrow.high)).collect()
    })
    .unwrap();
    assert!(!beyond_alpha(passed.unwrap()[0].passed));
    assert!(beyond_alpha(wrong[0].passed), "{wrong:?}");
    assert!(bounded_interval(&[0.0, 9.0], narrow, ALPHA).is_err());
}

#[test]
fn rows_that_share_a_text_err_as_rows_and_not_as_clusters() {
    let law = SharedTexts { texts: 150, lost: 0.03 };
    let settings = Settings {
        limit: 3.0,
        ..settings(&laws::of_items()[0])
    };
    let rows = simulate(&[Candidate::Bounded], &settings, |rng| law.rows(rng)).unwrap();
    assert!(beyond_alpha(rows[0].passed) && beyond_alpha(rows[0].failed), "{rows:?}");
    let (passed, failed) = simulate_clusters(&settings, |rng| law.draw(rng)).unwrap();
    assert!(!beyond_alpha(passed) && !beyond_alpha(failed), "{passed} {failed}");
}

#[test]
fn items_of_the_small_suites_hold_their_level() {
    for (layout, spread) in [(QUICK, Spread::Rare), (MINIMAL, Spread::OneDataset)] {
        let (passed, failed) = layout.simulate(3.0, spread, 3.0, ALPHA, GATES / 2, 3).unwrap();
        let beyond = |count: usize| clopper_pearson_lower(count as u64, GATES as u64 / 2, 0.001) > ALPHA;
        assert!(!beyond(passed) && !beyond(failed), "{} {passed} {failed}", layout.name);
        let (passed, failed) = layout.simulate(40.0, Spread::Rare, 3.0, ALPHA, 20, 3).unwrap();
        assert_eq!((passed, failed), (0, 20), "{}: a collapse", layout.name);
    }
}

const RANGE: Range = Range {
    low: -100.0,
    high: 100.0,
};

fn bases() -> [Basis; 4] {
    [
        Basis::Bounded(RANGE),
        Basis::StudentMean,
        Basis::SignedRank,
        Basis::Bounded(Range {
            low: -130.0,
            high: 110.0,
        }),
    ]
}

fn bounds(basis: Basis, alpha: f64, values: &[f64]) -> (f64, f64) {
    let rule = Rule {
        limit: Limit::at_most(1e6),
        basis,
        alpha,
    };
    let units: Vec<Vec<f64>> = values.iter().map(|v| vec![*v]).collect();
    let found = decide(&rule, &units).unwrap();
    (
        found.low.unwrap_or(f64::NEG_INFINITY),
        found.high.unwrap_or(f64::INFINITY),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bounds_know_no_order(mut values in prop::collection::vec(-99.0..99.0_f64, 2..40), turn in 0_usize..40) {
        for basis in bases() {
            let before = bounds(basis, ALPHA, &values);
            let turned = turn % values.len();
            values.rotate_left(turned);
            let after = bounds(basis, ALPHA, &values);
            for (a, b) in [(before.0, after.0), (before.1, after.1)] {
                prop_assert!(a == b || (a - b).abs() < 1e-6, "{basis:?}: {before:?} {after:?}");
            }
        }
    }

    #[test]
    fn bounds_move_and_stretch_with_their_values(
        values in prop::collection::vec(-99.0..99.0_f64, 2..30), by in -50.0..50.0_f64, times in 0.1..9.0_f64,
    ) {
        let moved: Vec<f64> = values.iter().map(|v| by + times * v).collect();
        let range = Range { low: by + times * RANGE.low, high: by + times * RANGE.high };
        for (before, after) in [
            (Basis::Bounded(RANGE), Basis::Bounded(range)),
            (Basis::StudentMean, Basis::StudentMean),
            (Basis::SignedRank, Basis::SignedRank),
        ] {
            let (a, b) = (bounds(before, ALPHA, &values), bounds(after, ALPHA, &moved));
            for (a, b) in [(a.0, b.0), (a.1, b.1)] {
                let expected = by + times * a;
                prop_assert!(expected == b || (expected - b).abs() < 1e-5 * times.max(1.0), "{before:?}: {expected} {b}");
            }
        }
    }

    #[test]
    fn less_alpha_never_narrows(values in prop::collection::vec(-99.0..99.0_f64, 2..30), alpha in 0.001..0.2_f64) {
        for basis in bases() {
            let (narrow, wide) = (bounds(basis, 2.0 * alpha, &values), bounds(basis, alpha, &values));
            prop_assert!(wide.0 <= narrow.0 + 1e-7 && wide.1 >= narrow.1 - 1e-7, "{basis:?}: {narrow:?} {wide:?}");
        }
    }

    #[test]
    fn a_worse_value_never_helps(values in prop::collection::vec(-99.0..90.0_f64, 1..30), at in 0_usize..30, more in 0.0..9.0_f64) {
        let mut worse = values.clone();
        worse[at % values.len()] += more;
        let (before, after) = (bounded_interval(&values, RANGE, ALPHA).unwrap(), bounded_interval(&worse, RANGE, ALPHA).unwrap());
        prop_assert!(after.0 >= before.0 - 1e-6 && after.1 >= before.1 - 1e-6);
        let verdict = |values: &[f64]| {
            let strata = [Stratum::of_items(values, RANGE)];
            decide_items(Limit::at_most(5.0), ALPHA, &strata).unwrap().verdict
        };
        prop_assert!(verdict(&worse) >= verdict(&values) || verdict(&values) == Verdict::Fail);
    }
}
