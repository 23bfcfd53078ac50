//! Scores of multilabel predictions.

use ndarray::{ArrayView1, ArrayView2};

use super::Confusion;

/// mteb's scores of a multilabel classification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MultilabelScores {
    /// Fraction of rows whose labels are all correct.
    pub accuracy: f64,
    /// Label ranking average precision of the predicted labels.
    pub lrap: f64,
    /// F1, the mean over labels.
    pub f1: f64,
    /// Correct labels divided by labels true or predicted, the mean over rows.
    pub hamming: f64,
}

impl MultilabelScores {
    /// Scores predicted labels. A row of either matrix marks the labels of the row; both have the
    /// same shape.
    pub fn new(truth: ArrayView2<'_, bool>, predicted: ArrayView2<'_, bool>) -> Self {
        let (rows, labels) = truth.dim();
        let mean = |of: fn(ArrayView1<'_, bool>, ArrayView1<'_, bool>) -> f64| {
            let both = truth.rows().into_iter().zip(predicted.rows());
            both.map(|(t, p)| of(t, p)).sum::<f64>() / rows as f64
        };
        let f1 = (0..labels)
            .map(|label| {
                // Class 0 is "has the label".
                let column = |m: ArrayView2<'_, bool>| m.column(label).mapv(|has| usize::from(!has)).to_vec();
                Confusion::new(&column(truth), &column(predicted), 2).f1_of(0)
            })
            .sum::<f64>()
            / labels as f64;
        Self {
            accuracy: mean(|t, p| f64::from(t == p)),
            lrap: mean(ranking_precision),
            f1,
            hamming: mean(overlap),
        }
    }

    /// The mean of each score.
    pub fn mean(scores: &[Self]) -> Self {
        let of = |get: fn(&Self) -> f64| scores.iter().map(get).sum::<f64>() / scores.len() as f64;
        Self {
            accuracy: of(|s| s.accuracy),
            lrap: of(|s| s.lrap),
            f1: of(|s| s.f1),
            hamming: of(|s| s.hamming),
        }
    }

    /// The scores by mteb's keys.
    pub fn named(&self) -> [(&'static str, f64); 4] {
        [
            ("accuracy", self.accuracy),
            ("lrap", self.lrap),
            ("f1", self.f1),
            ("hamming", self.hamming),
        ]
    }
}

/// A row's `label_ranking_average_precision_score` for scores of 0 and 1: equal scores share the
/// worst rank.
fn ranking_precision(truth: ArrayView1<'_, bool>, predicted: ArrayView1<'_, bool>) -> f64 {
    let relevant = truth.iter().filter(|t| **t).count();
    if relevant == 0 || relevant == truth.len() {
        return 1.0;
    }
    let chosen = predicted.iter().filter(|p| **p).count();
    let hits = truth.iter().zip(predicted).filter(|(t, p)| **t && **p).count();
    let misses = relevant - hits;
    let mut sum = misses as f64 * (relevant as f64 / truth.len() as f64);
    if hits > 0 {
        sum += hits as f64 * (hits as f64 / chosen as f64);
    }
    sum / relevant as f64
}

/// Correct labels divided by labels true or predicted; 1 if there are none.
fn overlap(truth: ArrayView1<'_, bool>, predicted: ArrayView1<'_, bool>) -> f64 {
    let both = truth.iter().zip(predicted).filter(|(t, p)| **t && **p).count();
    let any = truth.iter().zip(predicted).filter(|(t, p)| **t || **p).count();
    if any == 0 { 1.0 } else { both as f64 / any as f64 }
}
