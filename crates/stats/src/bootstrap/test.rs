//! The paired bootstrap test.

use rayon::prelude::*;

use crate::{
    Alternative, StatsError,
    describe::mean,
    error::sample,
    random::{below, stream},
    stop::draws,
};

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedBootstrapTest {
    /// Mean difference.
    pub mean: f64,
    /// The p-value, at least 1 / (resamples + 1).
    pub p_value: f64,
    /// Number of resamples behind the result.
    pub resamples: usize,
}

/// Tests whether the mean of paired differences is zero. Differences minus their mean are
/// resampled. The p-value is the fraction of resamples whose mean is at least as extreme as the
/// observed one, with both counts raised by one. Two-sided: at least as far from zero in either
/// direction.
///
/// Source: Efron and Tibshirani (1993), section 16.4, for the centring; A. C. Davison and D. V.
/// Hinkley, "Bootstrap Methods and their Application" (1997), equation 4.11, for the counts.
///
/// # Errors
/// If there are fewer than two differences, some are not finite, or there are no resamples.
pub fn paired_bootstrap_test(
    differences: &[f64],
    alternative: Alternative,
    resamples: usize,
    seed: u64,
) -> Result<PairedBootstrapTest, StatsError> {
    sample("differences", differences, "the paired bootstrap test", 2)?;
    if resamples == 0 {
        return Err(StatsError::TooFew {
            what: "the paired bootstrap test (resamples)",
            needed: 1,
            found: 0,
        });
    }
    let n = differences.len();
    let observed = mean(differences).unwrap_or(0.0);
    let centred: Vec<f64> = differences.iter().map(|d| d - observed).collect();
    // A resample that equals the observation up to rounding counts as equally extreme.
    let slack = 1e-12 * observed.abs();
    let extreme: usize = draws(resamples)
        .map(|index| {
            let mut rng = stream(seed, index);
            let total: f64 = (0..n).map(|_| centred[below(&mut rng, n)]).sum();
            let found = total / n as f64;
            usize::from(match alternative {
                Alternative::TwoSided => found.abs() >= observed.abs() - slack,
                Alternative::Greater => found >= observed - slack,
                Alternative::Less => found <= observed + slack,
            })
        })
        .sum();
    Ok(PairedBootstrapTest {
        mean: observed,
        p_value: (extreme + 1) as f64 / (resamples + 1) as f64,
        resamples,
    })
}
