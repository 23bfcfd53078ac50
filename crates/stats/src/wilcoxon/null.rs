//! The null distribution of W+.

use crate::stop::caller_left;

/// Probability of each value of W+ if every sign is a fair coin toss. Average ranks are multiples
/// of one half: with ties, values are counted in half ranks.
pub(super) struct Null {
    probabilities: Vec<f64>,
    /// Number of entries per rank.
    scale: f64,
}

impl Null {
    /// The distribution for these ranks.
    pub(super) fn new(ranks: &[f64]) -> Self {
        let scale = if ranks.iter().all(|r| r.fract() == 0.0) {
            1.0
        } else {
            2.0
        };
        let places: Vec<usize> = ranks.iter().map(|r| (scale * r).round() as usize).collect();
        let mut probabilities = vec![0.0; places.iter().sum::<usize>() + 1];
        probabilities[0] = 1.0;
        let mut top = 0;
        for r in places {
            if caller_left() {
                break;
            }
            for sum in (0..=top).rev() {
                let half = probabilities[sum] / 2.0;
                probabilities[sum] = half;
                probabilities[sum + r] += half;
            }
            top += r;
        }
        Self { probabilities, scale }
    }

    /// (P(W+ ≤ at_most), P(W+ ≥ at_least)), each summed from its own extreme end so that small
    /// tails keep their digits.
    pub(super) fn tails(&self, at_most: f64, at_least: f64) -> (f64, f64) {
        let last = self.probabilities.len() - 1;
        let less: f64 = if at_most < 0.0 {
            0.0
        } else {
            let upper = ((self.scale * at_most).round() as usize).min(last);
            self.probabilities[..=upper].iter().sum()
        };
        let lower = (self.scale * at_least).max(0.0).round() as usize;
        let greater: f64 = self
            .probabilities
            .get(lower..)
            .map_or(0.0, |end| end.iter().rev().sum());
        (less.min(1.0), greater.min(1.0))
    }
}

/// The largest c with P(W+ ≤ c) ≤ `tail` for n untied differences, and that probability; `None` if
/// even P(W+ = 0) = 2^−n exceeds it.
pub(crate) fn signed_rank_quantile(n: usize, tail: f64) -> Option<(u64, f64)> {
    let ranks: Vec<f64> = (1..=n).map(|r| r as f64).collect();
    let mut found = None;
    let mut below = 0.0;
    for (c, probability) in Null::new(&ranks).probabilities.iter().enumerate() {
        below += probability;
        if below > tail {
            break;
        }
        found = Some((c as u64, below));
    }
    found
}
