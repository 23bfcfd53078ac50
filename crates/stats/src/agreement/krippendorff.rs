//! Krippendorff's alpha.
//!
//! Source: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), sections C to E.

use super::Ratings;
use crate::StatsError;

/// The squared distance of two ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metric {
    /// 0 for equal ratings, 1 otherwise.
    Nominal,
    /// The number of ratings between the two, counting half of those at either end.
    #[default]
    Ordinal,
    /// (x − y)².
    Interval,
    /// ((x − y) / (x + y))².
    Ratio,
    /// |x − y|: the counterpart of linear weights.
    Linear,
}

/// Krippendorff's alpha: 1 minus the ratio of observed to expected disagreement; 1 if all raters
/// agree.
///
/// # Errors
/// If all ratings of items with several ratings are equal, because the expected disagreement is
/// then zero.
pub fn krippendorff_alpha(ratings: &Ratings, metric: Metric) -> Result<f64, StatsError> {
    let q = ratings.categories().len();
    // Items with one rating allow no comparison.
    let rows: Vec<Vec<f64>> = ratings
        .rows()
        .into_iter()
        .filter(|row| row.iter().sum::<f64>() >= 2.0)
        .collect();
    let mut coincidences = vec![vec![0.0; q]; q];
    for row in &rows {
        let total: f64 = row.iter().sum();
        for k in 0..q {
            for l in 0..q {
                let pairs = row[k] * (row[l] - if k == l { 1.0 } else { 0.0 });
                coincidences[k][l] += pairs / (total - 1.0);
            }
        }
    }
    let margin: Vec<f64> = coincidences.iter().map(|row| row.iter().sum()).collect();
    let total: f64 = margin.iter().sum();
    let apart = distances(metric, ratings.categories(), &margin);
    let (mut observed, mut expected) = (0.0, 0.0);
    for k in 0..q {
        for l in 0..q {
            observed += coincidences[k][l] * apart[k][l];
            expected += margin[k] * margin[l] * apart[k][l];
        }
    }
    if expected == 0.0 {
        return Err(StatsError::Undefined {
            what: "Krippendorff's alpha",
            why: "all ratings are equal, so that no disagreement is expected",
        });
    }
    Ok(1.0 - (total - 1.0) * observed / expected)
}

fn distances(metric: Metric, categories: &[f64], margin: &[f64]) -> Vec<Vec<f64>> {
    let q = categories.len();
    let distance = |k: usize, l: usize| {
        let (x, y) = (categories[k], categories[l]);
        match metric {
            _ if k == l => 0.0,
            Metric::Nominal => 1.0,
            Metric::Ordinal => {
                let (from, to) = (k.min(l), k.max(l));
                let between: f64 = margin[from..=to].iter().sum();
                (between - (margin[k] + margin[l]) / 2.0).powi(2)
            }
            Metric::Interval => (x - y) * (x - y),
            Metric::Ratio if x + y == 0.0 => 0.0,
            Metric::Ratio => ((x - y) / (x + y)).powi(2),
            Metric::Linear => (x - y).abs(),
        }
    };
    (0..q).map(|k| (0..q).map(|l| distance(k, l)).collect()).collect()
}
