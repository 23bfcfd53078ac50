//! Correlations, their tests and intervals. An undefined correlation (of a constant series) is an
//! error, because a silent 0 or NaN would end up in a report.

mod kendall;

pub use kendall::{KendallMethod, KendallTest, kendall_tau_b, kendall_test};

use crate::{
    Alternative, StatsError, average_ranks,
    bootstrap::{Bootstrap, PairsInterval, pairs_interval},
    describe::{mean, pairwise_sum},
    error::{level as check_level, paired},
    special::{normal_quantile, student_sf},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correlation {
    /// Pearson's r.
    Pearson,
    /// Spearman's rho.
    Spearman,
    KendallTauB,
}

impl Correlation {
    /// The coefficient, in [-1, 1].
    ///
    /// # Errors
    /// If lengths are unequal, there are fewer than two pairs, a value is not finite, or a series
    /// is constant.
    pub fn of(self, x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
        match self {
            Self::Pearson => pearson(x, y),
            Self::Spearman => spearman(x, y),
            Self::KendallTauB => kendall_tau_b(x, y),
        }
    }

    /// Bootstrap interval over pairs.
    ///
    /// # Errors
    /// Those of [`Correlation::of`] and [`pairs_interval`].
    pub fn bootstrap(self, x: &[f64], y: &[f64], settings: &Bootstrap) -> Result<PairsInterval, StatsError> {
        self.of(x, y)?;
        pairs_interval(x, y, |x, y| self.of(x, y).ok(), settings)
    }
}

/// Pearson's r, in [-1, 1] (scipy `pearsonr`).
///
/// # Errors
/// If lengths are unequal, there are fewer than two pairs, a value is not finite, or a series is
/// constant.
pub fn pearson(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y, "a correlation", 2)?;
    let (x, y) = (unit_deviations(x)?, unit_deviations(y)?);
    let products: Vec<f64> = x.iter().zip(&y).map(|(a, b)| a * b).collect();
    Ok(pairwise_sum(&products).clamp(-1.0, 1.0))
}

/// Deviations from the mean, scaled to unit length.
fn unit_deviations(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    // The values are compared with each other rather than with the mean, because the mean of equal
    // values may differ from them in the last bit.
    if values.windows(2).all(|w| w[0] == w[1]) {
        return Err(StatsError::Constant);
    }
    let centre = mean(values).ok_or(StatsError::Constant)?;
    let deviations: Vec<f64> = values.iter().map(|v| v - centre).collect();
    // Scaled by the largest value first, so that squares neither overflow nor underflow.
    let largest = deviations.iter().fold(0.0_f64, |m, d| m.max(d.abs()));
    if largest == 0.0 {
        return Err(StatsError::Constant);
    }
    let squares: Vec<f64> = deviations.iter().map(|d| (d / largest) * (d / largest)).collect();
    let norm = largest * pairwise_sum(&squares).sqrt();
    Ok(deviations.iter().map(|d| d / norm).collect())
}

/// Spearman's rho: Pearson's r of average ranks (scipy `spearmanr`).
///
/// # Errors
/// Those of [`pearson`].
pub fn spearman(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y, "a correlation", 2)?;
    pearson(&average_ranks(x), &average_ranks(y))
}

/// Two-sided p-value of a correlation `r` of `n` pairs under Student's t with n − 2 degrees of
/// freedom: scipy's `spearmanr(...).pvalue`. It also equals `pearsonr(...).pvalue`, because that t
/// is equivalent to the exact beta distribution. NaN for fewer than two pairs, as in scipy; 1 for
/// two.
pub fn correlation_p_value(r: f64, n: usize) -> f64 {
    correlation_p_value_for(r, n, Alternative::TwoSided)
}

/// Like [`correlation_p_value`], for any alternative.
pub fn correlation_p_value_for(r: f64, n: usize, alternative: Alternative) -> f64 {
    if n < 2 {
        return f64::NAN;
    }
    if n == 2 {
        return 1.0;
    }
    let freedom = (n - 2) as f64;
    let above = if r.abs() >= 1.0 {
        if r > 0.0 { 0.0 } else { 1.0 }
    } else {
        student_sf(r * (freedom / ((1.0 - r) * (1.0 + r))).sqrt(), freedom)
    };
    // The lower tail is the upper tail of −r; subtracting from 1 would lose digits.
    let below = if above > 0.5 && r.abs() < 1.0 {
        student_sf(-r * (freedom / ((1.0 - r) * (1.0 + r))).sqrt(), freedom)
    } else {
        1.0 - above
    };
    alternative.p_value(below, above)
}

/// Interval of Pearson's r by Fisher's transformation, standard error 1/√(n − 3) (scipy
/// `pearsonr(...).confidence_interval()`).
///
/// # Errors
/// Those of [`pearson`]; also if there are fewer than four pairs or the level is outside (0, 1).
pub fn pearson_interval(x: &[f64], y: &[f64], level: f64) -> Result<(f64, f64), StatsError> {
    let r = pearson(x, y)?;
    fisher_interval(r, x.len(), 1.0, level)
}

/// Interval of Spearman's rho by Fisher's transformation, standard error √((1 + rho²/2) / (n − 3)).
///
/// Source: D. G. Bonett and T. A. Wright, "Sample size requirements for estimating Pearson, Kendall
/// and Spearman correlations" (2000).
///
/// # Errors
/// Those of [`pearson_interval`].
pub fn spearman_interval(x: &[f64], y: &[f64], level: f64) -> Result<(f64, f64), StatsError> {
    let rho = spearman(x, y)?;
    fisher_interval(rho, x.len(), 1.0 + rho * rho / 2.0, level)
}

fn fisher_interval(r: f64, n: usize, spread: f64, level: f64) -> Result<(f64, f64), StatsError> {
    check_level(level)?;
    if n < 4 {
        return Err(StatsError::TooFew {
            what: "an interval of a correlation",
            needed: 4,
            found: n,
        });
    }
    let half = -normal_quantile((1.0 - level) / 2.0) * (spread / (n - 3) as f64).sqrt();
    Ok(((r.atanh() - half).tanh(), (r.atanh() + half).tanh()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_constant_series_has_no_correlation() {
        for f in [pearson, spearman, kendall_tau_b] {
            assert_eq!(f(&[0.1; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), Err(StatsError::Constant));
            assert_eq!(
                f(&[1.0], &[2.0]),
                Err(StatsError::TooFew {
                    what: "a correlation",
                    needed: 2,
                    found: 1
                })
            );
            assert_eq!(
                f(&[1.0, 3.0], &[2.0, f64::NAN]),
                Err(StatsError::NotFinite {
                    argument: "y",
                    index: 1
                })
            );
            assert!(matches!(f(&[1.0], &[2.0, 3.0]), Err(StatsError::LengthMismatch { .. })));
        }
    }

    #[test]
    fn a_monotone_map_changes_no_rank_correlation() {
        let x = [0.3, 1.2, -4.0, 2.2, 2.2];
        let y: Vec<f64> = x.iter().map(|v: &f64| v.exp()).collect();
        assert_eq!(spearman(&x, &y).unwrap(), 1.0);
        assert!(pearson(&x, &y).unwrap() < 1.0);
        assert!((kendall_tau_b(&x, &y).unwrap() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_perfect_correlation_has_an_interval_at_its_end() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(spearman_interval(&x, &x, 0.95).unwrap(), (1.0, 1.0));
        assert!(spearman_interval(&x[..3], &x[..3], 0.95).is_err());
    }
}
