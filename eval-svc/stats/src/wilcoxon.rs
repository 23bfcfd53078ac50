//! Wilcoxon's signed-rank test, as `scipy.stats.wilcoxon` 1.17 computes it with its defaults (`zero_method="wilcox"`,
//! `correction=False`).

use statrs::function::erf::erfc;

use crate::{StatsError, average_ranks, error::finite};

/// Largest sample that the exact distribution is used for.
const EXACT_MAX: usize = 50;
/// Largest sample, zeros included, for which a sample with ties or zeros still gets an exact p-value.
const PERMUTATION_MAX: usize = 13;

/// Which way the differences are expected to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alternative {
    /// Either way.
    #[default]
    TwoSided,
    /// Above zero.
    Greater,
    /// Below zero.
    Less,
}

/// How the p-value is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// As scipy chooses: exact up to 50 differences without ties or zeros; with them, all sign permutations up to 13
    /// differences; the normal approximation otherwise.
    #[default]
    Auto,
    /// The distribution for untied ranks. With ties, conservative: the statistic is rounded against the alternative.
    Exact,
    /// Normal approximation with tie correction, without continuity correction.
    Normal,
}

/// Where a p-value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Exact null distribution of untied ranks.
    Exact,
    /// Exact null distribution given the ties that are there (all sign permutations).
    Permutation,
    /// Normal approximation.
    Normal,
}

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wilcoxon {
    /// min(W+, W−) for a two-sided test, W+ otherwise (scipy's convention).
    pub statistic: f64,
    /// The p-value.
    pub p_value: f64,
    /// Where it came from.
    pub distribution: Distribution,
    /// Differences ranked: those that are not zero.
    pub n: usize,
}

/// The signed-rank test of differences against zero, choosing the method as scipy does.
///
/// # Errors
/// No differences, one that is not finite, or none that differs from zero.
pub fn wilcoxon_signed_rank(differences: &[f64], alternative: Alternative) -> Result<Wilcoxon, StatsError> {
    wilcoxon_signed_rank_with(differences, alternative, Method::Auto)
}

/// The signed-rank test with a chosen method.
///
/// # Errors
/// As [`wilcoxon_signed_rank`]. [`Method::Exact`] has no upper limit on n; its time grows with n³.
pub fn wilcoxon_signed_rank_with(
    differences: &[f64],
    alternative: Alternative,
    method: Method,
) -> Result<Wilcoxon, StatsError> {
    if differences.is_empty() {
        return Err(StatsError::TooFew {
            what: "the signed-rank test",
            needed: 1,
            found: 0,
        });
    }
    finite(differences)?;
    let nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if nonzero.is_empty() {
        return Err(StatsError::AllZero);
    }
    let magnitudes: Vec<f64> = nonzero.iter().map(|d| d.abs()).collect();
    let ranks = average_ranks(&magnitudes);
    let plus: f64 = ranks
        .iter()
        .zip(&nonzero)
        .filter(|(_, d)| **d > 0.0)
        .map(|(r, _)| r)
        .sum();
    let n = nonzero.len() as f64;
    let minus = n * (n + 1.0) / 2.0 - plus;

    let tie_term = tie_term(&magnitudes);
    let clean = tie_term == 0.0 && nonzero.len() == differences.len();
    let distribution = match method {
        Method::Exact => Distribution::Exact,
        Method::Normal => Distribution::Normal,
        Method::Auto if differences.len() > EXACT_MAX => Distribution::Normal,
        Method::Auto if clean => Distribution::Exact,
        Method::Auto if differences.len() <= PERMUTATION_MAX => Distribution::Permutation,
        Method::Auto => Distribution::Normal,
    };
    let (less, greater) = match distribution {
        Distribution::Normal => {
            let mean = n * (n + 1.0) / 4.0;
            let sd = ((n * (n + 1.0) * (2.0 * n + 1.0) - tie_term / 2.0) / 24.0).sqrt();
            let z = (plus - mean) / sd;
            (normal_sf(-z), normal_sf(z))
        }
        Distribution::Permutation => tails(&null_distribution(&ranks), 2.0 * plus, 2.0 * plus),
        Distribution::Exact => {
            let untied: Vec<f64> = (1..=nonzero.len()).map(|r| r as f64).collect();
            tails(&null_distribution(&untied), 2.0 * plus.ceil(), 2.0 * plus.floor())
        }
    };
    Ok(Wilcoxon {
        statistic: if alternative == Alternative::TwoSided {
            plus.min(minus)
        } else {
            plus
        },
        p_value: match alternative {
            Alternative::TwoSided => (2.0 * less.min(greater)).min(1.0),
            Alternative::Greater => greater,
            Alternative::Less => less,
        },
        distribution,
        n: nonzero.len(),
    })
}

/// Σ (t³ − t) over groups of t tied magnitudes.
fn tie_term(magnitudes: &[f64]) -> f64 {
    let mut sorted = magnitudes.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .chunk_by(|a, b| a == b)
        .map(|group| (group.len() as f64).powi(3) - group.len() as f64)
        .sum()
}

/// Probability of each value of 2·W+ when every sign is a fair coin. Ranks are doubled because average ranks come in
/// halves.
fn null_distribution(ranks: &[f64]) -> Vec<f64> {
    let doubled: Vec<usize> = ranks.iter().map(|r| (2.0 * r).round() as usize).collect();
    let mut probabilities = vec![0.0; doubled.iter().sum::<usize>() + 1];
    probabilities[0] = 1.0;
    let mut top = 0;
    for r in doubled {
        for sum in (0..=top).rev() {
            let half = probabilities[sum] / 2.0;
            probabilities[sum] = half;
            probabilities[sum + r] += half;
        }
        top += r;
    }
    probabilities
}

/// (P(2W+ ≤ at_most), P(2W+ ≥ at_least)), each summed from its own thin end so that small tails keep their digits.
fn tails(distribution: &[f64], at_most: f64, at_least: f64) -> (f64, f64) {
    let last = distribution.len() - 1;
    let upper = (at_most.max(0.0) as usize).min(last);
    let lower = (at_least.max(0.0) as usize).min(last);
    let less: f64 = distribution[..=upper].iter().sum();
    let greater: f64 = distribution[lower..].iter().rev().sum();
    (less.min(1.0), greater.min(1.0))
}

/// P(Z ≥ z) of a standard normal variable.
fn normal_sf(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn three_differences_of_one_sign_cannot_be_significant() {
        let w = wilcoxon_signed_rank(&[0.1, 0.2, 0.3], Alternative::TwoSided).unwrap();
        assert_eq!(
            (w.statistic, w.p_value, w.distribution),
            (0.0, 0.25, Distribution::Exact)
        );
        let w = wilcoxon_signed_rank(&[0.1, 0.2, 0.3], Alternative::Greater).unwrap();
        assert_eq!((w.statistic, w.p_value), (6.0, 0.125));
    }

    #[test]
    fn swapping_the_sides_swaps_the_one_sided_p_values() {
        let d = [0.3, -0.1, 0.2, 0.5, -0.05, 0.4];
        let flipped: Vec<f64> = d.iter().map(|v| -v).collect();
        let a = wilcoxon_signed_rank(&d, Alternative::Greater).unwrap();
        let b = wilcoxon_signed_rank(&flipped, Alternative::Less).unwrap();
        assert!((a.p_value - b.p_value).abs() < 1e-15);
    }

    #[test]
    fn only_zeros_is_an_error_not_a_p_value() {
        assert_eq!(
            wilcoxon_signed_rank(&[0.0, 0.0], Alternative::TwoSided),
            Err(StatsError::AllZero)
        );
        assert!(wilcoxon_signed_rank(&[], Alternative::TwoSided).is_err());
    }
}
