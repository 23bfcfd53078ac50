//! The loss for two classes over rows, with its gradient.

use rayon::prelude::*;

use super::lbfgs::Objective;
use crate::{
    linalg::{add_f32, dot, dot_f32},
    vectors::Vectors,
};

/// Rows per task.
const ROWS: usize = 256;
const TASKS: usize = 16;

/// Mean binomial loss plus half `penalty` times the squared weights (the intercept is not
/// penalised), as in scikit-learn's `LinearModelLoss` over `HalfBinomialLoss`. Parameters: one
/// weight per dimension, then the intercept.
pub(super) struct Binary<'a> {
    vectors: Vectors<'a>,
    /// The rows of `vectors` that are used, in order.
    positions: &'a [usize],
    /// 0 or 1 for every row.
    classes_of: &'a [usize],
    penalty: f64,
}

impl<'a> Binary<'a> {
    pub(super) fn new(vectors: Vectors<'a>, positions: &'a [usize], classes_of: &'a [usize], penalty: f64) -> Self {
        Self {
            vectors,
            positions,
            classes_of,
            penalty,
        }
    }
}

impl Objective for Binary<'_> {
    fn turn(&mut self, _direction: &[f64]) {}

    fn go_back(&mut self) {}

    fn evaluate(&mut self, x: &[f64], _step: f64, gradient: &mut [f64]) -> f64 {
        let cols = self.vectors.cols();
        let (weights, intercept) = (&x[..cols], x[cols]);
        let rows = self.positions.len();
        let count = TASKS.min(rows.div_ceil(ROWS));
        let parts: Vec<(f64, Vec<f64>)> = (0..count)
            .into_par_iter()
            .map(|t| {
                let mut sums = vec![0.0; cols + 1];
                let mut loss = 0.0;
                for row in t * rows / count..(t + 1) * rows / count {
                    let values = self.vectors.row(self.positions[row]);
                    let score = dot_f32(values, weights) + intercept;
                    let (row_loss, slope) = loss_and_slope(self.classes_of[row] as f64, score);
                    loss += row_loss;
                    add_f32(slope, values, &mut sums);
                    sums[cols] += slope;
                }
                (loss, sums)
            })
            .collect();
        let share = 1.0 / rows as f64;
        gradient.fill(0.0);
        let mut loss = 0.0;
        for (part, sums) in &parts {
            loss += part;
            for (g, s) in gradient.iter_mut().zip(sums) {
                *g += s;
            }
        }
        for (g, w) in gradient.iter_mut().zip(weights) {
            *g = *g * share + self.penalty * w;
        }
        gradient[cols] *= share;
        loss * share + 0.5 * self.penalty * dot(weights, weights)
    }
}

/// A row's loss and its derivative with respect to the score, without overflow or cancellation.
fn loss_and_slope(class: f64, score: f64) -> (f64, f64) {
    if score <= -37.0 {
        let e = score.exp();
        (e - class * score, e - class)
    } else if score <= -2.0 {
        let e = score.exp();
        (e.ln_1p() - class * score, ((1.0 - class) * e - class) / (1.0 + e))
    } else {
        let e = (-score).exp();
        let tail = if score <= 18.0 { e.ln_1p() } else { e };
        (tail + (1.0 - class) * score, ((1.0 - class) - class * e) / (1.0 + e))
    }
}

#[cfg(test)]
mod tests {
    use super::loss_and_slope;

    #[test]
    fn the_slope_is_the_probability_less_the_class_everywhere() {
        for i in -500..=500 {
            let score = f64::from(i) / 10.0;
            for class in [0.0, 1.0] {
                let (loss, slope) = loss_and_slope(class, score);
                let p = 1.0 / (1.0 + (-score).exp());
                assert!((slope - (p - class)).abs() < 1e-15, "{score}");
                let expected = if class == 1.0 { -score } else { score };
                let reference = expected.max(0.0) + (-expected.abs()).exp().ln_1p();
                // Above 18 the second-order term of the tail is omitted; it is below 1e-8 of the
                // tail.
                assert!(
                    (loss - reference).abs() <= 1e-8 * reference,
                    "{score} {loss} {reference}"
                );
            }
        }
    }
}
