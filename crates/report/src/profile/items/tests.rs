#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    profile::profile,
    stats::random::{stream, uniform},
};

/// One encoder; data sets x, y and z of 40 items each, y and z of one group; two lexical
/// transformations, one on length and a control, two seeds. Scores are means of the items.
fn run() -> (Grid, Vec<DatasetItems>, Vec<UnitItems>) {
    let columns = [
        ("paraphrase", Axis::Lexical),
        ("style_change", Axis::Lexical),
        ("summarisation", Axis::Length),
        ("random_keywords", Axis::Augmentation),
    ];
    let mut grid = Grid::of(&["e"], &["x", "y", "z"], &columns, &[1, 2]);
    grid.groups = ["x", "yz", "yz"].map(str::to_owned).to_vec();
    let (mut items, mut units) = (Vec::new(), Vec::new());
    for d in 0..3 {
        let mut rng = stream(5, d);
        let original: Vec<f64> = (0..40).map(|_| 0.5 + 0.5 * uniform(&mut rng)).collect();
        let evidence = Evidence::mean(&original, None);
        grid.original[0][d] = 100.0 * evidence.whole().unwrap();
        let mut transformed = Vec::new();
        for c in 0..4 {
            let mut seeds = Vec::new();
            for s in 0..2 {
                let drop = 0.05 * (c + 1) as f64 * (d + 1) as f64;
                let values: Vec<f64> = original.iter().map(|v| v - drop * uniform(&mut rng)).collect();
                let own = Evidence::mean(&values, None);
                grid.transformed[0][d][c][s] = 100.0 * own.whole().unwrap();
                seeds.push(own);
            }
            transformed.push(seeds);
        }
        items.push(DatasetItems {
            clusters: (0..40).collect(),
            changed: vec![vec![(0..40).map(|i| i % 2 == 0).collect(); 2]; 4],
            accepted: Vec::new(),
        });
        units.push(UnitItems {
            original: evidence,
            transformed,
        });
    }
    (grid, items, units)
}

fn with_intervals() -> (RobustnessProfile, Grid, Vec<UnitItems>) {
    let (grid, items, units) = run();
    let mut made = profile(&grid, None);
    add_intervals(&mut made, &grid, &items, |_, d| Ok(units[d].clone()));
    (made, grid, units)
}

/// Standard error of a mean, from its values.
fn error_of_mean(values: &[f64]) -> f64 {
    crate::stats::sample_sd(values).unwrap() / (values.len() as f64).sqrt()
}

/// The values of each item whose mean is the total of a data set.
fn total_by_item(unit: &UnitItems) -> Vec<f64> {
    let values = |evidence: &Evidence| match evidence {
        Evidence::Mean { values, .. } => values.iter().map(|v| v.unwrap()).collect::<Vec<f64>>(),
        _ => Vec::new(),
    };
    let original = values(&unit.original);
    let of = |c: usize, i: usize| (values(&unit.transformed[c][0])[i] + values(&unit.transformed[c][1])[i]) / 2.0;
    (0..original.len())
        .map(|i| 100.0 * (((of(0, i) + of(1, i)) / 2.0 + of(2, i)) / 2.0 - original[i]))
        .collect()
}

#[test]
fn sums_are_the_differences_of_the_profile() {
    let (made, grid, _) = with_intervals();
    for (d, dataset) in made.encoders[0].datasets.iter().enumerate() {
        let transformed = grid.transformed[0][d].iter().flatten();
        let scores: Vec<f64> = std::iter::once(&grid.original[0][d])
            .chain(transformed)
            .copied()
            .collect();
        let near = |sum: Sum, moved: &Moved| assert!((sum.on(&scores) - moved.delta).abs() < 1e-9);
        near(Sum::total(&grid), dataset.total.as_ref().unwrap());
        for axis in &dataset.axes {
            near(Sum::axis(&grid, axis.axis), &axis.moved);
        }
        for (c, one) in dataset.transformations.iter().enumerate() {
            near(Sum::column(&grid, c), &one.moved);
        }
    }
}

#[test]
fn standard_errors_of_means_are_those_of_the_formula() {
    let (made, _, units) = with_intervals();
    let encoder = &made.encoders[0];
    let errors: Vec<f64> = units.iter().map(|unit| error_of_mean(&total_by_item(unit))).collect();
    for (dataset, wanted) in encoder.datasets.iter().zip(&errors) {
        let own = dataset.total.as_ref().unwrap().intervals.items.as_ref().unwrap();
        assert!(
            (own.standard_error / wanted - 1.0).abs() < 0.08,
            "{} {wanted}",
            own.standard_error
        );
        assert_eq!(own.units, 40);
    }
    // Each group counts once: x with a half, y and z with a quarter each.
    let wanted = (0.25 * errors[0].powi(2) + 0.0625 * (errors[1].powi(2) + errors[2].powi(2))).sqrt();
    let total = encoder.total.as_ref().unwrap();
    let own = total.intervals.items.as_ref().unwrap();
    assert!(
        (own.standard_error / wanted - 1.0).abs() < 0.08,
        "{} {wanted}",
        own.standard_error
    );
    assert!(own.low < total.delta && total.delta < own.high);
}

#[test]
fn other_data_sets_are_counted_by_group() {
    let (made, _, _) = with_intervals();
    let total = made.encoders[0].total.as_ref().unwrap();
    let own = total.intervals.datasets.as_ref().unwrap();
    assert_eq!(own.units, 2);
    assert!((f64::midpoint(own.low, own.high) - total.delta).abs() < 1e-9);
    assert_eq!((made.n_datasets, made.n_groups), (3, 2));
    // A data set contains items only; data sets are not drawn.
    assert!(
        made.encoders[0].datasets[0]
            .total
            .as_ref()
            .unwrap()
            .intervals
            .datasets
            .is_none()
    );
}

#[test]
fn the_same_run_has_the_same_intervals() {
    assert_eq!(with_intervals().0, with_intervals().0);
}

#[test]
fn changed_items_have_a_difference_of_their_own() {
    let (made, _, units) = with_intervals();
    let one = &made.encoders[0].datasets[0].transformations[0];
    let found = one.delta_changed.unwrap();
    assert_eq!((found.items, found.of), (40, 80));
    let mask: Vec<bool> = (0..40).map(|i| i % 2 == 0).collect();
    let wanted = (0..2).map(|s| subset::delta(&units[0].original, &units[0].transformed[0][s], &mask).unwrap());
    assert!((found.delta.unwrap() - wanted.sum::<f64>() / 2.0).abs() < 1e-12);
    assert!(made.encoders[0].transformations[0].delta_changed.is_none());
}

#[test]
fn evidence_that_is_missing_or_of_other_scores_makes_no_interval_and_says_so() {
    let (mut grid, items, units) = run();
    grid.original[0][1] += 1.0;
    let mut made = profile(&grid, None);
    add_intervals(&mut made, &grid, &items, |_, d| Ok(units[d].clone()));
    let encoder = &made.encoders[0];
    assert!(encoder.datasets[1].total.as_ref().unwrap().intervals.is_empty());
    assert!(encoder.datasets[0].total.as_ref().unwrap().intervals.items.is_some());
    let total = encoder.total.as_ref().unwrap();
    assert!(total.intervals.items.is_none() && total.intervals.datasets.is_some());
    let said = &made.scopes[0]
        .not_computed
        .iter()
        .find(|one| one.what == "Intervals over items")
        .unwrap()
        .why;
    assert!(said.contains("e on y"), "{said}");
}
