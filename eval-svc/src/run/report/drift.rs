//! Drift in the report, in units of the encoder's parallel gap.

use super::scale::scale;
use crate::{
    report::DriftRow,
    run::{
        plan::{Encoders, Layout},
        score::drift::DriftEntry,
        separate::SeparationEntry,
    },
    stats,
};

/// One row per encoder, dataset and transformation, over all seeds; `separations` has the scale of
/// the encoder's cosines.
pub(crate) fn rows(
    layout: &Layout,
    encoders: &Encoders,
    drifts: &[DriftEntry],
    separations: &[SeparationEntry],
) -> Vec<DriftRow> {
    let mut rows = Vec::new();
    let ids = encoders.ids().enumerate();
    for (e, encoder) in ids.filter(|(e, _)| encoders.search(*e).is_none()) {
        for (d, table) in layout.tables.iter().enumerate() {
            let gap = scale(layout, separations, e, d);
            for (t, planned) in layout.transformations.iter().enumerate() {
                let own: Vec<&DriftEntry> = drifts
                    .iter()
                    .filter(|one| (one.encoder, one.table, one.transformation) == (e, d, t))
                    .collect();
                let dataset = table.dataset.name();
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
    fn drift_is_divided_by_the_gap_or_says_why_not() {
        let moved = || super::row("e", "d", "t", vec![&[Some(0.3), Some(0.1)]]);
        let row = in_gaps(moved(), &Ok(0.8));
        assert_eq!((row.parallel_gap, row.gap_note), (Some(0.8), None));
        assert!((row.in_gaps.unwrap() - 0.25).abs() < 1e-7 && (row.mean.unwrap() - 0.2).abs() < 1e-7);
        let row = in_gaps(moved(), &Err("no gap".to_owned()));
        assert_eq!((row.in_gaps, row.gap_note.as_deref()), (None, Some("no gap")));
        // Without a drift there is nothing to divide, so no reason is given for a missing gap.
        let row = in_gaps(super::row("e", "d", "t", vec![]), &Err("no gap".to_owned()));
        assert_eq!((row.in_gaps, row.gap_note), (None, None));
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
