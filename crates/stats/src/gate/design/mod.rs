//! The decisions to expect of a rule on items before anything is measured, and the division of a
//! number of items among data sets.
//!
//! The values of a pilot stand for those to come. To reach a hypothetical mean their shares are
//! tilted exponentially: of all distributions on the same values with that mean, this one has the
//! least relative entropy to the pilot. The estimate is taken as normal around the mean. The
//! distance of the bound from the estimate is taken as that of a typical sample: equally spaced
//! quantiles of the tilted distribution. Tests compare the result with simulated gates.
//!
//! Source of the allocation: J. Neyman, "On the two different aspects of the representative method"
//! (Journal of the Royal Statistical Society 97, 1934).

use super::{
    Limit, Side,
    bounded::Range,
    items::{Evidence, Stratum, bounds},
};
use crate::{
    StatsError,
    describe::population_sd,
    error::finite,
    special::{normal_cdf, normal_sf},
};

/// Steps of the search for a tilt: each halves the interval.
const HALVINGS: usize = 100;

/// A data set that will be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetDesign {
    /// Its share of the mean. Shares are divided by their sum.
    pub weight: f64,
    /// Number of independent items.
    pub items: usize,
    pub values: Pilot,
}

/// Values of earlier measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum Pilot {
    /// Values of items whose mean is the figure.
    Items {
        /// The values, of which at least two differ.
        values: Vec<f64>,
        /// The range of an item's value.
        range: Range,
    },
    /// A figure that is not a mean of items.
    Figure {
        /// Its standard error, times the root of the number of items.
        spread: f64,
    },
}

/// Probabilities of the verdicts of a rule. The rest is undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chances {
    /// Probability of a pass.
    pub pass: f64,
    /// Probability of a fail.
    pub fail: f64,
}

impl Pilot {
    /// Standard deviation of an item's value, or that of a figure as if it were a mean of items.
    pub fn spread(&self) -> f64 {
        match self {
            Self::Items { values, .. } => population_sd(values).unwrap_or_default(),
            Self::Figure { spread } => *spread,
        }
    }

    /// A typical sample of this many items where the mean is `truth`, and its standard error.
    fn typical(&self, items: usize, truth: f64) -> Result<(Evidence, f64), StatsError> {
        let root = (items as f64).sqrt();
        match self {
            Self::Figure { spread } => Ok((
                Evidence::Measured {
                    estimate: truth,
                    standard_error: spread / root,
                    freedom: items.saturating_sub(1).max(1) as f64,
                },
                spread / root,
            )),
            Self::Items { values, range } => {
                let shares = tilted(values, truth)?;
                let mean: f64 = shares.iter().map(|(value, share)| value * share).sum();
                let variance: f64 = shares.iter().map(|(value, share)| share * (value - mean).powi(2)).sum();
                let mut at = shares.iter();
                let (mut value, mut reached) = (f64::NAN, 0.0);
                let quantiles = (0..items).map(|i| {
                    while reached <= (i as f64 + 0.5) / items as f64 {
                        let Some((next, share)) = at.next() else { break };
                        (value, reached) = (*next, reached + share);
                    }
                    value
                });
                let sample = Stratum::of_items(&quantiles.collect::<Vec<f64>>(), *range);
                Ok((sample.evidence, variance.sqrt() / root))
            }
        }
    }
}

/// The values in ascending order, with shares whose mean is `truth`.
fn tilted(values: &[f64], truth: f64) -> Result<Vec<(f64, f64)>, StatsError> {
    finite("pilot", values)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else {
        return Err(StatsError::TooFew {
            what: "a pilot (values)",
            needed: 2,
            found: 0,
        });
    };
    if !(low < truth && truth < high) {
        return Err(StatsError::OutOfRange {
            argument: "truth",
            value: truth,
            allowed: "between the smallest and the largest value of the pilot",
        });
    }
    let shares = |tilt: f64| {
        let top = if tilt > 0.0 { high } else { low };
        let weights: Vec<f64> = sorted.iter().map(|value| (tilt * (value - top)).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let share = move |weight: f64| weight / sum;
        sorted
            .iter()
            .copied()
            .zip(weights.into_iter().map(share))
            .collect::<Vec<_>>()
    };
    let mean = |tilt: f64| shares(tilt).iter().map(|(value, share)| value * share).sum::<f64>();
    let reach = 700.0 / (high - low);
    let (mut below, mut above) = (-reach, reach);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (below + above);
        if mean(middle) < truth {
            below = middle;
        } else {
            above = middle;
        }
    }
    Ok(shares(0.5 * (below + above)))
}

/// Probabilities of the verdicts of a rule if the mean of every data set is `truth`, with a
/// probability of error of at most `alpha` on each side.
///
/// # Errors
/// If there are no data sets, one has no items, or a pilot has no values on both sides of `truth`;
/// as [`super::items::decide_items`].
pub fn chances(limit: Limit, alpha: f64, dataset: &[DatasetDesign], truth: f64) -> Result<Chances, StatsError> {
    let weights: f64 = dataset.iter().map(|one| one.weight).sum();
    let mut variance = 0.0;
    let mut strata = Vec::with_capacity(dataset.len());
    for one in dataset {
        let (evidence, error) = one.values.typical(one.items, truth)?;
        variance += (one.weight / weights * error).powi(2);
        strata.push(Stratum {
            weight: one.weight,
            evidence,
        });
    }
    let (estimate, low, high) = bounds(&strata, alpha, alpha)?;
    let error = variance.sqrt();
    let (above, below) = (high - estimate, estimate - low);
    let under = |end: f64| normal_cdf((end - truth) / error);
    let over = |end: f64| normal_sf((end - truth) / error);
    // The estimate beyond which the rule fails, and that within which it passes. A fail takes
    // precedence.
    Ok(match limit.side {
        Side::AtMost => {
            let fail = limit.fail_at + below;
            Chances {
                pass: under(fail.min(limit.value - above)),
                fail: over(fail),
            }
        }
        Side::AtLeast => {
            let fail = limit.fail_at - above;
            Chances {
                pass: over(fail.max(limit.value + below)),
                fail: under(fail),
            }
        }
    })
}

/// A data set that gets a part of the items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Its share of the mean, times the spread of its items' values.
    pub spread: f64,
    /// Number of items that it gets at least, if there are so many.
    pub least: usize,
    /// Number of items that there are.
    pub most: usize,
}

/// Divides a number of items among data sets so that the variance of the mean is as small as
/// possible: in proportion to the spread, within the bounds of each. If the bounds do not permit
/// the total, the nearest one that they permit is divided. A spread of 0 counts as a thousandth of
/// the smallest of the others, so that such a data set gets what the others cannot take.
pub fn allocate(total: usize, shares: &[Share]) -> Vec<usize> {
    let known = |spread: f64| spread.is_finite() && spread > 0.0;
    let smallest = shares
        .iter()
        .map(|share| share.spread)
        .filter(|spread| known(*spread))
        .reduce(f64::min);
    let least = smallest.unwrap_or(1.0) / 1_000.0;
    let bounded = |scale: f64| -> Vec<f64> {
        let one = |share: &Share| {
            let most = share.most as f64;
            let spread = if known(share.spread) { share.spread } else { least };
            (scale * spread).clamp((share.least as f64).min(most), most)
        };
        shares.iter().map(one).collect()
    };
    let whole: f64 = shares.iter().map(|share| share.most as f64).sum();
    let (mut below, mut above) = (0.0, whole / least);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (below + above);
        if bounded(middle).iter().sum::<f64>() < total as f64 {
            below = middle;
        } else {
            above = middle;
        }
    }
    let exact = bounded(above);
    let mut items: Vec<usize> = exact.iter().map(|items| items.floor() as usize).collect();
    // The largest remainders are rounded up.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = total.saturating_sub(items.iter().sum());
    for d in order.into_iter().filter(|d| exact[*d].fract() > 0.0).take(missing) {
        items[d] += 1;
    }
    items
}

#[cfg(test)]
mod tests;
