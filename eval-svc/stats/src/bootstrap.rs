//! Percentile bootstrap intervals.
//!
//! Resample `i` draws from its own ChaCha8 stream `i` of the seed: resamples run in parallel and the result does not
//! depend on how many threads there are.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};
use rayon::prelude::*;

use crate::{
    StatsError,
    describe::{mean, quantile},
    error::finite,
    hodges_lehmann,
};

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level, e.g. 0.95.
    pub level: f64,
    /// Resamples it rests on.
    pub resamples: usize,
}

/// Percentile bootstrap interval of any statistic of a sample: the (1 ± level)/2 quantiles, linearly interpolated, of
/// the statistic over `resamples` samples drawn with replacement. The statistic must be defined (finite) on every
/// non-empty sample.
///
/// # Errors
/// No values, values that are not finite, no resamples, a level outside (0, 1).
pub fn bootstrap_interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64> + Sync,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Result<Interval, StatsError> {
    finite(values)?;
    if values.is_empty() {
        return Err(StatsError::TooFew {
            what: "a bootstrap interval",
            needed: 1,
            found: 0,
        });
    }
    if resamples == 0 {
        return Err(StatsError::TooFew {
            what: "a bootstrap interval (resamples)",
            needed: 1,
            found: 0,
        });
    }
    if !(level > 0.0 && level < 1.0) {
        return Err(StatsError::Level { level });
    }
    let mut estimates: Vec<f64> = (0..resamples)
        .into_par_iter()
        .map_init(
            || vec![0.0; values.len()],
            |sample, stream| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(stream as u64);
                for slot in sample.iter_mut() {
                    *slot = values[below(&mut rng, values.len())];
                }
                statistic(sample)
            },
        )
        .flatten()
        .collect();
    estimates.sort_by(f64::total_cmp);
    let undefined = || StatsError::TooFew {
        what: "a bootstrap interval (defined resamples)",
        needed: 1,
        found: 0,
    };
    Ok(Interval {
        low: quantile(&estimates, (1.0 - level) / 2.0).ok_or_else(undefined)?,
        high: quantile(&estimates, (1.0 + level) / 2.0).ok_or_else(undefined)?,
        level,
        resamples,
    })
}

/// A uniform index below `n`, by Lemire's multiplication. Written out so that results outlive changes in `rand`; the
/// bias is below n / 2^64.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// Interval of the Hodges–Lehmann shift; `None` where [`bootstrap_interval`] errs.
pub fn hodges_lehmann_bootstrap(values: &[f64], resamples: usize, level: f64, seed: u64) -> Option<Interval> {
    bootstrap_interval(values, hodges_lehmann, resamples, level, seed).ok()
}

/// Interval of the mean; `None` where [`bootstrap_interval`] errs.
pub fn mean_bootstrap(values: &[f64], resamples: usize, level: f64, seed: u64) -> Option<Interval> {
    bootstrap_interval(values, mean, resamples, level, seed).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sample_sd;

    fn sample() -> Vec<f64> {
        (0..200).map(|i| f64::from((i * 7919) % 211) / 211.0).collect()
    }

    #[test]
    fn the_thread_count_does_not_change_the_interval() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| hodges_lehmann_bootstrap(&sample(), 400, 0.95, 1337).unwrap())
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn another_seed_gives_another_interval() {
        assert_ne!(
            mean_bootstrap(&sample(), 200, 0.95, 1),
            mean_bootstrap(&sample(), 200, 0.95, 2)
        );
    }

    #[test]
    fn the_interval_of_a_mean_agrees_with_normal_theory() {
        let x = sample();
        let interval = mean_bootstrap(&x, 4000, 0.95, 1337).unwrap();
        let half = 1.959_964 * sample_sd(&x).unwrap() / (x.len() as f64).sqrt();
        let centre = mean(&x).unwrap();
        assert!((interval.low - (centre - half)).abs() < 0.1 * half, "{interval:?}");
        assert!((interval.high - (centre + half)).abs() < 0.1 * half, "{interval:?}");
    }

    #[test]
    fn a_constant_sample_has_an_interval_of_no_width() {
        let interval = hodges_lehmann_bootstrap(&[0.25; 7], 100, 0.9, 5).unwrap();
        assert_eq!((interval.low, interval.high), (0.25, 0.25));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(bootstrap_interval(&[], mean, 10, 0.95, 0).is_err());
        assert!(bootstrap_interval(&[1.0], mean, 0, 0.95, 0).is_err());
        assert!(bootstrap_interval(&[1.0], mean, 10, 1.0, 0).is_err());
        assert!(bootstrap_interval(&[f64::NAN], mean, 10, 0.95, 0).is_err());
    }
}
