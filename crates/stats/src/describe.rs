//! Sums, means, spread, quantiles and paired differences.

use crate::{
    StatsError,
    error::{finite, sample},
};

/// Sum in the order of numpy's `add.reduce` on contiguous doubles: eight running sums within blocks
/// of at most 128, blocks halved recursively. This keeps the rounding error at O(log n). It equals
/// numpy to the last bit, which matters if a reference implementation compares sums for equality.
pub fn pairwise_sum(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    const BLOCK: usize = 128;
    let n = values.len();
    if n < LANES {
        // Like numpy, starts from -0.0, so that a sum of negative zeros keeps its sign; adding it
        // changes nothing else.
        return values.iter().fold(-0.0, |sum, v| sum + v);
    }
    if n <= BLOCK {
        let chunks = values.chunks_exact(LANES);
        let rest = chunks.remainder();
        let mut r = [0.0; LANES];
        for chunk in chunks {
            for (lane, v) in r.iter_mut().zip(chunk) {
                *lane += v;
            }
        }
        let lanes = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return rest.iter().fold(lanes, |sum, v| sum + v);
    }
    let half = n / 2;
    let (left, right) = values.split_at(half - half % LANES);
    pairwise_sum(left) + pairwise_sum(right)
}

/// Arithmetic mean; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| pairwise_sum(values) / values.len() as f64)
}

/// Sample standard deviation (divisor n − 1); `None` for fewer than two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    sum_of_squared_deviations(values).map(|ss| (ss / (values.len() - 1) as f64).sqrt())
}

/// Population standard deviation (divisor n, as `numpy.std`); `None` if there are no values.
pub fn population_sd(values: &[f64]) -> Option<f64> {
    sum_of_squared_deviations(values).map(|ss| (ss / values.len() as f64).sqrt())
}

fn sum_of_squared_deviations(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|v| (v - centre) * (v - centre)).collect();
    Some(pairwise_sum(&squares))
}

/// Quantile `q` in [0, 1] by linear interpolation between order statistics (numpy's default).
/// `sorted` must be ascending. `None` if there are no values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let low = position.floor() as usize;
    let high = (low + 1).min(last);
    let fraction = position - low as f64;
    let (a, b) = (*sorted.get(low)?, *sorted.get(high)?);
    // numpy interpolates from the nearer end, so that q = 1 gives the maximum exactly.
    Some(if fraction < 0.5 {
        a + (b - a) * fraction
    } else {
        b - (b - a) * (1.0 - fraction)
    })
}

/// Median; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// Median of ascending values; `None` if there are no values.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    if n % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(n / 2 - 1)? + upper) / 2.0)
}

/// Paired differences, treatment minus reference.
///
/// # Errors
/// If there are no pairs, series have different lengths, or values are not finite.
pub fn differences(treatment: &[f64], reference: &[f64]) -> Result<Vec<f64>, StatsError> {
    if treatment.len() != reference.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "treatment",
            left: treatment.len(),
            right_name: "reference",
            right: reference.len(),
        });
    }
    sample("treatment", treatment, "a paired comparison", 1)?;
    finite("reference", reference)?;
    Ok(treatment.iter().zip(reference).map(|(t, r)| t - r).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sample_sd_divides_by_n_minus_one() {
        assert_eq!(
            sample_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap(),
            (32.0_f64 / 7.0).sqrt()
        );
        assert_eq!(population_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
        assert_eq!(sample_sd(&[1.0]), None);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn quantiles_interpolate_linearly_and_reach_both_ends() {
        let x = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&x, 0.0), Some(1.0));
        assert_eq!(quantile(&x, 1.0), Some(4.0));
        assert!((quantile(&x, 0.975).unwrap() - 3.925).abs() < 1e-12);
    }

    #[test]
    fn pairwise_sum_loses_nothing_that_matters_on_long_series() {
        let values = vec![0.1; 1_000_000];
        assert!((pairwise_sum(&values) - 100_000.0).abs() < 1e-8);
    }
}
