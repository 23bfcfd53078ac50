#![allow(clippy::unwrap_used)]

use rayon::prelude::*;

use super::{
    super::{
        Verdict,
        items::{Evidence, decide_with},
    },
    *,
};
use crate::{
    random::{stream, uniform},
    special::normal_quantile,
};

/// Drops of one item in points, each at most 100.
const RANGE: Range = Range {
    low: -100.0,
    high: 100.0,
};
const GATES: usize = 250;
/// A share of so many gates has a standard error of at most 0.032. The draws are fixed; the largest
/// distance was 0.05.
const TOLERANCE: f64 = 0.08;

fn items(items: usize, values: &[f64]) -> DatasetDesign {
    DatasetDesign {
        weight: 1.0,
        items,
        values: Pilot::Items {
            values: values.to_vec(),
            range: RANGE,
        },
    }
}

fn figure(items: usize) -> DatasetDesign {
    DatasetDesign {
        weight: 1.0,
        items,
        values: Pilot::Figure { spread: 25.0 },
    }
}

/// Of 50 items, three are lost and three are won.
fn answers() -> Vec<f64> {
    [vec![100.0; 3], vec![-100.0; 3], vec![0.0; 44]].concat()
}

/// Half of the items do not move; the others move by 28 points or so.
fn graded() -> Vec<f64> {
    let moved = (0..50).map(|i| (28.0 * normal_quantile((f64::from(i) + 0.5) / 50.0)).clamp(-100.0, 100.0));
    moved.chain([0.0; 50]).collect()
}

/// Shares of gates that pass and fail.
fn simulated(limit: Limit, dataset: &[DatasetDesign], truth: f64) -> Chances {
    let verdicts: Vec<Verdict> = (0..GATES)
        .into_par_iter()
        .map(|gate| {
            let mut rng = stream(7, gate);
            let strata: Vec<Stratum> = dataset
                .iter()
                .map(|one| match &one.values {
                    Pilot::Items { values, range } => {
                        let shares = tilted(values, truth).unwrap();
                        let draw = |u: f64| {
                            let mut reached = 0.0;
                            let found = shares.iter().find(|(_, share)| {
                                reached += share;
                                reached > u
                            });
                            found.unwrap_or(shares.last().unwrap()).0
                        };
                        let drawn: Vec<f64> = (0..one.items).map(|_| draw(uniform(&mut rng))).collect();
                        Stratum::of_items(&drawn, *range)
                    }
                    Pilot::Figure { spread } => {
                        let error = spread / (one.items as f64).sqrt();
                        let freedom = one.items as f64 - 1.0;
                        let noise = 1.0 + normal_quantile(uniform(&mut rng)) / (2.0 * freedom).sqrt();
                        Stratum {
                            weight: one.weight,
                            evidence: Evidence::Measured {
                                estimate: truth + error * normal_quantile(uniform(&mut rng)),
                                standard_error: error * noise,
                                freedom,
                            },
                        }
                    }
                })
                .collect();
            decide_with(limit, 0.05, &strata, 1_999).unwrap().verdict
        })
        .collect();
    let share = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count() as f64 / GATES as f64;
    Chances {
        pass: share(Verdict::Pass),
        fail: share(Verdict::Fail),
    }
}

#[test]
fn chances_are_those_of_simulated_gates() {
    let designs = [
        ("answers", vec![items(300, &answers())]),
        ("few graded", vec![items(60, &graded())]),
        ("quick", vec![figure(96), figure(92), items(36, &graded())]),
        (
            "minimal",
            vec![
                figure(300),
                figure(300),
                figure(300),
                items(300, &answers()),
                items(100, &graded()),
                items(100, &graded()),
                items(20, &answers()),
            ],
        ),
    ];
    for (name, dataset) in &designs {
        for limit in [3.0, 8.0] {
            for (truth, share) in [(0.0, 1.0), (limit / 2.0, 1.0), (2.0 * limit, 1.0), (limit / 2.0, 0.2)] {
                let limit = Limit {
                    fail_at: share * limit,
                    ..Limit::at_most(limit)
                };
                let found = chances(limit, 0.05, dataset, truth).unwrap();
                let real = simulated(limit, dataset, truth);
                let distance = (found.pass - real.pass).abs().max((found.fail - real.fail).abs());
                assert!(
                    distance < TOLERANCE,
                    "{name}, {limit:?}, {truth}: {found:?}, simulated {real:?}"
                );
            }
        }
    }
}

fn share(spread: f64, least: usize, most: usize) -> Share {
    Share { spread, least, most }
}

#[test]
fn items_are_divided_by_spread_within_their_bounds() {
    let of = |total, shares: &[(f64, usize, usize)]| {
        let shares: Vec<Share> = shares
            .iter()
            .map(|(spread, least, most)| share(*spread, *least, *most))
            .collect();
        allocate(total, &shares)
    };
    assert_eq!(of(100, &[(1.0, 0, 1000), (3.0, 0, 1000)]), [25, 75]);
    // The first has no more than 10; the others divide the rest.
    assert_eq!(of(110, &[(9.0, 0, 10), (1.0, 0, 1000), (3.0, 0, 1000)]), [10, 25, 75]);
    assert_eq!(of(100, &[(1.0, 40, 1000), (9.0, 40, 1000)]), [40, 60]);
    // It has fewer than it should get at least.
    assert_eq!(of(100, &[(1.0, 40, 5), (1.0, 40, 1000)]), [5, 95]);
    // More than there are, and fewer than the least.
    assert_eq!(of(500, &[(1.0, 0, 30), (2.0, 0, 40)]), [30, 40]);
    assert_eq!(of(10, &[(1.0, 50, 60), (2.0, 50, 60)]), [50, 50]);
    assert_eq!(
        of(10, &[(1.0, 0, 60), (1.0, 0, 60), (1.0, 0, 60)])
            .iter()
            .sum::<usize>(),
        10
    );
    assert_eq!(of(10, &[(0.0, 3, 60), (1.0, 0, 60)]), [3, 7]);
    assert_eq!(of(500, &[(0.0, 3, 60), (1.0, 0, 60)]), [60, 60]);
    assert_eq!(of(50, &[(f64::INFINITY, 3, 60), (1.0, 0, 60)]), [3, 47]);
    assert_eq!(of(50, &[(0.0, 0, 60), (f64::NAN, 0, 60)]), [25, 25]);
    assert!(of(10, &[]).is_empty());
}

#[test]
fn no_other_division_has_a_smaller_variance() {
    let shares = [share(34.0, 5, 400), share(12.0, 5, 30), share(25.0, 5, 90)];
    let variance = |items: &[usize]| -> f64 {
        let of = |(items, share): (&usize, &Share)| share.spread.powi(2) / *items as f64;
        items.iter().zip(&shares).map(of).sum()
    };
    for total in [20, 60, 150, 300] {
        let found = allocate(total, &shares);
        assert_eq!(found.iter().sum::<usize>(), total);
        let best = (5..=400_usize.min(total))
            .flat_map(|a| (5..=30).map(move |b| (a, b)))
            .filter_map(|(a, b)| Some([a, b, total.checked_sub(a + b).filter(|c| (5..=90).contains(c))?]))
            .map(|items| variance(&items))
            .fold(f64::INFINITY, f64::min);
        assert!(variance(&found) <= best * (1.0 + 1e-3), "{total}: {found:?}");
    }
}

#[test]
fn a_tilted_pilot_has_the_mean_and_keeps_its_values() {
    for values in [answers(), graded()] {
        for truth in [-7.0, 0.0, 3.0, 20.0] {
            let shares = tilted(&values, truth).unwrap();
            let sum: f64 = shares.iter().map(|(_, share)| share).sum();
            let mean: f64 = shares.iter().map(|(value, share)| value * share).sum();
            assert!((sum - 1.0).abs() < 1e-9 && (mean - truth).abs() < 1e-6, "{sum} {mean}");
        }
    }
    let equal = tilted(&answers(), 0.0).unwrap();
    assert!(equal.iter().all(|(_, share)| (share - 0.02).abs() < 1e-9));
    for beyond in [-100.0, 100.0, f64::NAN] {
        assert!(tilted(&answers(), beyond).is_err());
    }
    assert!(tilted(&[], 0.0).is_err());
}

#[test]
fn a_rule_with_a_minimum_mirrors_one_with_a_maximum() {
    let dataset = [items(200, &graded()), figure(150)];
    for fail_at in [3.0, 0.5] {
        let most = Limit {
            fail_at,
            ..Limit::at_most(3.0)
        };
        let least = Limit {
            fail_at: -fail_at,
            ..Limit::at_least(-3.0)
        };
        let drop = chances(most, 0.05, &dataset, 1.0).unwrap();
        let gain = chances(least, 0.05, &dataset, -1.0).unwrap();
        // Bounds are drawn, so both sides differ by a little.
        assert!(
            (drop.pass - gain.pass).abs() < 0.02 && (drop.fail - gain.fail).abs() < 0.02,
            "{drop:?} {gain:?}"
        );
    }
}

#[test]
fn designs_that_are_none_are_refused() {
    let limit = Limit::at_most(3.0);
    assert!(chances(limit, 0.05, &[], 0.0).is_err());
    assert!(chances(limit, 0.05, &[items(0, &answers())], 0.0).is_err());
    assert!(chances(limit, 0.5, &[items(50, &answers())], 0.0).is_err());
    assert!(chances(limit, 0.05, &[items(50, &answers())], 150.0).is_err());
}
