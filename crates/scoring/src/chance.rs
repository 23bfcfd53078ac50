//! Whether a score is above chance: it is compared with the scores of permuted labels.
//!
//! A drop says nothing about an encoder that scores no better than chance, because such a score
//! cannot fall. The null hypothesis is that labels and vectors are unrelated. Under it, any order
//! of the labels is as likely as theirs, so the p-value is exact whatever the metric (Phipson and
//! Smyth 2010: the observed score counts as one of the permutations).

use isomer_stats::random::{Stream, stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Permutations of a test.
pub const PERMUTATIONS: usize = 999;

const SEED: u64 = 42;

/// Cost that a test may have: values visited over all permutations.
const BUDGET: usize = 50_000_000;

/// How a score compares with the scores of permuted labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chance {
    /// Number of permutations.
    pub permutations: u32,
    /// Permutations that score at least as high.
    pub at_least: u32,
    /// Permutations that score at most as high.
    pub at_most: u32,
}

impl Chance {
    /// Compares a score with those of permuted labels. `permuted` draws one permutation and scores
    /// it with the same statistic. A score that is not a number counts against the observed one.
    pub(crate) fn test(observed: f64, permuted: impl Fn(&mut Stream) -> f64 + Sync) -> Self {
        // Sums in another order differ in their last bits.
        let slack = 1e-9 * (1.0 + observed.abs());
        let compared = (0..PERMUTATIONS).into_par_iter().map(|index| {
            let score = permuted(&mut stream(SEED, index));
            let (below, above) = (score < observed - slack, score > observed + slack);
            (u32::from(!below), u32::from(!above))
        });
        let (at_least, at_most) = compared.reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        Self {
            permutations: PERMUTATIONS as u32,
            at_least,
            at_most,
        }
    }

    /// One-sided p-value of a score above chance.
    pub fn p_above(self) -> f64 {
        self.p(self.at_least)
    }

    /// One-sided p-value of a score below chance.
    pub fn p_below(self) -> f64 {
        self.p(self.at_most)
    }

    fn p(self, as_extreme: u32) -> f64 {
        f64::from(as_extreme + 1) / f64::from(self.permutations + 1)
    }
}

/// How many items of such sizes a test visits, from the first on, so that its cost is bounded.
pub(crate) fn affordable(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut left = BUDGET / PERMUTATIONS;
    let fits = |size: &usize| {
        let fits = *size <= left;
        left = left.saturating_sub(*size);
        fits
    };
    sizes.into_iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use isomer_stats::random::uniform;

    use super::*;

    #[test]
    fn a_score_is_placed_among_those_of_permutations() {
        let place = |observed| Chance::test(observed, uniform);
        let (low, middle, high) = (place(0.0), place(0.5), place(1.0));
        assert_eq!((high.p_above(), high.p_below()), (0.001, 1.0));
        assert_eq!((low.p_above(), low.p_below()), (1.0, 0.001));
        assert!((middle.p_above() - 0.5).abs() < 0.05, "{middle:?}");
        // A constant statistic, and one that is undefined, say nothing.
        for said in [Chance::test(0.3, |_| 0.3), Chance::test(0.3, |_| f64::NAN)] {
            assert_eq!((said.p_above(), said.p_below()), (1.0, 1.0));
        }
        assert_eq!(Chance::test(f64::NAN, uniform).p_above(), 1.0);
    }

    #[test]
    fn p_values_are_uniform_under_the_null_hypothesis() {
        // 400 scores from the null distribution: 5 % of them have a p-value of at most 0.05, with a
        // standard error of 1.1 %.
        let mut rng = stream(7, 0);
        let small = (0..400).filter(|_| Chance::test(uniform(&mut rng), uniform).p_above() <= 0.05);
        let small = small.count();
        assert!((6..=36).contains(&small), "{small}");
    }

    #[test]
    fn cost_is_bounded_and_one_item_is_always_visited() {
        assert_eq!(affordable([10; 100]), 100);
        assert_eq!(affordable([10_000; 100]), 5);
        assert_eq!(affordable([usize::MAX; 2]), 1);
    }
}
