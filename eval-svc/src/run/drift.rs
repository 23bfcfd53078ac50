//! Drift, the distance by which texts moved: 1 − cosine between a text and its transformed text,
//! under an encoder.

use std::collections::BTreeSet;

use super::{
    RunError,
    plan::{Plan, Variant},
    prompting::Slot,
    scale::scale,
    separation::Separated,
    transform::{Outcome, Transformed},
    vectors::StoredVectors,
};
use crate::{report::DriftRow, stats};

/// A text and its transformed text, by their numbers in the corpus.
pub(super) type Pair = (u32, u32);

/// Drift of a dataset's texts under one transformation, seed and encoder.
#[derive(Debug, Clone)]
pub(super) struct Drifted {
    /// Position of the encoder.
    pub encoder: usize,
    /// Position of the dataset.
    pub table: usize,
    /// Position of the transformation.
    pub transformation: usize,
    /// Position of the seed.
    pub seed: usize,
    /// One value per pair, in the order of [`pairs_of`]; `None` if a vector has length 0.
    pub drift: Vec<Option<f32>>,
}

/// A dataset's distinct texts that were transformed, in the order of their requests. A text that is
/// replaced by its original has not moved and is omitted. Empty for the originals.
pub(super) fn pairs_of(plan: &Plan, transformed: &Transformed, table: usize, variant: Variant) -> Vec<Pair> {
    let Variant::Transformed { transformation, seed } = variant else {
        return Vec::new();
    };
    let (Some(table), Some(planned)) = (plan.tables.get(table), plan.transformations.get(transformation)) else {
        return Vec::new();
    };
    let requests: BTreeSet<usize> = table.requests.of(planned).iter().flatten().copied().collect();
    requests
        .into_iter()
        .filter_map(|request| {
            let made = transformed.get(transformation, seed, request)?;
            let moved = matches!(made.outcome, Outcome::Ok | Outcome::Recovered);
            moved.then(|| (plan.requests.of(planned)[request].text, made.text))
        })
        .collect()
}

/// Drift of each pair under one prompt; every text must have a vector.
pub(super) fn measure(pairs: &[Pair], slot: Slot, vectors: &StoredVectors<'_>) -> Result<Vec<Option<f32>>, RunError> {
    let one = |(original, made): &Pair| {
        let rows = vectors.row((slot, *original))?.zip(vectors.row((slot, *made))?);
        let distance = rows.and_then(|(a, b)| distance(&a, &b));
        // A text that came back unchanged has a drift of exactly 0, without rounding error.
        Ok(distance.map(|distance| if original == made { 0.0 } else { distance as f32 }))
    };
    pairs.iter().map(one).collect()
}

/// 1 − cosine, 0 to 2, summed in `f64`; `None` for a vector of length 0.
fn distance(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    (length > 0.0).then(|| (1.0 - dot(a, b) / length).clamp(0.0, 2.0))
}

/// One row per encoder, dataset and transformation, over all seeds; `separated` has the scale of
/// the encoder's cosines.
pub(super) fn rows(plan: &Plan, drifted: &[Drifted], separated: &[Separated]) -> Vec<DriftRow> {
    let mut rows = Vec::new();
    let encoders = plan.encoders.iter().enumerate();
    for (e, encoder) in encoders.filter(|(e, _)| plan.search(*e).is_none()) {
        for (d, table) in plan.tables.iter().enumerate() {
            let gap = scale(plan, separated, e, d);
            for (t, planned) in plan.transformations.iter().enumerate() {
                let own: Vec<&Drifted> = drifted
                    .iter()
                    .filter(|one| (one.encoder, one.table, one.transformation) == (e, d, t))
                    .collect();
                let (encoder, dataset) = (encoder.id.as_str(), table.dataset.name());
                let seeds = own.iter().map(|one| one.drift.as_slice());
                rows.push(in_gaps(row(encoder, dataset, &planned.label, seeds.collect()), &gap));
            }
        }
    }
    rows
}

/// The row with its drift in units of the parallel gap, or with the reason why it has none.
fn in_gaps(row: DriftRow, gap: &Result<f64, String>) -> DriftRow {
    let Some(mean) = row.mean else { return row };
    match gap {
        Ok(gap) => DriftRow {
            parallel_gap: Some(*gap),
            in_gaps: Some(mean / gap),
            ..row
        },
        Err(why) => DriftRow {
            gap_note: Some(why.clone()),
            ..row
        },
    }
}

fn row(encoder: &str, dataset: &str, transformation: &str, seeds: Vec<&[Option<f32>]>) -> DriftRow {
    let defined =
        |seed: &&[Option<f32>]| -> Vec<f64> { seed.iter().flatten().map(|drift| f64::from(*drift)).collect() };
    let means: Vec<f64> = seeds.iter().filter_map(|seed| stats::mean(&defined(seed))).collect();
    let mut all: Vec<f64> = seeds.iter().flat_map(defined).collect();
    all.sort_unstable_by(f64::total_cmp);
    DriftRow {
        encoder: encoder.to_owned(),
        dataset: dataset.to_owned(),
        transformation: transformation.to_owned(),
        pairs: all.len() as u64,
        undefined: seeds.iter().map(|seed| seed.len() as u64).sum::<u64>() - all.len() as u64,
        mean: stats::mean(&means),
        sd: stats::sample_sd(&means),
        median: stats::quantile(&all, 0.5),
        ninth_decile: stats::quantile(&all, 0.9),
        parallel_gap: None,
        in_gaps: None,
        gap_note: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn right_angles_are_one_apart_opposites_two_and_scale_does_not_matter() {
        assert_eq!(distance(&[1.0, 0.0], &[0.0, 3.0]), Some(1.0));
        assert_eq!(distance(&[1.0, 0.0], &[-2.0, 0.0]), Some(2.0));
        assert_eq!(distance(&[3.0, 4.0], &[6.0, 8.0]), Some(0.0));
        assert_eq!(distance(&[0.0, 0.0], &[1.0, 0.0]), None);
    }

    #[test]
    fn drift_is_divided_by_the_gap_or_says_why_not() {
        let moved = || row("e", "d", "t", vec![&[Some(0.3), Some(0.1)]]);
        let told = in_gaps(moved(), &Ok(0.8));
        assert_eq!((told.parallel_gap, told.gap_note), (Some(0.8), None));
        assert!((told.in_gaps.unwrap() - 0.25).abs() < 1e-7 && (told.mean.unwrap() - 0.2).abs() < 1e-7);
        let told = in_gaps(moved(), &Err("no gap".to_owned()));
        assert_eq!((told.in_gaps, told.gap_note.as_deref()), (None, Some("no gap")));
        // Without a drift there is nothing to divide, so no reason is given for a missing gap.
        let told = in_gaps(row("e", "d", "t", vec![]), &Err("no gap".to_owned()));
        assert_eq!((told.in_gaps, told.gap_note), (None, None));
    }

    #[test]
    fn a_row_averages_over_pairs_then_over_seeds_and_counts_what_has_no_cosine() {
        let (first, second) = ([Some(0.25), Some(0.75), None], [Some(0.25), Some(0.25), Some(0.25)]);
        let row = row("e", "d", "t", vec![&first, &second]);
        // Means 0.5 and 0.25: mean 0.375, deviations ±0.125, variance 2 x 0.015625 / 1.
        assert_eq!((row.mean, row.pairs, row.undefined), (Some(0.375), 5, 1));
        assert!((row.sd.unwrap() - 0.03125f64.sqrt()).abs() < 1e-12);
        assert_eq!(row.median, Some(0.25));
        // 0.25 four times and 0.75; position 3.6 of 0 to 4.
        assert!((row.ninth_decile.unwrap() - 0.55).abs() < 1e-12);
    }
}
