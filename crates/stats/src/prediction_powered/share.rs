//! An exact bound of a share among finitely many units in two strata.
//!
//! The strata are the units that a prediction calls positive and the others. From each stratum some
//! units were drawn at random and labelled. With power tuning, the prediction-powered estimate of a
//! share from predictions of two values is the stratified one: each stratum's labelled share,
//! weighted by its size.
//!
//! The bound inverts a test. Samples are ordered by an approximate lower bound of the stratified
//! estimate. A pair of counts, the positive units of each stratum, is rejected if a sample at least
//! as extreme as the observed one has a probability of at most alpha under it; this probability is
//! a sum of products of hypergeometric probabilities. The bound is the smallest total that is not
//! rejected, so that the true total is below it with a probability of at most alpha, whatever the
//! predictions are worth. Among bounds that follow an order of the samples it is the largest (R. J.
//! Buehler, "Confidence intervals for the product of two binomial parameters", Journal of the
//! American Statistical Association 52, 1957).

use crate::{StatsError, error::probability, special::normal_quantile};

/// Probabilities and scores that differ by less are equal.
const ROUNDING: f64 = 1e-9;

/// A stratum gets at least this many labels where it has so many units: without labels, none of its
/// units counts as positive.
const LEAST_LABELS: u64 = 5;

/// Units with one prediction, and those of them that were drawn at random and labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LabelledStratum {
    pub units: u64,
    pub labelled: u64,
    pub positive: u64,
}

/// A share of positive units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StratifiedShare {
    /// The stratified estimate; absent if a stratum with units has no label.
    pub estimate: Option<f64>,
    /// The exact lower bound.
    pub low: f64,
}

impl StratifiedShare {
    /// The share of positive units in two strata, with a lower bound at 1 − alpha. One stratum may
    /// be empty.
    ///
    /// # Errors
    /// If there are no labels, a stratum has more labels than units or more positive labels than
    /// labels, or `alpha` is outside (0, 1).
    pub fn of(strata: [LabelledStratum; 2], alpha: f64) -> Result<Self, StatsError> {
        probability("alpha", alpha)?;
        for own in strata {
            let refuse = |argument, value: u64, allowed| StatsError::OutOfRange {
                argument,
                value: value as f64,
                allowed,
            };
            if own.labelled > own.units {
                return Err(refuse("labelled", own.labelled, "at most the number of units"));
            }
            if own.positive > own.labelled {
                return Err(refuse("positive", own.positive, "at most the number of labelled units"));
            }
        }
        if strata.iter().all(|own| own.labelled == 0) {
            return Err(StatsError::TooFew {
                what: "a share (labels)",
                needed: 1,
                found: 0,
            });
        }
        let total = strata.iter().map(|own| own.units).sum::<u64>();
        let part = |own: &LabelledStratum| match (own.units, own.labelled) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (units, labelled) => Some(units as f64 * own.positive as f64 / labelled as f64),
        };
        let parts: Option<Vec<f64>> = strata.iter().map(part).collect();
        Ok(Self {
            estimate: parts.map(|parts| parts.iter().sum::<f64>() / total as f64),
            low: smallest_total(strata, alpha) as f64 / total as f64,
        })
    }
}

/// Divides labels among two strata of so many units: by their sizes, but at least five (or half of
/// all) in each that has so many units.
pub fn allocation(units: [u64; 2], labels: u64) -> [u64; 2] {
    let total = units[0] + units[1];
    let labels = labels.min(total);
    let least = LEAST_LABELS.min(labels / 2);
    let share = (u128::from(labels) * u128::from(units[1]) + u128::from(total) / 2) / u128::from(total.max(1));
    let share = u64::try_from(share).unwrap_or(labels);
    let low = least.min(units[1]).max(labels.saturating_sub(units[0]));
    let high = units[1].min(labels - least.min(units[0]));
    let second = share.clamp(low, high.max(low));
    [labels - second, second]
}

/// The smallest number of positive units that is not rejected.
fn smallest_total(strata: [LabelledStratum; 2], alpha: f64) -> u64 {
    let [first, second] = strata;
    let [of_first, of_second] = strata.map(Hypergeometric::new);
    let reached = extreme(strata, alpha);
    // Of the second stratum, the probability of each count or more.
    let tails = |positive: u64| {
        let mut tails = vec![0.0; second.labelled as usize + 2];
        for count in (0..=second.labelled).rev() {
            tails[count as usize] = tails[count as usize + 1] + of_second.probability(positive, count);
        }
        tails
    };
    // The probability of extreme samples grows with both counts: walk along the border of the
    // rejected pairs.
    let mut other = second.most();
    let mut below = (other > second.least()).then(|| tails(other - 1));
    let mut here = tails(other);
    let mut smallest = first.most() + second.most();
    for own in first.least()..=first.most() {
        let counts: Vec<f64> = (0..=first.labelled)
            .map(|count| of_first.probability(own, count))
            .collect();
        let kept = |tails: &[f64]| {
            let sum: f64 = counts.iter().zip(&reached).map(|(p, from)| p * tails[*from]).sum();
            sum > alpha - ROUNDING
        };
        while let Some(next) = below.take_if(|next| kept(next)) {
            other -= 1;
            here = next;
            below = (other > second.least()).then(|| tails(other - 1));
        }
        if kept(&here) {
            smallest = smallest.min(own + other);
        }
    }
    smallest
}

/// For each positive count of the first stratum, the smallest count of the second with which a
/// sample is at least as extreme as the observed one; one more than its labels if there is none.
fn extreme(strata: [LabelledStratum; 2], alpha: f64) -> Vec<usize> {
    let [first, second] = strata;
    let total = (first.units + second.units) as f64;
    let quantile = normal_quantile(1.0 - alpha);
    // Half a success and half a failure more, so that equal labels still have a variance.
    let moments = |own: LabelledStratum, positive: u64| {
        let share = own.units as f64 / total;
        let labels = own.labelled as f64 + 1.0;
        let p = (positive as f64 + 0.5) / labels;
        let left = 1.0 - own.labelled as f64 / own.units.max(1) as f64;
        (share * p, share * share * p * (1.0 - p) / labels * left)
    };
    let score = |own: u64, other: u64| {
        let ((a, va), (b, vb)) = (moments(first, own), moments(second, other));
        a + b - quantile * (va + vb).sqrt()
    };
    // More positive labels never count as less: the score is the largest of all samples with no
    // more of either.
    let mut before = vec![f64::NEG_INFINITY; second.labelled as usize + 1];
    let mut rows = Vec::with_capacity(first.labelled as usize + 1);
    for own in 0..=first.labelled {
        let mut best = f64::NEG_INFINITY;
        for other in 0..=second.labelled {
            best = best.max(score(own, other)).max(before[other as usize]);
            before[other as usize] = best;
        }
        rows.push(before.clone());
    }
    let observed = rows[first.positive as usize][second.positive as usize];
    rows.iter()
        .map(|row| row.partition_point(|score| *score < observed - ROUNDING))
        .collect()
}

impl LabelledStratum {
    /// The smallest number of positive units that agrees with the labels.
    fn least(&self) -> u64 {
        self.positive
    }

    fn most(&self) -> u64 {
        self.units - (self.labelled - self.positive)
    }
}

/// Numbers of positive labels in a draw without replacement.
struct Hypergeometric {
    units: u64,
    labelled: u64,
    /// Logarithms of the factorials of 0 to `units`.
    factorials: Vec<f64>,
}

impl Hypergeometric {
    fn new(stratum: LabelledStratum) -> Self {
        let logarithm = |sum: &mut f64, n: u64| {
            *sum += (n.max(1) as f64).ln();
            Some(*sum)
        };
        Self {
            units: stratum.units,
            labelled: stratum.labelled,
            factorials: (0..=stratum.units).scan(0.0, logarithm).collect(),
        }
    }

    /// The probability of `count` positive labels if `positive` units are positive.
    fn probability(&self, positive: u64, count: u64) -> f64 {
        let negative = self.units - positive;
        if count > positive || count > self.labelled || self.labelled - count > negative {
            return 0.0;
        }
        let choose = |n: u64, k: u64| {
            let of = |n: u64| self.factorials[n as usize];
            of(n) - of(k) - of(n - k)
        };
        let ways = choose(positive, count) + choose(negative, self.labelled - count);
        (ways - choose(self.units, self.labelled)).exp()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stratum(units: u64, labelled: u64, positive: u64) -> LabelledStratum {
        LabelledStratum {
            units,
            labelled,
            positive,
        }
    }

    /// The probability that the bound is at most the true share, over all samples.
    fn coverage(units: [u64; 2], positive: [u64; 2], labelled: [u64; 2], lows: &[Vec<f64>]) -> f64 {
        let laws = [0, 1].map(|s| Hypergeometric::new(stratum(units[s], labelled[s], 0)));
        let truth = (positive[0] + positive[1]) as f64 / (units[0] + units[1]) as f64;
        let mut covered = 0.0;
        for (first, row) in lows.iter().enumerate() {
            for (second, low) in row.iter().enumerate() {
                if *low <= truth + 1e-12 {
                    covered += laws[0].probability(positive[0], first as u64)
                        * laws[1].probability(positive[1], second as u64);
                }
            }
        }
        covered
    }

    #[test]
    fn the_bound_covers_whatever_the_predictions_are_worth() {
        let (alpha, units) = (0.05, [45, 15]);
        for labelled in [[12, 5], [17, 0], [4, 4], [1, 15]] {
            let low = |first, second| {
                let strata = [
                    stratum(units[0], labelled[0], first),
                    stratum(units[1], labelled[1], second),
                ];
                StratifiedShare::of(strata, alpha).unwrap().low
            };
            let lows: Vec<Vec<f64>> = (0..=labelled[0])
                .map(|first| (0..=labelled[1]).map(|second| low(first, second)).collect())
                .collect();
            let mut worst: f64 = 1.0;
            for first in 0..=units[0] {
                for second in 0..=units[1] {
                    worst = worst.min(coverage(units, [first, second], labelled, &lows));
                }
            }
            assert!((1.0 - alpha - 1e-9..0.97).contains(&worst), "{labelled:?}: {worst}");
        }
    }

    #[test]
    fn a_judge_that_agrees_raises_the_bound_and_one_that_accepts_everything_changes_nothing() {
        let low = |strata| StratifiedShare::of(strata, 0.05).unwrap().low;
        // 27 of 30 labels are positive. The judge rejects 40 of 400 units, among them the negative
        // ones.
        let alone = low([stratum(400, 30, 27), stratum(0, 0, 0)]);
        let with_judge = low([stratum(360, 25, 25), stratum(40, 5, 2)]);
        assert!(with_judge > alone + 0.02, "{with_judge} {alone}");
        assert_eq!(low([stratum(0, 0, 0), stratum(400, 30, 27)]), alone);
    }

    #[test]
    fn every_unit_labelled_is_the_share_itself() {
        let found = StratifiedShare::of([stratum(20, 20, 17), stratum(5, 5, 1)], 0.05).unwrap();
        assert_eq!((found.estimate, found.low), (Some(0.72), 0.72));
    }

    #[test]
    fn a_stratum_without_labels_has_no_estimate_and_counts_as_negative() {
        let found = StratifiedShare::of([stratum(300, 30, 30), stratum(100, 0, 0)], 0.05).unwrap();
        assert_eq!(found.estimate, None);
        assert!(found.low > 0.6 && found.low < 0.75, "{found:?}");
    }

    #[test]
    fn labels_are_divided_by_size_with_at_least_five_in_each_stratum() {
        assert_eq!(allocation([360, 40], 30), [25, 5]);
        assert_eq!(allocation([40, 360], 30), [5, 25]);
        assert_eq!(allocation([200, 200], 30), [15, 15]);
        assert_eq!(allocation([397, 3], 30), [27, 3]);
        assert_eq!(allocation([400, 0], 30), [30, 0]);
        assert_eq!(allocation([0, 400], 30), [0, 30]);
        assert_eq!(allocation([10, 4], 30), [10, 4]);
        assert_eq!(allocation([100, 100], 3), [1, 2]);
        assert_eq!(allocation([0, 0], 3), [0, 0]);
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let refused = |first| StratifiedShare::of([first, stratum(0, 0, 0)], 0.05).unwrap_err();
        assert!(matches!(
            refused(stratum(5, 6, 1)),
            StatsError::OutOfRange {
                argument: "labelled",
                ..
            }
        ));
        assert!(matches!(
            refused(stratum(5, 4, 5)),
            StatsError::OutOfRange {
                argument: "positive",
                ..
            }
        ));
        assert!(matches!(refused(stratum(5, 0, 0)), StatsError::TooFew { .. }));
    }
}
