//! Wilcoxon's signed-rank test as in `scipy.stats.wilcoxon` 1.17, and exactly where scipy cannot be
//! exact.
//!
//! Zeros: Wilcoxon (1945) drops them; Pratt (1959) ranks them and excludes their ranks; splitting
//! gives half of their ranks to each side. Sources: W. J. Conover, "On methods of handling ties in
//! the Wilcoxon signed-rank test" (1973); E. E. Cureton, "The normal approximation to the
//! signed-rank sampling distribution when zero differences are present" (1967).

mod null;

use null::Null;
pub(crate) use null::signed_rank_quantile;

use crate::{StatsError, average_ranks, error::sample, special::normal_sf};

/// Maximum sample size for the exact distribution unless another method is chosen.
pub const EXACT_MAX: usize = 50;
/// Maximum size, zeros included, of a sample with ties or zeros that still gets an exact p-value.
const PERMUTATION_MAX: usize = 13;
/// Maximum sample size of the exact methods on request: their time grows with n³.
pub const EXACT_LIMIT: usize = 2_000;

/// The expected direction of the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alternative {
    /// Either direction.
    #[default]
    TwoSided,
    /// Above zero.
    Greater,
    /// Below zero.
    Less,
}

impl Alternative {
    /// The p-value of this alternative, from the two one-sided ones.
    pub(crate) fn p_value(self, less: f64, greater: f64) -> f64 {
        match self {
            Self::TwoSided => (2.0 * less.min(greater)).min(1.0),
            Self::Greater => greater,
            Self::Less => less,
        }
    }
}

/// How the p-value is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// scipy's choice: exact up to 50 differences without ties or zeros; with them, all sign
    /// permutations up to 13 differences; the normal approximation otherwise.
    #[default]
    Auto,
    /// The distribution for untied ranks. With ties it is conservative: the statistic is rounded
    /// against the alternative.
    Exact,
    /// Exact given the observed ties and zeros: the distribution over all sign permutations of
    /// these ranks, at any n up to 2000. Without ties it equals [`Method::Exact`].
    Conditional,
    /// Normal approximation with tie correction.
    Normal,
}

/// The treatment of zero differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Zeros {
    /// Dropped before ranking (scipy's `wilcox`).
    #[default]
    Drop,
    /// Ranked, then their ranks are excluded (scipy's `pratt`).
    Pratt,
    /// Ranked, half of their ranks to each side (scipy's `zsplit`).
    Split,
}

/// Settings of the test. The default is scipy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WilcoxonOptions {
    /// The expected direction of the differences.
    pub alternative: Alternative,
    /// How the p-value is computed.
    pub method: Method,
    /// The treatment of zeros.
    pub zeros: Zeros,
    /// Whether the normal approximation moves its statistic half a rank towards the mean.
    pub continuity: bool,
}

/// The source of a p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Exact null distribution of untied ranks.
    Exact,
    /// Exact null distribution given the observed ties (all sign permutations).
    Permutation,
    /// Normal approximation.
    Normal,
}

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wilcoxon {
    /// min(W+, W−) for a two-sided test, W+ otherwise (scipy's convention).
    pub statistic: f64,
    pub p_value: f64,
    /// Its source.
    pub distribution: Distribution,
    /// Number of ranked differences, without zeros if those are dropped.
    pub n: usize,
    /// Number of zero differences.
    pub zeros: usize,
    /// The normal approximation's statistic, if that was used.
    pub z: Option<f64>,
}

/// The signed-rank test of differences against zero, with scipy's choice of the method.
///
/// # Errors
/// If there are no differences, one is not finite, or all are zero.
pub fn wilcoxon_signed_rank(differences: &[f64], alternative: Alternative) -> Result<Wilcoxon, StatsError> {
    wilcoxon_with(
        differences,
        &WilcoxonOptions {
            alternative,
            ..WilcoxonOptions::default()
        },
    )
}

/// The signed-rank test of paired values, treatment minus reference.
///
/// # Errors
/// Those of [`wilcoxon_signed_rank`]; also if the series differ in length.
pub fn wilcoxon_paired(
    treatment: &[f64],
    reference: &[f64],
    options: &WilcoxonOptions,
) -> Result<Wilcoxon, StatsError> {
    wilcoxon_with(&crate::describe::differences(treatment, reference)?, options)
}

/// The signed-rank test with every setting.
///
/// # Errors
/// Those of [`wilcoxon_signed_rank`]; also if [`Method::Exact`] or [`Method::Conditional`] is
/// requested with more than 2000 differences.
pub fn wilcoxon_with(differences: &[f64], options: &WilcoxonOptions) -> Result<Wilcoxon, StatsError> {
    sample("differences", differences, "the signed-rank test", 1)?;
    let zeros = differences.iter().filter(|d| **d == 0.0).count();
    if zeros == differences.len() {
        return Err(StatsError::AllZero);
    }
    let ranked = RankedDifferences::new(differences, options.zeros);
    let distribution = choose(differences.len(), ranked.tied || zeros > 0, options.method)?;
    let mut z_statistic = None;
    let (less, greater) = match distribution {
        Distribution::Normal => {
            let (mean, sd) = (ranked.mean(), ranked.sd());
            let z = (ranked.plus - mean) / sd;
            let correction = match options.alternative {
                _ if !options.continuity => 0.0,
                Alternative::Greater => 0.5,
                Alternative::Less => -0.5,
                Alternative::TwoSided if z == 0.0 => 0.0,
                Alternative::TwoSided => 0.5 * z.signum(),
            };
            let z = z - correction / sd;
            z_statistic = Some(z);
            (normal_sf(-z), normal_sf(z))
        }
        Distribution::Permutation => {
            // Ranks without a sign add the same amount to every W+.
            let observed = ranked.plus - ranked.constant;
            Null::new(&ranked.signed).tails(observed, observed)
        }
        Distribution::Exact => {
            let untied: Vec<f64> = (1..=ranked.n).map(|r| r as f64).collect();
            Null::new(&untied).tails(ranked.plus.ceil(), ranked.plus.floor())
        }
    };
    Ok(Wilcoxon {
        statistic: match options.alternative {
            Alternative::TwoSided => ranked.plus.min(ranked.minus),
            _ => ranked.plus,
        },
        p_value: options.alternative.p_value(less, greater),
        distribution,
        n: ranked.n,
        zeros,
        z: z_statistic,
    })
}

fn choose(n: usize, tied_or_zero: bool, method: Method) -> Result<Distribution, StatsError> {
    let limit = |distribution| {
        if n > EXACT_LIMIT {
            return Err(StatsError::OutOfRange {
                argument: "differences (how many)",
                value: n as f64,
                allowed: "at most 2000 for an exact signed-rank test; use the normal approximation",
            });
        }
        Ok(distribution)
    };
    match method {
        Method::Exact => limit(Distribution::Exact),
        Method::Conditional => limit(if tied_or_zero {
            Distribution::Permutation
        } else {
            Distribution::Exact
        }),
        Method::Normal => Ok(Distribution::Normal),
        Method::Auto if n > EXACT_MAX => Ok(Distribution::Normal),
        Method::Auto if !tied_or_zero => Ok(Distribution::Exact),
        Method::Auto if n <= PERMUTATION_MAX => Ok(Distribution::Permutation),
        Method::Auto => Ok(Distribution::Normal),
    }
}

/// Differences after ranking.
struct RankedDifferences {
    /// Ranks of the differences that have a sign.
    signed: Vec<f64>,
    /// W+.
    plus: f64,
    /// W−.
    minus: f64,
    /// The part of W+ that does not depend on the signs: half of the zeros' ranks if those are
    /// split.
    constant: f64,
    /// Number of ranked differences.
    n: usize,
    /// Number of zeros among them.
    zeros: usize,
    zero_method: Zeros,
    tied: bool,
    /// Σ (t³ − t) over groups of t tied magnitudes; includes the group of zeros if it counts.
    tie_term: f64,
}

impl RankedDifferences {
    fn new(differences: &[f64], zero_method: Zeros) -> Self {
        let kept: Vec<f64> = match zero_method {
            Zeros::Drop => differences.iter().copied().filter(|d| *d != 0.0).collect(),
            Zeros::Pratt | Zeros::Split => differences.to_vec(),
        };
        let magnitudes: Vec<f64> = kept.iter().map(|d| d.abs()).collect();
        let ranks = average_ranks(&magnitudes);
        let sum = |wanted: fn(f64) -> bool| -> f64 {
            ranks
                .iter()
                .zip(&kept)
                .filter(|(_, d)| wanted(**d))
                .map(|(r, _)| r)
                .sum()
        };
        let (mut plus, mut minus) = (sum(|d| d > 0.0), sum(|d| d < 0.0));
        let constant = match zero_method {
            Zeros::Split => sum(|d| d == 0.0) / 2.0,
            Zeros::Drop | Zeros::Pratt => 0.0,
        };
        plus += constant;
        minus += constant;

        let mut sorted = magnitudes;
        sorted.sort_by(f64::total_cmp);
        let (mut tied, mut tie_term) = (false, 0.0);
        for group in sorted.chunk_by(|a, b| a == b) {
            let size = group.len() as f64;
            tied |= group.len() > 1;
            // Cureton: under Pratt's method the variance already excludes the zeros.
            if !(zero_method == Zeros::Pratt && group[0] == 0.0) {
                tie_term += size.powi(3) - size;
            }
        }
        Self {
            signed: ranks
                .iter()
                .zip(&kept)
                .filter(|(_, d)| **d != 0.0)
                .map(|(r, _)| *r)
                .collect(),
            plus,
            minus,
            constant,
            n: kept.len(),
            zeros: kept.iter().filter(|d| **d == 0.0).count(),
            zero_method,
            tied,
            tie_term,
        }
    }

    /// Mean of W+ under the null hypothesis.
    fn mean(&self) -> f64 {
        let of = |n: f64| n * (n + 1.0) / 4.0;
        match self.zero_method {
            Zeros::Pratt => of(self.n as f64) - of(self.zeros as f64),
            Zeros::Drop | Zeros::Split => of(self.n as f64),
        }
    }

    /// Standard deviation of W+ under the null hypothesis.
    fn sd(&self) -> f64 {
        let of = |n: f64| n * (n + 1.0) * (2.0 * n + 1.0);
        let mut variance = of(self.n as f64);
        if self.zero_method == Zeros::Pratt {
            variance -= of(self.zeros as f64);
        }
        ((variance - self.tie_term / 2.0) / 24.0).sqrt()
    }
}

#[cfg(test)]
mod tests;
