//! Bounds of a mean whose values lie in a known range, without further assumptions about their
//! distribution.
//!
//! A score of 0 to 100 points cannot drop by more than its value. This fact alone bounds the mean
//! of the drops from above, without assuming normality or symmetry. Let x₁ … xₙ be independent
//! draws of a distribution that never exceeds `high`. Add one draw at `high` itself, weight the n +
//! 1 values by a uniform (Dirichlet) draw of weights, and take the 1 − alpha quantile of the
//! weighted mean: that is the upper bound. A lower bound mirrors it with a draw at `low`.
//!
//! For binary values (all or nothing) it is Clopper and Pearson's bound. If none of n values shows
//! a drop, it is `high · (1 − alpha^(1/n))`, and no valid bound can be lower: with a probability of
//! alpha, n draws miss a share of 1 − alpha^(1/n) of the distribution. Conversely, [`least_units`]
//! gives the number of units that a limit requires.
//!
//! The validity of the bound for every distribution in the range is proved for one value and
//! conjectured for more. No counterexample is known, and `examples/gate_laws.rs` found none.
//!
//! Sources: N. Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean
//! of a nonnegative variable" (Mathematical Methods of Statistics 14, 2005); E. Learned-Miller and
//! P. S. Thomas, "A new confidence interval for the mean of a bounded random variable" (arXiv
//! 1905.06208); M. Phan, P. S. Thomas and E. Learned-Miller, "Towards practical mean bounds for
//! small samples" (arXiv 2106.03163).

use super::{Limit, Side};
use crate::{
    StatsError,
    error::{probability, sample},
    special::{normal_pdf, normal_sf},
};

/// Up to this many values the tail is exact. Beyond, it is a saddlepoint approximation, within 4 %
/// of the exact value (tests).
const EXACT: usize = 512;
/// Maximum number of units in the search.
const MOST: usize = 1_000_000;

/// The range of values: known, not estimated from the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The smallest possible value.
    pub low: f64,
    /// The largest possible value.
    pub high: f64,
}

impl Range {
    /// The range of the drop from an original score to a score between `least` and `most`.
    pub fn of_drop(original: f64, least: f64, most: f64) -> Self {
        Self {
            low: original - most,
            high: original - least,
        }
    }

    /// The smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    pub(crate) fn check(&self, values: &[f64]) -> Result<(), StatsError> {
        let refuse = |argument, value, allowed| {
            Err(StatsError::OutOfRange {
                argument,
                value,
                allowed,
            })
        };
        if !(self.low.is_finite() && self.high.is_finite() && self.low < self.high) {
            return refuse("range", self.high - self.low, "two finite numbers, the smaller first");
        }
        // Scores are rounded: a drop to zero may exceed the end in its last bits.
        let slack = 1e-9 * (self.high - self.low);
        match values
            .iter()
            .find(|v| !(**v >= self.low - slack && **v <= self.high + slack))
        {
            Some(value) => refuse("observations", *value, "within the range that was stated for them"),
            None => Ok(()),
        }
    }
}

/// One-sided p-value against "the mean is at least `limit`", for values of at most `high`: the
/// probability that the weighted mean, including the value at `high`, reaches the limit.
///
/// # Errors
/// If there are no values, or some are not finite or above `high`.
pub fn p_at_least(values: &[f64], high: f64, limit: f64) -> Result<f64, StatsError> {
    sample("values", values, "a bounded mean", 1)?;
    let least = values.iter().copied().fold(high, f64::min);
    Range { low: least - 1.0, high }.check(values)?;
    Ok(tail(values, high, limit))
}

/// One-sided p-value against "the mean is at most `limit`", for values of at least `low`.
///
/// # Errors
/// Those of [`p_at_least`].
pub fn p_at_most(values: &[f64], low: f64, limit: f64) -> Result<f64, StatsError> {
    let mirrored: Vec<f64> = values.iter().map(|v| -v).collect();
    p_at_least(&mirrored, -low, -limit)
}

/// Lower and upper one-sided bounds of the mean, each at 1 − alpha.
///
/// # Errors
/// If there are no values, values are outside the range, the range is empty, or `alpha` is outside
/// (0, 1).
pub fn bounded_interval(values: &[f64], range: Range, alpha: f64) -> Result<(f64, f64), StatsError> {
    probability("alpha", alpha)?;
    sample("values", values, "a bounded mean", 1)?;
    range.check(values)?;
    let mirrored: Vec<f64> = values.iter().map(|v| -v).collect();
    Ok((-upper(&mirrored, -range.low, alpha), upper(values, range.high, alpha)))
}

/// The minimum number of units with which a limit can be shown to be kept if all values equal `at`;
/// with fewer, even these could not show it. For a drop of at most m, scores that cannot drop by
/// more than `high`, and values at 0, it is ln alpha / ln(1 − m / high), rounded up. `None` if `at`
/// does not keep the limit, or beyond 1,000,000.
pub fn least_units(limit: Limit, range: Range, at: f64, alpha: f64) -> Option<usize> {
    let (room, whole) = match limit.side {
        Side::AtMost => (limit.value - at, range.high - at),
        Side::AtLeast => (at - limit.value, at - range.low),
    };
    if room <= 0.0 || alpha <= 0.0 || alpha >= 1.0 {
        return None;
    }
    if room >= whole {
        return Some(1);
    }
    // 1 − alpha^(1/n) ≤ room / whole; the slack keeps an exact whole number from being rounded up.
    let n = (alpha.ln() / (-room / whole).ln_1p() - 1e-9).ceil().max(1.0);
    (n <= MOST as f64).then_some(n as usize)
}

/// The minimum number of units at which the limit would lie outside the bounds if the values'
/// distribution stayed the same. `None`: the mean equals the limit, or more than 1,000,000.
pub(crate) fn units_needed(values: &[f64], range: Range, limit: f64, alpha: f64) -> Option<usize> {
    let n = values.len();
    let centre = crate::mean(values)?;
    let (values, top, limit) = if centre < limit {
        (values.to_vec(), range.high, limit)
    } else if centre > limit {
        (values.iter().map(|v| -v).collect(), -range.low, -limit)
    } else {
        return None;
    };
    let moved: Vec<f64> = values.iter().map(|v| v - limit).collect();
    let decided = |units: usize| saddlepoint(&moved, units as f64 / n as f64, top - limit) <= alpha;
    if !decided(MOST) {
        return None;
    }
    let (mut low, mut high) = (n + 1, MOST);
    while low < high {
        let middle = low + (high - low) / 2;
        if decided(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// The smallest mean that is refuted as too high.
fn upper(values: &[f64], high: f64, alpha: f64) -> f64 {
    let mut inside = values.iter().copied().fold(high, f64::min);
    let mut outside = high;
    let width = high - inside;
    for _ in 0..60 {
        if outside - inside <= 1e-9 * width {
            break;
        }
        let middle = 0.5 * (inside + outside);
        if tail(values, high, middle) <= alpha {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    outside
}

/// Probability that the weighted mean of the values and `high` is at least `limit`.
pub(crate) fn tail(values: &[f64], high: f64, limit: f64) -> f64 {
    if limit >= high {
        return 0.0;
    }
    let moved: Vec<f64> = values.iter().map(|v| v.min(high) - limit).collect();
    tail_of(&moved, high - limit)
}

/// Probability that Σ Eᵢ yᵢ + E₀ y₀ ≥ 0, with Eᵢ independent and standard exponential. The weights
/// of a uniform draw are exponentials divided by their sum, which does not change the sign.
pub(crate) fn tail_of(moved: &[f64], top: f64) -> f64 {
    if moved.len() > EXACT {
        return saddlepoint(moved, 1.0, top);
    }
    let mut up: Vec<f64> = moved.iter().copied().filter(|y| *y > 0.0).collect();
    if top > 0.0 {
        up.push(top);
    }
    let down: Vec<f64> = moved.iter().filter(|y| **y < 0.0).map(|y| -y).collect();
    if down.is_empty() {
        return 1.0;
    }
    // Compare the terms one by one: aE exceeds bE' with probability a / (a + b), and the excess is
    // again exponential. chance[j] is the probability that the first i positive terms outweigh the
    // first j negative ones. All terms of the recursion are positive, so nothing cancels.
    let mut chance = vec![0.0; down.len() + 1];
    chance[0] = 1.0;
    for a in up {
        for (j, b) in down.iter().enumerate() {
            chance[j + 1] = (b * chance[j + 1] + a * chance[j]) / (a + b);
        }
    }
    chance[down.len()]
}

/// The same probability by Lugannani and Rice's formula, with each value counted `times` (their
/// pseudo-draw once). Source: R. Lugannani and S. Rice, "Saddle point approximation for the
/// distribution of the sum of independent random variables" (1980).
pub(super) fn saddlepoint(moved: &[f64], times: f64, top: f64) -> f64 {
    let most = moved.iter().copied().fold(top, f64::max);
    let least = moved.iter().copied().fold(f64::INFINITY, f64::min);
    if least >= 0.0 {
        return 1.0;
    }
    if most <= 0.0 {
        return 0.0;
    }
    // K(s) = −Σ ln(1 − s y), convex between the poles; K′ = 0 is the saddlepoint.
    let slopes = |s: f64| {
        let (mut slope, mut curvature) = (0.0, 0.0);
        for y in moved {
            let term = y / (1.0 - s * y);
            slope += term;
            curvature += term * term;
        }
        let own = top / (1.0 - s * top);
        (times * slope + own, times * curvature + own * own)
    };
    let (mut low, mut high) = (1.0 / least, 1.0 / most);
    let mut s = 0.0;
    let mut found = slopes(s);
    for _ in 0..100 {
        if found.0 > 0.0 {
            high = s;
        } else {
            low = s;
        }
        let mut next = s - found.0 / found.1;
        if !(next > low && next < high) {
            next = 0.5 * (low + high);
        }
        if (next - s).abs() <= 1e-13 * (1.0 / most - 1.0 / least) {
            break;
        }
        s = next;
        found = slopes(s);
    }
    let curvature = found.1;
    let cumulant = -times * moved.iter().map(|y| (-s * y).ln_1p()).sum::<f64>() - (-s * top).ln_1p();
    let w = (-2.0 * cumulant).max(0.0).sqrt().copysign(s);
    let u = s * curvature.sqrt();
    if w.abs() < 1e-5 {
        // At the mean the formula is 0/0; there the probability is one half, corrected for
        // skewness.
        let third = times * moved.iter().map(|y| 2.0 * y.powi(3)).sum::<f64>() + 2.0 * top.powi(3);
        return (0.5 - third / (6.0 * curvature.powf(1.5)) * normal_pdf(0.0)).clamp(0.0, 1.0);
    }
    (normal_sf(w) + normal_pdf(w) * (1.0 / u - 1.0 / w)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
