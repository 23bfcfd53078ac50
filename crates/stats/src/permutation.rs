//! Permutation tests for paired differences (every sign may flip) and for two independent samples
//! (labels may be exchanged).
//!
//! The test is exact if all arrangements can be visited, and uses random arrangements otherwise.
//! The p-value is `(extreme + 1) / (drawn + 1)`, so that it is never zero (B. Phipson and G. K.
//! Smyth, "Permutation p-values should never be zero", 2010). Arrangements that equal the observed
//! one up to rounding count as equally extreme, as in scipy's `permutation_test`.

use rand_chacha::rand_core::RngCore;
use rayon::prelude::*;

use crate::{
    Alternative, StatsError,
    describe::mean,
    error::sample,
    random::{shuffle, stream},
    stop::draws,
};

/// Maximum number of differences whose 2^n sign patterns are all visited.
pub const EXACT_SIGNS: usize = 20;
/// Maximum number of arrangements of two samples that are all visited.
const EXACT_SPLITS: u64 = 1 << 20;
/// Relative difference from the observed statistic up to which two statistics are equal.
const SAME: f64 = 1e-14;

/// Result of a permutation test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PermutationTest {
    /// Mean of the differences, or difference of the means.
    pub statistic: f64,
    pub p_value: f64,
    /// Number of arrangements behind the result.
    pub arrangements: u64,
    /// Whether these are all possible arrangements.
    pub exact: bool,
}

/// Arrangements at most and at least as large as the observed one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrangements whose statistic is at most the observed one.
    pub at_most: u64,
    /// Arrangements whose statistic is at least the observed one.
    pub at_least: u64,
}

impl Counts {
    /// Counts the statistics of arrangements. Statistics within `slack` of the observed one count
    /// as equal to it.
    pub fn of(found: impl ParallelIterator<Item = f64>, observed: f64, slack: f64) -> Self {
        found
            .fold(Self::default, |counts, found| counts.add(found, observed, slack))
            .reduce(Self::default, Self::merge)
    }

    /// Counts for `arrangements` arrangements that all equal the observed one.
    pub fn all(arrangements: u64) -> Self {
        Self {
            at_most: arrangements,
            at_least: arrangements,
        }
    }

    fn add(mut self, found: f64, observed: f64, slack: f64) -> Self {
        self.at_most += u64::from(found <= observed + slack);
        self.at_least += u64::from(found >= observed - slack);
        self
    }

    fn merge(self, other: Self) -> Self {
        Self {
            at_most: self.at_most + other.at_most,
            at_least: self.at_least + other.at_least,
        }
    }

    fn result(self, statistic: f64, arrangements: u64, exact: bool, alternative: Alternative) -> PermutationTest {
        let raised = u64::from(!exact);
        let share = |count: u64| (count + raised) as f64 / (arrangements + raised) as f64;
        PermutationTest {
            statistic,
            p_value: alternative.p_value(share(self.at_most), share(self.at_least)),
            arrangements,
            exact,
        }
    }
}

/// Tests whether paired differences centre on zero: under the null hypothesis each could have had
/// the other sign. Up to 20 differences all 2^n patterns are visited, beyond that `resamples`
/// random ones.
///
/// # Errors
/// If there are no differences, some are not finite, all are zero, or random patterns are needed
/// and there are no resamples.
pub fn sign_flip_test(
    differences: &[f64],
    alternative: Alternative,
    resamples: usize,
    seed: u64,
) -> Result<PermutationTest, StatsError> {
    sample("differences", differences, "the sign-flip test", 1)?;
    if differences.iter().all(|d| *d == 0.0) {
        return Err(StatsError::AllZero);
    }
    let n = differences.len();
    let observed: f64 = differences.iter().sum();
    let statistic = mean(differences).unwrap_or(0.0);
    if n <= EXACT_SIGNS {
        let sums = draws(1 << n).map(|signs| signed_sum(differences, signs as u64));
        let counts = Counts::of(sums, observed, SAME * observed.abs());
        return Ok(counts.result(statistic, 1 << n, true, alternative));
    }
    some(resamples)?;
    let sums = draws(resamples).map(|index| {
        let mut rng = stream(seed, index);
        differences
            .chunks(64)
            .map(|chunk| signed_sum(chunk, rng.next_u64()))
            .sum::<f64>()
    });
    let counts = Counts::of(sums, observed, SAME * observed.abs());
    Ok(counts.result(statistic, resamples as u64, false, alternative))
}

/// The sum, with a minus for each bit set in `signs`.
fn signed_sum(differences: &[f64], signs: u64) -> f64 {
    differences
        .iter()
        .enumerate()
        .map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d })
        .sum()
}

/// Tests whether two independent samples have the same mean: under the null hypothesis each value
/// could have been in either sample. All arrangements are visited if there are at most 2^20, and
/// `resamples` random ones otherwise.
///
/// # Errors
/// If a sample is empty, values are not finite, or random arrangements are needed and there are no
/// resamples.
pub fn two_sample_permutation_test(
    x: &[f64],
    y: &[f64],
    alternative: Alternative,
    resamples: usize,
    seed: u64,
) -> Result<PermutationTest, StatsError> {
    sample("x", x, "the permutation test", 1)?;
    sample("y", y, "the permutation test", 1)?;
    let all: Vec<f64> = x.iter().chain(y).copied().collect();
    let total: f64 = all.iter().sum();
    let (m, n) = (x.len() as f64, y.len() as f64);
    let difference = |first: f64| first / m - (total - first) / n;
    let observed = difference(x.iter().sum());
    let arrangements = binomial(all.len() as u64, x.len() as u64);
    if let Some(arrangements) = arrangements.filter(|count| *count <= EXACT_SPLITS) {
        let mut counts = Counts::default();
        each_choice(all.len(), x.len(), |chosen| {
            let first: f64 = chosen.iter().map(|&i| all[i]).sum();
            counts = counts.add(difference(first), observed, SAME * observed.abs());
        });
        return Ok(counts.result(observed, arrangements, true, alternative));
    }
    some(resamples)?;
    let differences = draws(resamples).map_init(
        || all.clone(),
        |drawn, index| {
            drawn.copy_from_slice(&all);
            shuffle(&mut stream(seed, index), drawn);
            difference(drawn[..x.len()].iter().sum())
        },
    );
    let counts = Counts::of(differences, observed, SAME * observed.abs());
    Ok(counts.result(observed, resamples as u64, false, alternative))
}

fn some(resamples: usize) -> Result<(), StatsError> {
    if resamples == 0 {
        return Err(StatsError::TooFew {
            what: "a permutation test (resamples)",
            needed: 1,
            found: 0,
        });
    }
    Ok(())
}

/// The binomial coefficient n over k; `None` on overflow.
fn binomial(n: u64, k: u64) -> Option<u64> {
    (0..k.min(n - k)).try_fold(1_u64, |found, i| Some(found.checked_mul(n - i)? / (i + 1)))
}

/// Visits every selection of k of n positions, in lexicographic order.
fn each_choice(n: usize, k: usize, mut visit: impl FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        visit(&chosen);
        let Some(i) = (0..k).rev().find(|&i| chosen[i] < n - k + i) else {
            return;
        };
        chosen[i] += 1;
        for j in i + 1..k {
            chosen[j] = chosen[j - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn flipping_three_signs_by_hand() {
        // Sums of ±1 ±2 ±4: only +7 is as large as 7, and −7 as small.
        let found = sign_flip_test(&[1.0, 2.0, 4.0], Alternative::TwoSided, 0, 0).unwrap();
        assert_eq!((found.p_value, found.arrangements, found.exact), (0.25, 8, true));
        let found = sign_flip_test(&[1.0, 2.0, 4.0], Alternative::Greater, 0, 0).unwrap();
        assert_eq!(found.p_value, 0.125);
    }

    #[test]
    fn random_flips_approach_the_exact_value() {
        let d: Vec<f64> = (0..20).map(|i| f64::from((i * 37) % 23) - 8.5).collect();
        let exact = sign_flip_test(&d, Alternative::TwoSided, 0, 0).unwrap();
        // A twenty-first difference near zero does not change the distribution.
        let mut more = d.clone();
        more.push(1e-9);
        let drawn = sign_flip_test(&more, Alternative::TwoSided, 40_000, 5).unwrap();
        assert!(exact.exact && !drawn.exact);
        assert!((exact.p_value - drawn.p_value).abs() < 0.01, "{exact:?} {drawn:?}");
    }

    #[test]
    fn two_samples_by_hand() {
        // {1, 2} against {3, 4, 5}: the smallest of ten arrangements.
        let found = two_sample_permutation_test(&[1.0, 2.0], &[3.0, 4.0, 5.0], Alternative::Less, 0, 0).unwrap();
        assert_eq!((found.p_value, found.arrangements), (0.1, 10));
        assert_eq!(found.statistic, -2.5);
    }

    #[test]
    fn nothing_to_permute_is_an_error() {
        assert_eq!(
            sign_flip_test(&[0.0], Alternative::Less, 9, 0),
            Err(StatsError::AllZero)
        );
        assert!(sign_flip_test(&[], Alternative::Less, 9, 0).is_err());
        assert!(sign_flip_test(&[1.0; 21], Alternative::Less, 0, 0).is_err());
        assert!(two_sample_permutation_test(&[], &[1.0], Alternative::Less, 9, 0).is_err());
    }
}
