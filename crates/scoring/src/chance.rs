//! Tests whether a score is above chance, by comparison with the scores of permuted labels.
//!
//! A drop says nothing about an encoder that scores no better than chance, because such a score
//! cannot fall. The null hypothesis is that labels and vectors are unrelated. Under it, all orders
//! of the labels are equally likely, so the p-value is exact whatever the metric (Phipson and Smyth
//! 2010: the observed score counts as one of the permutations).

use isomer_stats::{
    permutation::Counts,
    random::{Stream, shuffle, stream},
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Number of permutations of a test.
pub const PERMUTATIONS: usize = 999;

const SEED: u64 = 42;

/// Maximum cost of a test: values visited over all permutations.
const BUDGET: usize = 50_000_000;

/// The comparison of a score with the scores of permuted labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chance {
    pub permutations: u32,
    /// Permutations that score at least as high.
    pub at_least: u32,
    /// Permutations that score at most as high.
    pub at_most: u32,
}

/// The level of a score relative to the scores of permuted labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChanceLevel {
    /// Significantly above chance.
    Above,
    At,
    /// Significantly below chance: labels may be inverted.
    Below,
}

impl Chance {
    /// Compares a score with those of permuted labels. `permuted` draws one permutation and scores
    /// it with the same statistic. A score that is not a number counts against the observed one.
    pub(crate) fn test(observed: f64, permuted: impl Fn(&mut Stream) -> f64 + Sync) -> Self {
        // Sums in a different order differ in their last bits.
        let slack = 1e-9 * (1.0 + observed.abs());
        let scores = (0..PERMUTATIONS).into_par_iter().map(|index| {
            let score = permuted(&mut stream(SEED, index));
            if score.is_nan() { observed } else { score }
        });
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let counts = match observed.is_nan() {
            false => Counts::of(scores, observed, slack),
            true => Counts::all(PERMUTATIONS as u64),
        };
        Self {
            permutations: PERMUTATIONS as u32,
            at_least: number(counts.at_least),
            at_most: number(counts.at_most),
        }
    }

    /// Compares the score of labels with the scores of the same labels in permuted order.
    pub(crate) fn of_labels<T: Clone + Send + Sync>(labels: &[T], score: impl Fn(&[T]) -> f64 + Sync) -> Self {
        Self::test(score(labels), |rng| score(&shuffled(rng, labels)))
    }

    /// The level of the score for a given probability of error.
    pub fn level(self, alpha: f64) -> ChanceLevel {
        // No p-value is smaller than that of a score beyond all permutations.
        let alpha = alpha.max(self.p(0));
        if self.p_below() <= alpha {
            ChanceLevel::Below
        } else if self.p_above() <= alpha {
            ChanceLevel::Above
        } else {
            ChanceLevel::At
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

/// Values in a random order.
pub(crate) fn shuffled<T: Clone>(rng: &mut Stream, values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    shuffle(rng, &mut values);
    values
}

/// Number of items of these sizes that a test visits, starting with the first, so that its cost is
/// bounded.
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
        // A constant or undefined statistic says nothing.
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
