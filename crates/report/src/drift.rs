//! Distance by which texts moved under an encoder, over data sets: as 1 − cosine, and in units of
//! the encoder's own parallel gap.

use std::collections::BTreeMap;

use super::{DriftRow, Report};
use crate::{profile::NotComputed, stats::mean};

/// Drift in parallel gaps, over the data sets with a known gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GapDrift {
    /// Mean over these data sets.
    pub(super) mean: f64,
    /// Number of these data sets.
    pub(super) datasets: usize,
    /// Data sets with a drift.
    pub(super) of: usize,
}

impl Report {
    fn drift_rows<'a>(
        &'a self,
        encoder: &'a str,
        transformation: Option<&'a str>,
    ) -> impl Iterator<Item = &'a DriftRow> {
        self.drift
            .iter()
            .filter(move |row| row.encoder == encoder && transformation.is_none_or(|label| row.transformation == label))
    }

    /// Mean drift of a transformation under an encoder: mean over its datasets.
    pub fn drift_of(&self, encoder: &str, transformation: &str) -> Option<f64> {
        let rows = self.drift_rows(encoder, Some(transformation));
        mean(&rows.filter_map(|row| row.mean).collect::<Vec<f64>>())
    }

    /// The same in parallel gaps, over the datasets with a known gap.
    pub(super) fn drift_in_gaps(&self, encoder: &str, transformation: &str) -> Option<GapDrift> {
        let rows = || self.drift_rows(encoder, Some(transformation));
        let found: Vec<f64> = rows().filter_map(|row| row.in_gaps).collect();
        Some(GapDrift {
            mean: mean(&found)?,
            datasets: found.len(),
            of: rows().filter(|row| row.mean.is_some()).count(),
        })
    }

    /// Parallel gap of an encoder: mean over the datasets where it is known.
    pub fn parallel_gap_of(&self, encoder: &str) -> Option<f64> {
        let of_datasets: BTreeMap<&str, f64> = self
            .drift_rows(encoder, None)
            .filter_map(|row| Some((row.dataset.as_str(), row.parallel_gap?)))
            .collect();
        mean(&of_datasets.into_values().collect::<Vec<f64>>())
    }
}

/// Drifts that cannot be given in parallel gaps, with one entry for each reason.
pub(super) fn not_computed(report: &Report) -> Vec<NotComputed> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in &report.drift {
        if let Some(why) = &row.gap_note {
            let places = reasons.entry(why).or_default();
            let place = format!("{} on {}", row.encoder, row.dataset);
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    let omission = |(why, places): (&str, Vec<String>)| {
        let all = report.encoders.len() * report.datasets.len();
        let what = match (places.as_slice(), places.len()) {
            (_, n) if n == all => "Drift in parallel gaps".to_owned(),
            ([one], _) => format!("Drift in parallel gaps, {one}"),
            ([first, ..], n) => format!("Drift in parallel gaps, {first} and {} more", n - 1),
            ([], _) => String::new(),
        };
        NotComputed {
            what,
            why: why.to_owned(),
        }
    };
    reasons.into_iter().map(omission).collect()
}
