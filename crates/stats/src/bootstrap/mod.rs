//! Bootstrap intervals, percentile and BCa, of any statistic of a sample or of pairs, and the
//! paired bootstrap test.
//!
//! Resample `i` draws from its own ChaCha8 stream `i` of the seed, so resamples run in parallel and
//! the result does not depend on the number of threads. Sources: B. Efron and R. J. Tibshirani, "An
//! Introduction to the Bootstrap" (1993), chapters 13, 14 and 16; scipy 1.17's `bootstrap` for the
//! conventions (linear quantiles; ties with the estimate count half in the bias).

mod resample;
mod test;

use rayon::prelude::*;

use crate::{
    StatsError,
    describe::{mean, median_of_sorted, quantile},
    error::{level as check_level, paired, sample},
    hodges_lehmann,
    special::{normal_cdf, normal_quantile},
    stop::draws,
    walsh,
};

pub use test::{PairedBootstrapTest, paired_bootstrap_test};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// Confidence level, e.g. 0.95.
    pub level: f64,
    /// Resamples drawn.
    pub resamples: usize,
}

/// The method of reading the ends from the resamples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalMethod {
    /// The (1 ± level)/2 quantiles.
    #[default]
    Percentile,
    /// Bias-corrected and accelerated quantiles.
    Bca,
}

/// Settings of a bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Number of samples drawn with replacement.
    pub resamples: usize,
    /// Confidence level, in (0, 1).
    pub level: f64,
    /// Seed of the draws.
    pub seed: u64,
    /// The method of reading the ends.
    pub method: IntervalMethod,
}

/// A statistic of one sample. The named ones are computed faster than a general function of the
/// sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    Median,
    /// Hodges–Lehmann estimate.
    HodgesLehmann,
}

impl Statistic {
    /// The statistic of a sample; `None` if there are no values.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Self::Mean => mean(values),
            Self::Median => crate::median(values),
            Self::HodgesLehmann => hodges_lehmann(values),
        }
    }
}

/// Interval of a named statistic of a sample.
///
/// # Errors
/// If there are no values, values are not finite, there are no resamples, or the level is outside
/// (0, 1). With BCa also if the resamples or leave-one-out values of the sample do not vary; BCa is
/// undefined in that case.
pub fn statistic_interval(values: &[f64], statistic: Statistic, settings: &Bootstrap) -> Result<Interval, StatsError> {
    sample("values", values, "a bootstrap interval", 1)?;
    check(settings)?;
    let estimates = resample::named(values, statistic, settings);
    ends(estimates, settings, || {
        let leave_out: Vec<f64> = draws(values.len())
            .filter_map(|i| statistic.of(&without(values, i)))
            .collect();
        Some((statistic.of(values)?, leave_out))
    })
}

/// Interval of any statistic of a sample. The statistic must be defined on every sample of that
/// size.
///
/// # Errors
/// Those of [`statistic_interval`]; also if the statistic is undefined on a resample.
pub fn sample_interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64> + Sync,
    settings: &Bootstrap,
) -> Result<Interval, StatsError> {
    sample("values", values, "a bootstrap interval", 1)?;
    check(settings)?;
    let estimates = resample::of_sample(values, &statistic, settings);
    ends(defined(estimates, settings.resamples)?, settings, || {
        let leave_out: Option<Vec<f64>> = draws(values.len()).map(|i| statistic(&without(values, i))).collect();
        Some((statistic(values)?, leave_out?))
    })
}

/// Interval of a statistic of pairs, such as a correlation: pairs are drawn, not values. Resamples
/// on which it is undefined (all pairs alike) are left out; [`PairsInterval::undefined`] is their
/// number.
///
/// # Errors
/// Those of [`statistic_interval`]; also if series have different lengths, or fewer than half of
/// the resamples are defined.
pub fn pairs_interval(
    x: &[f64],
    y: &[f64],
    statistic: impl Fn(&[f64], &[f64]) -> Option<f64> + Sync,
    settings: &Bootstrap,
) -> Result<PairsInterval, StatsError> {
    paired(x, y, "a bootstrap interval", 2)?;
    check(settings)?;
    let estimates: Vec<f64> = resample::of_pairs(x, y, &statistic, settings)
        .into_iter()
        .flatten()
        .collect();
    let undefined = settings.resamples - estimates.len();
    if 2 * undefined > settings.resamples {
        return Err(StatsError::Undefined {
            what: "a bootstrap interval",
            why: "more than half of the resamples have no such statistic (too few different pairs)",
        });
    }
    let interval = ends(estimates, settings, || {
        let leave_out: Option<Vec<f64>> = draws(x.len())
            .map(|i| statistic(&without(x, i), &without(y, i)))
            .collect();
        Some((statistic(x, y)?, leave_out?))
    })?;
    Ok(PairsInterval { interval, undefined })
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairsInterval {
    pub interval: Interval,
    /// Resamples left out because the statistic is undefined on them.
    pub undefined: usize,
}

/// Percentile interval of any statistic of a sample: the (1 ± level)/2 quantiles, linearly
/// interpolated, of the statistic over `resamples` samples drawn with replacement. Resamples on
/// which it is undefined are left out.
///
/// # Errors
/// Those of [`sample_interval`]; also if the statistic is defined on no resample.
pub fn bootstrap_interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64> + Sync,
    resamples: usize,
    level: f64,
    seed: u64,
) -> Result<Interval, StatsError> {
    sample("values", values, "a bootstrap interval", 1)?;
    let settings = percentile(resamples, level, seed);
    check(&settings)?;
    let estimates: Vec<f64> = resample::of_sample(values, &statistic, &settings)
        .into_iter()
        .flatten()
        .collect();
    ends(estimates, &settings, || None)
}

/// Interval of the Hodges–Lehmann shift; `None` if [`statistic_interval`] returns an error.
pub fn hodges_lehmann_bootstrap(values: &[f64], resamples: usize, level: f64, seed: u64) -> Option<Interval> {
    statistic_interval(values, Statistic::HodgesLehmann, &percentile(resamples, level, seed)).ok()
}

/// Interval of the mean; `None` if [`statistic_interval`] returns an error.
pub fn mean_bootstrap(values: &[f64], resamples: usize, level: f64, seed: u64) -> Option<Interval> {
    statistic_interval(values, Statistic::Mean, &percentile(resamples, level, seed)).ok()
}

fn percentile(resamples: usize, level: f64, seed: u64) -> Bootstrap {
    Bootstrap {
        resamples,
        level,
        seed,
        method: IntervalMethod::Percentile,
    }
}

fn check(settings: &Bootstrap) -> Result<(), StatsError> {
    if settings.resamples == 0 {
        return Err(StatsError::TooFew {
            what: "a bootstrap interval (resamples)",
            needed: 1,
            found: 0,
        });
    }
    check_level(settings.level)
}

fn without(values: &[f64], i: usize) -> Vec<f64> {
    [&values[..i], &values[i + 1..]].concat()
}

fn defined(estimates: Vec<Option<f64>>, wanted: usize) -> Result<Vec<f64>, StatsError> {
    let found: Vec<f64> = estimates.into_iter().flatten().collect();
    if found.len() < wanted {
        return Err(StatsError::Undefined {
            what: "a bootstrap interval",
            why: "the statistic has no value on some of the resamples",
        });
    }
    Ok(found)
}

/// Reads the ends from the resamples. `original` gives the estimate and the leave-one-out values,
/// for BCa.
fn ends(
    mut estimates: Vec<f64>,
    settings: &Bootstrap,
    original: impl FnOnce() -> Option<(f64, Vec<f64>)>,
) -> Result<Interval, StatsError> {
    estimates.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - settings.level) / 2.0;
    let (from, to) = match settings.method {
        IntervalMethod::Percentile => (tail, (1.0 + settings.level) / 2.0),
        IntervalMethod::Bca => original()
            .and_then(|(estimate, leave_out)| accelerated(&estimates, estimate, &leave_out, tail))
            .ok_or(StatsError::Undefined {
                what: "a BCa interval",
                why: "the resamples lie all on one side of the estimate, or the leave-one-out values are all equal",
            })?,
    };
    let end = |q| {
        quantile(&estimates, q).ok_or(StatsError::TooFew {
            what: "a bootstrap interval (defined resamples)",
            needed: 1,
            found: 0,
        })
    };
    Ok(Interval {
        low: end(from)?,
        high: end(to)?,
        level: settings.level,
        resamples: settings.resamples,
    })
}

/// The two quantiles that BCa uses instead of `tail` and 1 − `tail` (Efron and Tibshirani,
/// equations 14.9 to 14.15).
fn accelerated(estimates: &[f64], estimate: f64, leave_out: &[f64], tail: f64) -> Option<(f64, f64)> {
    let below = estimates.partition_point(|e| *e < estimate);
    let up_to = estimates.partition_point(|e| *e <= estimate);
    let bias = normal_quantile((below + up_to) as f64 / (2.0 * estimates.len() as f64));
    let centre = mean(leave_out)?;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in leave_out {
        let d = centre - value;
        squares += d * d;
        cubes += d * d * d;
    }
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    if !bias.is_finite() || !acceleration.is_finite() {
        return None;
    }
    let shifted = |z: f64| {
        let moved = bias + z;
        normal_cdf(bias + moved / (1.0 - acceleration * moved))
    };
    let z = normal_quantile(tail);
    Some((shifted(z), shifted(-z)))
}

/// The statistic of ascending values.
fn of_sorted(statistic: Statistic, sorted: &[f64], scratch: &mut Vec<f64>) -> Option<f64> {
    match statistic {
        Statistic::Mean => mean(sorted),
        Statistic::Median => median_of_sorted(sorted),
        Statistic::HodgesLehmann => walsh::middle(sorted, scratch),
    }
}

#[cfg(test)]
mod tests;
