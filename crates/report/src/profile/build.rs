//! Computes the profile from the grid of scores.

use super::{
    Axis, AxisScore, Baseline, Comparison, DatasetProfile, EncoderProfile, Grid, Moved, RobustnessProfile,
    TransformationScore, TransformationShift, adjust, scope::scopes, shift,
};
use crate::{evidence::interval::DeltaIntervals, stats};

const UNIT: &str = "main score x 100";
const AGGREGATION: &str = "mean over seeds, then over the transformations of an axis, then over axes with equal weight, \
                           then over the datasets of a group (its languages), then over groups (HTEB); the original is not a part of the \
                           total";

/// Builds the profile. `baseline` is the index of the encoder that the others are compared with.
pub fn profile(grid: &Grid, baseline: Option<usize>) -> RobustnessProfile {
    let scopes = scopes(grid);
    let groups = grid.by_group();
    RobustnessProfile {
        unit: UNIT.to_owned(),
        aggregation: AGGREGATION.to_owned(),
        n_datasets: grid.datasets.len(),
        n_groups: groups.datasets.len(),
        seeds: grid.seeds.clone(),
        axes: grid.axes(),
        encoders: encoders(grid),
        // The first scope is all data sets.
        shifts: scopes.first().map(|all| all.shifts.clone()).unwrap_or_default(),
        scopes,
        baseline: baseline
            .filter(|_| grid.encoders.len() > 1)
            .map(|b| compare(&groups, b)),
    }
}

pub fn encoders(grid: &Grid) -> Vec<EncoderProfile> {
    let groups = grid.by_group();
    (0..grid.encoders.len()).map(|e| encoder(&groups, grid, e)).collect()
}

/// One number per seed, from which means and standard deviations are computed.
pub(super) type PerSeed = Vec<f64>;

/// Mean of several per-seed series, seed by seed.
fn average(series: &[PerSeed]) -> PerSeed {
    let seeds = series.first().map_or(0, Vec::len);
    (0..seeds).map(|s| mean(series.iter().map(|one| one[s]))).collect()
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    stats::mean(&values).unwrap_or(f64::NAN)
}

fn moved(per_seed: &PerSeed, original: f64, same_texts: bool) -> Moved {
    // The mean of equal scores is exactly that score, without deviation; a sum would leave a
    // rounding error.
    let first = per_seed.first().copied().unwrap_or(f64::NAN);
    let equal = per_seed.iter().all(|score| *score == first);
    let average = if equal { first } else { mean(per_seed.iter().copied()) };
    let sd = match per_seed.len() {
        0 | 1 => None,
        _ if equal => Some(0.0),
        _ => stats::sample_sd(per_seed),
    };
    let sd_note = match sd {
        None => Some("one seed: no standard deviation".to_owned()),
        Some(_) if same_texts => Some(
            "every seed gave the same texts (greedy decoding): the deviation is 0 because nothing varied".to_owned(),
        ),
        Some(_) => None,
    };
    Moved {
        mean: average,
        sd,
        delta: average - original,
        sd_note,
        intervals: DeltaIntervals::default(),
    }
}

/// Per-seed score of an axis on one dataset.
pub fn axis_series(grid: &Grid, e: usize, d: usize, axis: Axis) -> PerSeed {
    let series: Vec<PerSeed> = grid
        .columns_of(axis)
        .into_iter()
        .map(|c| grid.transformed[e][d][c].clone())
        .collect();
    average(&series)
}

/// Per-seed total on one dataset; `None` if no axis counts.
pub fn total_series(grid: &Grid, e: usize, d: usize) -> Option<PerSeed> {
    let axes: Vec<PerSeed> = grid
        .axes()
        .into_iter()
        .filter(|axis| axis.in_total())
        .map(|axis| axis_series(grid, e, d, axis))
        .collect();
    (!axes.is_empty()).then(|| average(&axes))
}

fn labels(grid: &Grid, axis: Axis) -> Vec<String> {
    grid.columns_of(axis)
        .into_iter()
        .map(|c| grid.columns[c].label.clone())
        .collect()
}

fn dataset(grid: &Grid, e: usize, d: usize) -> DatasetProfile {
    let original = grid.original[e][d];
    let same = |columns: &[usize]| columns.iter().all(|c| grid.same_texts[d][*c]);
    let axes = grid.axes().into_iter().map(|axis| AxisScore {
        axis,
        transformations: labels(grid, axis),
        moved: moved(&axis_series(grid, e, d, axis), original, same(&grid.columns_of(axis))),
    });
    let counted: Vec<usize> = (0..grid.columns.len())
        .filter(|c| grid.columns[*c].axis.in_total())
        .collect();
    DatasetProfile {
        dataset: grid.datasets[d].clone(),
        original,
        original_interval: None,
        total: total_series(grid, e, d).map(|series| moved(&series, original, same(&counted))),
        axes: axes.collect(),
        transformations: (0..grid.columns.len())
            .map(|c| TransformationScore {
                transformation: grid.columns[c].label.clone(),
                axis: grid.columns[c].axis,
                moved: moved(&grid.transformed[e][d][c], original, grid.same_texts[d][c]),
                shift: None,
                delta_changed: None,
            })
            .collect(),
    }
}

/// `grid` contains the groups, `apart` the separate datasets.
fn encoder(grid: &Grid, apart: &Grid, e: usize) -> EncoderProfile {
    let all: Vec<usize> = (0..grid.datasets.len()).collect();
    let original = mean(grid.original[e].iter().copied());
    let over_datasets =
        |series: &dyn Fn(usize) -> PerSeed| average(&all.iter().map(|d| series(*d)).collect::<Vec<_>>());
    let same = |columns: &[usize]| all.iter().all(|d| columns.iter().all(|c| grid.same_texts[*d][*c]));
    let axes = grid.axes().into_iter().map(|axis| AxisScore {
        axis,
        transformations: labels(grid, axis),
        moved: moved(
            &over_datasets(&|d| axis_series(grid, e, d, axis)),
            original,
            same(&grid.columns_of(axis)),
        ),
    });
    let mut transformations: Vec<TransformationScore> = (0..grid.columns.len())
        .map(|c| TransformationScore {
            transformation: grid.columns[c].label.clone(),
            axis: grid.columns[c].axis,
            moved: moved(
                &over_datasets(&|d| grid.transformed[e][d][c].clone()),
                original,
                same(&[c]),
            ),
            shift: shift(&deltas(grid, &[e], c)),
            delta_changed: None,
        })
        .collect();
    adjust(transformations.iter_mut().filter_map(|t| t.shift.as_mut()));
    let counted: Vec<usize> = (0..grid.columns.len())
        .filter(|c| grid.columns[*c].axis.in_total())
        .collect();
    let total = (!counted.is_empty()).then(|| {
        moved(
            &over_datasets(&|d| total_series(grid, e, d).unwrap_or_default()),
            original,
            same(&counted),
        )
    });
    EncoderProfile {
        encoder: grid.encoders[e].clone(),
        original,
        total,
        axes: axes.collect(),
        transformations,
        datasets: (0..apart.datasets.len()).map(|d| dataset(apart, e, d)).collect(),
        doses: Vec::new(),
    }
}

/// One delta per dataset: transformed minus original, averaged over seeds first, then over
/// encoders.
pub(super) fn deltas(grid: &Grid, encoders: &[usize], column: usize) -> Vec<f64> {
    (0..grid.datasets.len())
        .map(|d| {
            mean(
                encoders
                    .iter()
                    .map(|e| mean(grid.transformed[*e][d][column].iter().copied()) - grid.original[*e][d]),
            )
        })
        .collect()
}

pub(super) fn shifts(grid: &Grid) -> Vec<TransformationShift> {
    let encoders: Vec<usize> = (0..grid.encoders.len()).collect();
    let mut shifts: Vec<TransformationShift> = (0..grid.columns.len())
        .filter_map(|c| {
            Some(TransformationShift {
                transformation: grid.columns[c].label.clone(),
                axis: grid.columns[c].axis,
                shift: shift(&deltas(grid, &encoders, c))?,
            })
        })
        .collect();
    adjust(shifts.iter_mut().map(|one| &mut one.shift));
    shifts
}

/// Every other encoder against the baseline, quantity by quantity.
fn compare(grid: &Grid, baseline: usize) -> Baseline {
    let mut comparisons = Vec::new();
    let counts = grid.columns.iter().any(|column| column.axis.in_total());
    let mut quantities: Vec<(String, Box<dyn Fn(usize, usize) -> f64 + '_>)> =
        vec![("original".to_owned(), Box::new(|e, d| grid.original[e][d]))];
    if counts {
        quantities.push((
            "total".to_owned(),
            Box::new(|e, d| mean(total_series(grid, e, d).unwrap_or_default().into_iter())),
        ));
    }
    for axis in grid.axes() {
        quantities.push((
            axis.name().to_owned(),
            Box::new(move |e, d| mean(axis_series(grid, e, d, axis).into_iter())),
        ));
    }
    for (quantity, value) in &quantities {
        let mut family: Vec<Comparison> = (0..grid.encoders.len())
            .filter(|e| *e != baseline)
            .filter_map(|e| {
                let differences: Vec<f64> = (0..grid.datasets.len())
                    .map(|d| value(e, d) - value(baseline, d))
                    .collect();
                let shift = shift(&differences)?;
                Some(Comparison {
                    encoder: grid.encoders[e].clone(),
                    quantity: quantity.clone(),
                    shift,
                })
            })
            .collect();
        adjust(family.iter_mut().map(|one| &mut one.shift));
        comparisons.append(&mut family);
    }
    Baseline {
        encoder: grid.encoders[baseline].clone(),
        comparisons,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two datasets, three seeds, two lexical transformations, one on length and a control. The
    /// expected values below are computed by hand.
    fn grid() -> Grid {
        let columns = [
            ("paraphrase", Axis::Lexical),
            ("style_change", Axis::Lexical),
            ("summarisation", Axis::Length),
            ("random_keywords", Axis::Augmentation),
        ];
        let mut grid = Grid::of(&["a", "b"], &["x", "y"], &columns, &[1337, 1338, 1339]);
        grid.original = vec![vec![80.0, 60.0], vec![82.0, 58.0]];
        let first = vec![
            vec![78.0, 79.0, 80.0],
            vec![76.0, 75.0, 74.0],
            vec![70.0, 72.0, 71.0],
            vec![10.0; 3],
        ];
        let second = vec![
            vec![58.0, 57.0, 56.0],
            vec![60.0, 60.0, 60.0],
            vec![50.0, 53.0, 53.0],
            vec![10.0; 3],
        ];
        grid.transformed = vec![vec![first.clone(), second.clone()], vec![first, second]];
        grid.same_texts[1][1] = true;
        grid
    }

    #[test]
    fn means_go_over_seeds_then_transformations_then_axes_then_datasets() {
        let profile = profile(&grid(), None);
        let encoder = &profile.encoders[0];
        assert_eq!(encoder.original, 70.0);
        // dataset x: lexical (79 + 75) / 2 = 77, length 71, total 74; dataset y: lexical 58.5,
        // length 52, total 55.25
        assert_eq!(encoder.datasets[0].axes[0].moved.mean, 77.0);
        assert_eq!(encoder.datasets[0].total.as_ref().unwrap().mean, 74.0);
        assert_eq!(encoder.datasets[1].total.as_ref().unwrap().mean, 55.25);
        assert_eq!(encoder.axes[0].moved.mean, 67.75);
        let total = encoder.total.as_ref().unwrap();
        assert_eq!((total.mean, total.delta), (64.625, -5.375));
        assert_eq!(profile.axes, [Axis::Lexical, Axis::Length, Axis::Augmentation]);
    }

    #[test]
    fn deviations_are_sample_deviations_over_seeds_of_the_number_beside_them() {
        let encoder = &profile(&grid(), None).encoders[0];
        // paraphrase on x: 78, 79, 80
        assert_eq!(encoder.datasets[0].transformations[0].moved.sd, Some(1.0));
        // summarisation over datasets, seed by seed: 60, 62.5, 62 → mean 61.5, deviations −1.5, 1,
        // 0.5 → √(3.5 / 2)
        let sd = encoder.transformations[2].moved.sd.unwrap();
        assert!((sd - 1.75f64.sqrt()).abs() < 1e-12, "{sd}");
        // lexical over datasets, seed by seed: 68, 67.75, 67.5 → 0.25
        assert!((encoder.axes[0].moved.sd.unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn a_deviation_of_zero_from_identical_texts_says_so() {
        let encoder = &profile(&grid(), None).encoders[0];
        let same = &encoder.datasets[1].transformations[1].moved;
        assert_eq!(same.sd, Some(0.0));
        assert!(same.sd_note.as_ref().unwrap().contains("same texts"));
        assert!(encoder.datasets[1].transformations[0].moved.sd_note.is_none());
    }

    #[test]
    fn shifts_pair_over_datasets_with_seeds_averaged_first() {
        let profile = profile(&grid(), None);
        // encoder a, summarisation: x 71 − 80 = −9, y 52 − 60 = −8; Walsh −9, −8.5, −8
        let own = profile.encoders[0].transformations[2].shift.as_ref().unwrap();
        assert_eq!((own.n, own.hodges_lehmann), (2, -8.5));
        // over both encoders: x (−9 − 11) / 2 = −10, y (−8 − 6) / 2 = −7
        let pooled = &profile.shifts[2].shift;
        assert_eq!((pooled.hodges_lehmann, pooled.mean_difference), (-8.5, -8.5));
        assert_eq!(pooled.median_absolute_difference, 8.5);
    }

    #[test]
    fn one_seed_has_no_deviation_and_says_so() {
        let mut grid = grid();
        grid.seeds = vec![1337];
        for cell in grid.transformed.iter_mut().flatten().flatten() {
            cell.truncate(1);
        }
        let encoder = &profile(&grid, None).encoders[0];
        assert_eq!(encoder.transformations[0].moved.sd, None);
        assert!(
            encoder.transformations[0]
                .moved
                .sd_note
                .as_ref()
                .unwrap()
                .contains("one seed")
        );
    }

    #[test]
    fn the_baseline_is_compared_on_original_total_and_axes() {
        let profile = profile(&grid(), Some(0));
        let baseline = profile.baseline.unwrap();
        assert_eq!(baseline.encoder, "a");
        let quantities: Vec<&str> = baseline.comparisons.iter().map(|c| c.quantity.as_str()).collect();
        assert_eq!(quantities, ["original", "total", "lexical", "length", "augmentation"]);
        // b − a on the originals: +2, −2
        assert_eq!(baseline.comparisons[0].shift.hodges_lehmann, 0.0);
    }

    #[test]
    fn only_controls_make_no_total() {
        let mut grid = Grid::of(&["a"], &["x"], &[("random_keywords", Axis::Augmentation)], &[1]);
        grid.original[0][0] = 50.0;
        grid.transformed[0][0][0][0] = 40.0;
        assert!(profile(&grid, None).encoders[0].total.is_none());
    }
}
