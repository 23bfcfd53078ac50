//! Whether a rule's scores speak of rewritten texts at all.
//!
//! A text that stayed as it was costs an encoder nothing, whatever the encoder is. Beyond a share of such texts a rule is *invalid*: it
//! neither passes nor fails. The share is taken over what the rule looks at, in two ways, and the larger one counts: pooled over all texts,
//! and averaged in the order in which the rule's estimate is (seeds, transformations of an axis, axes, data sets). The second notices a small
//! data set of which nothing was rewritten; the first a large one.

use super::{bind::BoundRule, observe::Quantity};
use crate::{
    change::Change,
    profile::{Axis, Column},
    report::{RewriteShare, percent},
};

/// Rewrites of one data set under one transformation and seed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rewrites {
    /// Distinct texts that were to be rewritten.
    pub texts: u64,
    /// Of these, texts that are what they were.
    pub unchanged: u64,
    /// Of these, texts in which one word differs.
    pub near_copies: u64,
}

impl Rewrites {
    /// Counts what became of texts.
    pub(crate) fn count(changes: impl IntoIterator<Item = Change>) -> Self {
        let mut counted = Self::default();
        for change in changes {
            counted.texts += 1;
            match change {
                Change::Unchanged => counted.unchanged += 1,
                Change::NearCopy => counted.near_copies += 1,
                Change::Changed => {}
            }
        }
        counted
    }

    /// Shares of unchanged texts and of near-copies. Where no text was rewritten, everything is unchanged.
    fn shares(self) -> Shares {
        if self.texts == 0 {
            return Shares {
                unchanged: 1.0,
                near_copies: 0.0,
            };
        }
        Shares {
            unchanged: self.unchanged as f64 / self.texts as f64,
            near_copies: self.near_copies as f64 / self.texts as f64,
        }
    }
}

/// Rewrites of a run, `[dataset][transformation][seed]`.
pub(crate) type RewriteCounts = Vec<Vec<Vec<Rewrites>>>;

#[derive(Debug, Clone, Copy)]
struct Shares {
    unchanged: f64,
    near_copies: f64,
}

impl Shares {
    fn mean(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        Self {
            unchanged: all.iter().map(|one| one.unchanged).sum::<f64>() / n,
            near_copies: all.iter().map(|one| one.near_copies).sum::<f64>() / n,
        }
    }
}

/// The share of texts that a rule looks at and that were not rewritten; `None` for a rule on the original texts.
pub(super) fn rewrite_share(
    rule: &BoundRule,
    columns: &[Column],
    counts: &RewriteCounts,
    datasets: &[usize],
    seeds: usize,
) -> Option<RewriteShare> {
    let axes = axes(rule.quantity, columns)?;
    let mut pooled = Rewrites::default();
    let mut by_dataset = Vec::with_capacity(datasets.len());
    for &dataset in datasets {
        let by_axis: Vec<Shares> = axes
            .iter()
            .map(|transformations| {
                let by_transformation: Vec<Shares> = transformations
                    .iter()
                    .map(|&transformation| {
                        let own = counts
                            .get(dataset)
                            .and_then(|of_dataset| of_dataset.get(transformation))
                            .map_or(&[][..], |of_seeds| &of_seeds[..seeds.min(of_seeds.len())]);
                        for one in own {
                            pooled.texts += one.texts;
                            pooled.unchanged += one.unchanged;
                            pooled.near_copies += one.near_copies;
                        }
                        let by_seed: Vec<Shares> = own.iter().map(|one| one.shares()).collect();
                        if by_seed.is_empty() {
                            Rewrites::default().shares()
                        } else {
                            Shares::mean(&by_seed)
                        }
                    })
                    .collect();
                Shares::mean(&by_transformation)
            })
            .collect();
        by_dataset.push(Shares::mean(&by_axis));
    }
    let (averaged, all) = (Shares::mean(&by_dataset), pooled.shares());
    Some(RewriteShare {
        texts: pooled.texts,
        unchanged: averaged.unchanged.max(all.unchanged),
        near_copies: averaged.near_copies.max(all.near_copies),
    })
}

/// Transformations that a quantity rests on, axis by axis; `None` where it rests on none.
fn axes(quantity: Quantity, columns: &[Column]) -> Option<Vec<Vec<usize>>> {
    let of_axis = |axis: Axis| -> Vec<usize> { (0..columns.len()).filter(|c| columns[*c].axis == axis).collect() };
    Some(match quantity {
        // Texts that were not rewritten are left out of separation.
        Quantity::Original | Quantity::Separation(_) => return None,
        Quantity::Transformation(column) => vec![vec![column]],
        Quantity::Axis(axis) => vec![of_axis(axis)],
        Quantity::Total => Axis::ALL
            .into_iter()
            .filter(|axis| axis.in_total())
            .map(of_axis)
            .filter(|own| !own.is_empty())
            .collect(),
    })
}

/// Whether a share lies beyond its limit by more than the rounding of a mean of shares.
fn exceeds(share: f64, limit: f64) -> bool {
    share > limit + 1e-9
}

/// Why a rule cannot be decided on these rewrites, in words; `None` where it can.
pub(super) fn invalid(share: RewriteShare, max_unchanged: f64, max_near_copies: f64) -> Option<String> {
    if share.texts == 0 {
        return Some("no text was rewritten, so its scores say nothing about robustness".to_owned());
    }
    if exceeds(share.unchanged, max_unchanged) {
        return Some(format!(
            "{} of the texts it looks at stayed as they were (max_unchanged is {}): its scores say nothing about robustness; use a \
             stronger generator",
            percent(share.unchanged),
            percent(max_unchanged)
        ));
    }
    exceeds(share.near_copies, max_near_copies).then(|| {
        format!(
            "{} of the rewrites it looks at differ from the original in one word only (max_near_copies is {}): its scores say nothing about \
             robustness; use a stronger generator",
            percent(share.near_copies),
            percent(max_near_copies)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Basis, Place, Rule, RuleLimit, Unit};

    fn columns() -> Vec<Column> {
        [
            ("paraphrase", Axis::Lexical),
            ("expansion", Axis::Length),
            ("random_keywords", Axis::Augmentation),
        ]
        .map(|(label, axis)| Column {
            label: label.to_owned(),
            axis,
        })
        .to_vec()
    }

    fn rule(quantity: Quantity) -> BoundRule {
        BoundRule {
            rule: Rule {
                name: None,
                limit: RuleLimit::MaxDrop(3.0),
                of: String::new(),
                task: None,
                dataset: None,
                basis: None,
                unit: None,
                max_unchanged: None,
                max_near_copies: None,
                place: Place::default(),
            },
            title: String::new(),
            quantity,
            datasets: vec![0, 1],
            units: 2,
            basis: Basis::SignedRank,
            unit: Unit::Group,
            unit_by_default: true,
            max_unchanged: 0.1,
            max_near_copies: 0.5,
        }
    }

    /// Two data sets, three transformations, two seeds; so many of so many texts unchanged.
    fn counts(of: impl Fn(usize, usize, usize) -> (u64, u64)) -> RewriteCounts {
        let cell = |d, t, s| {
            let (unchanged, texts) = of(d, t, s);
            Rewrites {
                texts,
                unchanged,
                near_copies: 0,
            }
        };
        (0..2)
            .map(|d| (0..3).map(|t| (0..2).map(|s| cell(d, t, s)).collect()).collect())
            .collect()
    }

    fn unchanged(quantity: Quantity, counts: &RewriteCounts, datasets: &[usize], seeds: usize) -> f64 {
        rewrite_share(&rule(quantity), &columns(), counts, datasets, seeds).map_or(f64::NAN, |share| share.unchanged)
    }

    #[test]
    fn a_small_dead_data_set_counts_as_much_as_in_the_estimate() {
        let counts = counts(|d, _, _| if d == 0 { (0, 1000) } else { (10, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        // What is not in yet does not count.
        assert_eq!(unchanged(Quantity::Total, &counts, &[0], 2), 0.0);
    }

    #[test]
    fn a_large_dead_data_set_counts_by_its_texts() {
        let counts = counts(|d, _, _| if d == 0 { (990, 990) } else { (0, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.99);
    }

    #[test]
    fn only_what_the_rule_looks_at_counts() {
        // The control and the second seed are dead.
        let counts = counts(|_, t, s| if t == 2 || s == 1 { (4, 4) } else { (0, 4) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 1), 0.0);
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        assert_eq!(unchanged(Quantity::Transformation(2), &counts, &[0, 1], 1), 1.0);
        assert_eq!(unchanged(Quantity::Axis(Axis::Augmentation), &counts, &[0, 1], 1), 1.0);
        assert!(rewrite_share(&rule(Quantity::Original), &columns(), &counts, &[0, 1], 1).is_none());
    }

    #[test]
    fn a_data_set_without_a_single_rewrite_is_unchanged_altogether() {
        let counts = counts(|d, _, _| if d == 0 { (0, 0) } else { (0, 10) });
        assert_eq!(unchanged(Quantity::Total, &counts, &[0, 1], 2), 0.5);
        let none = rewrite_share(&rule(Quantity::Total), &columns(), &Vec::new(), &[0, 1], 2);
        assert!(none.is_some_and(|share| share.texts == 0 && invalid(share, 1.0, 1.0).is_some()));
    }

    #[test]
    fn limits_are_inclusive() {
        let share = |unchanged, near_copies| RewriteShare {
            texts: 10,
            unchanged,
            near_copies,
        };
        assert_eq!(invalid(share(0.1, 0.5), 0.1, 0.5), None);
        assert!(invalid(share(0.11, 0.0), 0.1, 0.5).is_some_and(|why| why.contains("stayed as they were")));
        assert!(invalid(share(0.0, 0.6), 0.1, 0.5).is_some_and(|why| why.contains("one word only")));
    }
}
