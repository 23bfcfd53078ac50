//! Correlations. Undefined ones (a constant series) are errors: a silent 0 or NaN would end up in somebody's report.

use statrs::function::beta::beta_reg;

use crate::{
    StatsError, average_ranks,
    describe::{mean, pairwise_sum},
    error::paired,
};

/// Pearson's r, in [-1, 1] (scipy `pearsonr`).
///
/// # Errors
/// Unequal lengths, fewer than two pairs, a value that is not finite, a constant series.
pub fn pearson(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y, "a correlation", 2)?;
    let (x, y) = (unit_deviations(x)?, unit_deviations(y)?);
    let products: Vec<f64> = x.iter().zip(&y).map(|(a, b)| a * b).collect();
    Ok(pairwise_sum(&products).clamp(-1.0, 1.0))
}

/// Deviations from the mean, scaled to unit length.
fn unit_deviations(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    // Compared with each other rather than with the mean: the mean of equal values may differ from them in the last bit.
    if values.windows(2).all(|w| w[0] == w[1]) {
        return Err(StatsError::Constant);
    }
    let centre = mean(values).ok_or(StatsError::Constant)?;
    let deviations: Vec<f64> = values.iter().map(|v| v - centre).collect();
    // Scaled by the largest first, so that squares neither overflow nor vanish.
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
/// As [`pearson`].
pub fn spearman(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y, "a correlation", 2)?;
    pearson(&average_ranks(x), &average_ranks(y))
}

/// Two-sided p-value of a correlation `r` of `n` pairs under Student's t with n − 2 degrees of freedom: scipy's
/// `spearmanr(...).pvalue`, and, by the identity of that t with the exact beta law, `pearsonr(...).pvalue`. NaN of fewer
/// than two pairs, as there; 1 of two.
pub fn correlation_p_value(r: f64, n: usize) -> f64 {
    match n {
        0 | 1 => f64::NAN,
        2 => 1.0,
        _ if r.abs() >= 1.0 => 0.0,
        _ => {
            let freedom = (n - 2) as f64;
            let t_squared = freedom * r * r / ((1.0 - r) * (1.0 + r));
            // P(|T| > t) is the regularised incomplete beta function at freedom / (freedom + t²).
            beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t_squared))
        }
    }
}

/// Kendall's tau-b (scipy `kendalltau`): concordant less discordant pairs, over the geometric mean of the pairs untied
/// in each series. O(n²).
///
/// # Errors
/// As [`pearson`].
pub fn kendall_tau_b(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    paired(x, y, "a correlation", 2)?;
    let (mut balance, mut untied_x, mut untied_y) = (0_i64, 0_u64, 0_u64);
    for i in 1..x.len() {
        for j in 0..i {
            let (dx, dy) = (sign(x[i] - x[j]), sign(y[i] - y[j]));
            balance += dx * dy;
            untied_x += dx.unsigned_abs();
            untied_y += dy.unsigned_abs();
        }
    }
    if untied_x == 0 || untied_y == 0 {
        return Err(StatsError::Constant);
    }
    Ok((balance as f64 / (untied_x as f64).sqrt() / (untied_y as f64).sqrt()).clamp(-1.0, 1.0))
}

fn sign(d: f64) -> i64 {
    i64::from(d > 0.0) - i64::from(d < 0.0)
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
                f(&[1.0, f64::NAN], &[2.0, 1.0]),
                Err(StatsError::NotFinite { index: 1 })
            );
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
}
