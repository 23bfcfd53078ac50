//! A rule on the mean over fixed data sets, tested against the items within them: "these data sets,
//! other items".
//!
//! The data sets are fixed; only their items count as drawn. Each data set (stratum) contributes
//! draws of its possible mean. For items whose values have a known range, these are the weighted
//! means of [`super::bounded`]. For a score that is not a mean of items (a rank correlation,
//! average precision), they are a Student's t around its estimate. Draws are averaged over the
//! strata, and their quantiles are the bounds. For a single stratum of items the bound is that of
//! [`super::bounded`].
//!
//! Items that share a text form one cluster, because they drop together. A cluster counts once,
//! with all its items, and the bound is of the mean over items. The condition is that no cluster
//! outside the sample has more items than the largest within.

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{
    Limit, Side, Verdict,
    bounded::{Range, saddlepoint, tail_of},
    note::Note,
    rule::{Decision, Need},
};
use crate::{
    StatsError,
    error::{finite, probability},
    random::{shuffle, stream, uniform},
    special::{normal_cdf, normal_quantile, student_quantile},
};

/// Number of draws for a bound over several strata.
const DRAWS: usize = 20_000;
/// Seed of the draws.
const SEED: u64 = 1337;
/// Strata of up to this many clusters are drawn weight by weight, larger ones from a table of their
/// quantiles.
const WEIGHTS: usize = 64;
/// A table's reach and step, in standard normal quantiles.
const REACH: f64 = 4.5;
const STEP: f64 = 0.25;
/// Maximum number of items that is proposed.
const MOST: f64 = 1e7;

/// Items that share a text, or one item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    pub sum: f64,
    pub items: usize,
}

impl From<f64> for Cluster {
    fn from(value: f64) -> Self {
        Self { sum: value, items: 1 }
    }
}

/// The evidence of one data set.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Values of items (averaged over seeds) whose mean is the data set's figure.
    Items { clusters: Vec<Cluster>, range: Range },
    /// A figure that is not a mean of items, with its standard error from resampling its items.
    Measured {
        /// The figure.
        estimate: f64,
        standard_error: f64,
        /// Number of independent clusters behind it, minus one.
        freedom: f64,
    },
}

/// One data set of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Stratum {
    /// Its share of the mean. Shares are positive, and are divided by their sum.
    pub weight: f64,
    pub evidence: Evidence,
}

impl Stratum {
    /// A stratum of independent items with the weight 1.
    pub fn of_items(values: &[f64], range: Range) -> Self {
        Self {
            weight: 1.0,
            evidence: Evidence::Items {
                clusters: values.iter().copied().map(Cluster::from).collect(),
                range,
            },
        }
    }

    fn clusters(&self) -> usize {
        match &self.evidence {
            Evidence::Items { clusters, .. } => clusters.len(),
            Evidence::Measured { freedom, .. } => *freedom as usize + 1,
        }
    }

    fn estimate(&self) -> f64 {
        match &self.evidence {
            Evidence::Items { clusters, .. } => {
                let items: usize = clusters.iter().map(|cluster| cluster.items).sum();
                clusters.iter().map(|cluster| cluster.sum).sum::<f64>() / items as f64
            }
            Evidence::Measured { estimate, .. } => *estimate,
        }
    }

    fn check(&self) -> Result<(), StatsError> {
        let positive = |argument, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(StatsError::OutOfRange {
                    argument,
                    value,
                    allowed: "a finite number above 0",
                })
            }
        };
        positive("weight", self.weight)?;
        match &self.evidence {
            Evidence::Items { clusters, range } => {
                if clusters.is_empty() || clusters.iter().any(|cluster| cluster.items == 0) {
                    return Err(StatsError::TooFew {
                        what: "a data set (items)",
                        needed: 1,
                        found: 0,
                    });
                }
                let means: Vec<f64> = clusters
                    .iter()
                    .map(|cluster| cluster.sum / cluster.items as f64)
                    .collect();
                finite("items", &means)?;
                range.check(&means)
            }
            Evidence::Measured {
                estimate,
                standard_error,
                freedom,
            } => {
                finite("estimate", &[*estimate, *standard_error])?;
                positive("freedom", *freedom)?;
                if *standard_error < 0.0 {
                    return positive("standard_error", *standard_error);
                }
                Ok(())
            }
        }
    }

    /// The distribution of its possible mean. The upper (`up`) or lower quantiles of its draws are
    /// the bounds.
    fn law(&self, up: bool) -> Law {
        let sign = if up { 1.0 } else { -1.0 };
        match &self.evidence {
            Evidence::Items { clusters, range } => {
                let top = if up { range.high } else { -range.low };
                let own: Vec<Cluster> = clusters
                    .iter()
                    .map(|cluster| Cluster {
                        sum: sign * cluster.sum,
                        items: cluster.items,
                    })
                    .collect();
                if own.len() <= WEIGHTS {
                    let pseudo = own.iter().map(|cluster| cluster.items).max().unwrap_or(1);
                    Law::Weights(own, top, pseudo)
                } else {
                    Law::Table(table_of(&own, top))
                }
            }
            Evidence::Measured {
                estimate,
                standard_error,
                freedom,
            } => Law::Table(
                student_steps(*freedom)
                    .into_iter()
                    .map(|t| sign * estimate + standard_error * t)
                    .collect(),
            ),
        }
    }
}

/// The distribution of a possible mean. Lower bounds use the mirrored values, so that draws are
/// always of the upper side.
enum Law {
    /// Clusters, the added value, and the number of its items.
    Weights(Vec<Cluster>, f64, usize),
    /// Quantiles at [`steps`].
    Table(Vec<f64>),
}

impl Law {
    /// One draw for each of `normals`: standard normal quantiles at equal steps of probability. A
    /// table reads them in random order (a Latin hypercube over the strata).
    fn draws(&self, normals: &[f64], rng: &mut ChaCha8Rng) -> Vec<f64> {
        match self {
            Self::Weights(clusters, top, pseudo) => {
                let mut exponential = || -uniform(rng).ln();
                let draw = |_: &f64| {
                    let weight = exponential() * *pseudo as f64;
                    let (mut sum, mut weights) = (weight * top, weight);
                    for cluster in clusters {
                        let weight = exponential();
                        sum += weight * cluster.sum;
                        weights += weight * cluster.items as f64;
                    }
                    sum / weights
                };
                normals.iter().map(draw).collect()
            }
            Self::Table(quantiles) => {
                let at_normal = |z: &f64| {
                    let at = (z.clamp(-REACH, REACH - 1e-9) + REACH) / STEP;
                    let i = at as usize;
                    quantiles[i] + (at - i as f64) * (quantiles[i + 1] - quantiles[i])
                };
                let mut drawn: Vec<f64> = normals.iter().map(at_normal).collect();
                shuffle(rng, &mut drawn);
                drawn
            }
        }
    }
}

/// Standard normal quantiles at which a table has entries.
fn steps() -> impl Iterator<Item = f64> {
    let last = (2.0 * REACH / STEP) as i32;
    (0..=last).map(|i| f64::from(i) * STEP - REACH)
}

/// Student's quantiles at these steps; the lower half is mirrored.
fn student_steps(freedom: f64) -> Vec<f64> {
    let upper: Vec<f64> = steps()
        .filter(|z| *z > 0.0)
        .map(|z| -student_quantile(normal_cdf(-z), freedom))
        .collect();
    let lower = upper.iter().rev().map(|t| -t);
    lower.chain([0.0]).chain(upper.iter().copied()).collect()
}

/// Quantiles of a large stratum's weighted mean: its tail at a series of limits, inverted.
fn table_of(clusters: &[Cluster], top: f64) -> Vec<f64> {
    let items: f64 = clusters.iter().map(|cluster| cluster.items as f64).sum();
    let pseudo = clusters.iter().map(|cluster| cluster.items).max().unwrap_or(1) as f64;
    let centre = (clusters.iter().map(|cluster| cluster.sum).sum::<f64>() + pseudo * top) / (items + pseudo);
    let square = |sum: f64, size: f64| (sum - size * centre) * (sum - size * centre);
    let squares: f64 =
        clusters.iter().map(|c| square(c.sum, c.items as f64)).sum::<f64>() + square(pseudo * top, pseudo);
    let spread = squares.sqrt() / (items + pseudo);
    if spread == 0.0 {
        return steps().map(|_| centre).collect();
    }
    // The limits run from below to above, in steps of a quarter of the standard deviation; the
    // right tail is longer.
    let known: Vec<(f64, f64)> = (-32_i32..=64)
        .map(|i| centre + 0.25 * f64::from(i) * spread)
        .filter(|limit| *limit < top)
        .map(|limit| {
            let moved: Vec<f64> = clusters.iter().map(|c| c.sum - c.items as f64 * limit).collect();
            let p = saddlepoint(&moved, 1.0, pseudo * (top - limit)).clamp(1e-300, 1.0 - 1e-16);
            (-normal_quantile(p), limit)
        })
        .collect();
    steps()
        .map(|z| {
            let i = known.partition_point(|(own, _)| *own < z);
            match (i.checked_sub(1).and_then(|i| known.get(i)), known.get(i)) {
                (Some((a, low)), Some((b, high))) if b > a => low + (z - a) / (b - a) * (high - low),
                (_, Some((_, limit))) => *limit,
                (Some((_, limit)), None) => *limit,
                (None, None) => centre,
            }
        })
        .collect()
}

/// Probability that the weighted mean over items reaches the limit.
fn clusters_tail(clusters: &[Cluster], top: f64, limit: f64) -> f64 {
    if limit >= top {
        return 0.0;
    }
    let moved: Vec<f64> = clusters.iter().map(|c| c.sum - c.items as f64 * limit).collect();
    let pseudo = clusters.iter().map(|cluster| cluster.items).max().unwrap_or(1) as f64;
    tail_of(&moved, pseudo * (top - limit))
}

/// Tests a limit on the mean over data sets of the means over their items, with a probability of
/// error of at most `alpha` on each side. [`Decision::units`] and [`Need::units`] count clusters of
/// items.
///
/// # Errors
/// If there are no strata, one has no items, values are outside their range, weights are not
/// positive, or `alpha` is outside (0, 0.5).
pub fn decide_items(limit: Limit, alpha: f64, strata: &[Stratum]) -> Result<Decision, StatsError> {
    decide_with(limit, alpha, strata, DRAWS)
}

/// [`decide_items`] with this number of draws of weights; fewer draws are faster, and their bounds
/// wider.
///
/// # Errors
/// Those of [`decide_items`].
pub fn decide_with(limit: Limit, alpha: f64, strata: &[Stratum], draws: usize) -> Result<Decision, StatsError> {
    let (estimate, low, high) = bounds_with(strata, alpha, alpha, draws)?;
    let units = strata.iter().map(Stratum::clusters).sum();
    let verdict = limit.verdict(low, high);
    let undecided = verdict == Verdict::Undecided;
    Ok(Decision {
        verdict,
        estimate,
        low: Some(low),
        high: Some(high),
        units,
        need: undecided.then(|| need(units, estimate, (low, high), limit)),
        note: undecided.then_some(Note::Straddles),
    })
}

/// Bounds shrink at least with the root of the number of items: the contribution of the added draw
/// shrinks faster.
fn need(units: usize, estimate: f64, (low, high): (f64, f64), limit: Limit) -> Need {
    let (passing, failing) = match limit.side {
        Side::AtMost => (high, low),
        Side::AtLeast => (low, high),
    };
    let ends = [(passing, limit.value), (failing, limit.fail_at)];
    // Negative if the bound lies on the other side of the estimate than the end that it must reach.
    let ratios = ends.map(|(bound, end)| (bound - estimate) / (end - estimate));
    let ratio = ratios.into_iter().filter(|ratio| *ratio > 0.0).reduce(f64::min);
    let wanted = ratio.map(|ratio| (units as f64 * ratio * ratio).ceil().max(units as f64 + 1.0));
    Need {
        units: wanted.filter(|wanted| *wanted <= MOST).map(|wanted| wanted as usize),
        seeds: None,
    }
}

/// Estimate, lower bound at 1 − `below`, upper bound at 1 − `above`.
pub(super) fn bounds(strata: &[Stratum], below: f64, above: f64) -> Result<(f64, f64, f64), StatsError> {
    bounds_with(strata, below, above, DRAWS)
}

fn bounds_with(strata: &[Stratum], below: f64, above: f64, draws: usize) -> Result<(f64, f64, f64), StatsError> {
    for alpha in [below, above] {
        probability("alpha", alpha)?;
        if alpha >= 0.5 {
            return Err(StatsError::OutOfRange {
                argument: "alpha",
                value: alpha,
                allowed: "below 0.5",
            });
        }
    }
    if strata.is_empty() {
        return Err(StatsError::TooFew {
            what: "a rule on items (data sets)",
            needed: 1,
            found: 0,
        });
    }
    strata.iter().try_for_each(Stratum::check)?;
    let weights: f64 = strata.iter().map(|stratum| stratum.weight).sum();
    let estimate = strata
        .iter()
        .map(|stratum| stratum.weight / weights * stratum.estimate())
        .sum();
    if let [
        Stratum {
            evidence: Evidence::Items { clusters, range },
            ..
        },
    ] = strata
    {
        let mirrored: Vec<Cluster> = clusters
            .iter()
            .map(|cluster| Cluster {
                sum: -cluster.sum,
                ..*cluster
            })
            .collect();
        let low = -bound_of_one(&mirrored, -range.low, -range.high, below);
        return Ok((estimate, low, bound_of_one(clusters, range.high, range.low, above)));
    }
    let normals: Vec<f64> = (0..draws)
        .map(|i| normal_quantile((i as f64 + 0.5) / draws as f64))
        .collect();
    let side = |up: bool, alpha: f64| -> f64 {
        let own: Vec<Vec<f64>> = strata
            .par_iter()
            .enumerate()
            .map(|(d, stratum)| stratum.law(up).draws(&normals, &mut stream(SEED, d)))
            .collect();
        let mut drawn = vec![0.0; draws];
        for (stratum, own) in strata.iter().zip(own) {
            for (sum, value) in drawn.iter_mut().zip(own) {
                *sum += stratum.weight / weights * value;
            }
        }
        drawn.sort_unstable_by(f64::total_cmp);
        let rank = ((draws + 1) as f64 * alpha + 1e-9).floor() as usize;
        let bound = drawn[draws - rank.clamp(1, draws)];
        if up { bound } else { -bound }
    };
    Ok((estimate, side(false, below), side(true, above)))
}

/// Upper bound of one stratum, without drawing.
fn bound_of_one(clusters: &[Cluster], high: f64, low: f64, alpha: f64) -> f64 {
    let (mut inside, mut outside) = (low, high);
    while outside - inside > 1e-9 * (high - low) {
        let middle = 0.5 * (inside + outside);
        if clusters_tail(clusters, high, middle) <= alpha {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    outside
}

#[cfg(test)]
mod tests;
