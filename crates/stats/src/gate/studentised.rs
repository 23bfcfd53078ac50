//! Bounds of a mean by the studentised bootstrap (bootstrap-t).
//!
//! Each resample gives (m* − m) / (s* / √n); quantiles of these replace Student's. If all values of
//! a resample are equal, its quotient is infinite. So a sample whose mean depends on one or two
//! units gets a bound on that side only if more than a share 1 − alpha of the resamples contain
//! them. It is exact to second order under skew, unlike Student's t and percentiles.
//!
//! Source: B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), section 12.5;
//! P. Hall, "Theoretical comparison of bootstrap confidence intervals" (Annals of Statistics 16,
//! 1988).

use crate::{
    StatsError,
    describe::{mean, sample_sd},
    error::{probability, sample},
    random::{below, stream},
};

/// Number of resamples of a rule.
pub const RESAMPLES: usize = 9_999;
/// Seed of a rule.
pub const SEED: u64 = 1337;

/// Lower and upper one-sided bounds of the mean, each at 1 − alpha. A side for which the sample
/// permits no bound is infinite. If all values are equal, both sides are infinite, because equal
/// values say nothing about the variance.
///
/// # Errors
/// If there are fewer than two values, values are not finite, `alpha` is outside (0, 1), or there
/// are too few resamples for an alpha-quantile.
pub fn studentised_interval(values: &[f64], alpha: f64, resamples: usize, seed: u64) -> Result<(f64, f64), StatsError> {
    probability("alpha", alpha)?;
    sample("values", values, "a studentised bootstrap interval", 2)?;
    // The k-th smallest of B quotients, k = (B + 1) alpha, has a probability of alpha below it.
    let rank = ((resamples + 1) as f64 * alpha + 1e-9).floor() as usize;
    if rank == 0 {
        return Err(StatsError::TooFew {
            what: "a studentised bootstrap interval (resamples)",
            needed: (1.0 / alpha).ceil() as usize,
            found: resamples,
        });
    }
    let n = values.len();
    let (Some(centre), Some(spread)) = (mean(values), sample_sd(values)) else {
        return Ok((f64::NEG_INFINITY, f64::INFINITY));
    };
    if spread <= 1e-12 * centre.abs() {
        return Ok((f64::NEG_INFINITY, f64::INFINITY));
    }
    let centred: Vec<f64> = values.iter().map(|v| v - centre).collect();
    let root = (n as f64).sqrt();
    let mut quotients: Vec<f64> = (0..resamples)
        .map(|index| {
            let mut rng = stream(seed, index);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let v = centred[below(&mut rng, n)];
                sum += v;
                squares += v * v;
            }
            let mean = sum / n as f64;
            let variance = (squares - sum * mean) / (n - 1) as f64;
            if variance <= 1e-12 * spread * spread {
                // One value, repeated n times.
                return if mean == 0.0 { 0.0 } else { f64::INFINITY.copysign(mean) };
            }
            mean / variance.sqrt() * root
        })
        .collect();
    quotients.sort_unstable_by(f64::total_cmp);
    let error = spread / root;
    Ok((
        centre - quotients[resamples - rank] * error,
        centre - quotients[rank - 1] * error,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{random::uniform, special::student_quantile};

    fn skewed(n: usize) -> Vec<f64> {
        let mut rng = stream(2, 0);
        (0..n).map(|_| -uniform(&mut rng).ln()).collect()
    }

    #[test]
    fn a_large_normal_like_sample_gets_student_s_bounds() {
        let values: Vec<f64> = (0..400).map(|i| f64::from((i * 7919) % 401)).collect();
        let (low, high) = studentised_interval(&values, 0.05, RESAMPLES, SEED).unwrap();
        let half = student_quantile(0.95, 399.0) * sample_sd(&values).unwrap() / 20.0;
        let centre = mean(&values).unwrap();
        assert!((low - (centre - half)).abs() < 0.05 * half && (high - (centre + half)).abs() < 0.05 * half);
    }

    #[test]
    fn a_long_right_tail_moves_the_upper_bound_further_out() {
        let values = skewed(30);
        let (low, high) = studentised_interval(&values, 0.05, RESAMPLES, SEED).unwrap();
        let centre = mean(&values).unwrap();
        assert!(high - centre > 1.2 * (centre - low), "{low} {centre} {high}");
    }

    #[test]
    fn order_does_not_matter_beyond_the_draw_and_units_may_change() {
        let values = skewed(20);
        let (low, high) = studentised_interval(&values, 0.05, RESAMPLES, SEED).unwrap();
        let mut turned = values.clone();
        turned.reverse();
        let again = studentised_interval(&turned, 0.05, RESAMPLES, SEED).unwrap();
        assert!((again.0 - low).abs() < 0.05 * (high - low) && (again.1 - high).abs() < 0.15 * (high - low));
        let moved: Vec<f64> = values.iter().map(|v| 4.0 + 3.0 * v).collect();
        let (a, b) = studentised_interval(&moved, 0.05, RESAMPLES, SEED).unwrap();
        assert!((a - (4.0 + 3.0 * low)).abs() < 1e-9 && (b - (4.0 + 3.0 * high)).abs() < 1e-9);
        let wider = studentised_interval(&values, 0.01, RESAMPLES, SEED).unwrap();
        assert!(wider.0 < low && wider.1 > high);
    }

    #[test]
    fn equal_values_and_a_mean_that_rests_on_one_unit_have_no_upper_bound() {
        assert_eq!(
            studentised_interval(&[0.5; 9], 0.05, 999, SEED).unwrap(),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
        let mut one = vec![0.0; 19];
        one.push(30.0);
        assert_eq!(studentised_interval(&one, 0.05, 999, SEED).unwrap().1, f64::INFINITY);
        assert!(studentised_interval(&[1.0, 2.0], 0.05, 9, SEED).is_err());
        assert!(studentised_interval(&[1.0], 0.05, 999, SEED).is_err());
    }
}
