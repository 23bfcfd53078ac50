//! Compares a score with the scores of its permuted labels.

use super::{
    Clustering, Evidence,
    agreement::{Numbers, Table},
    clusters::clusters,
    prepared_evidence::{v_measure, widened},
    rank_order::RankOrder,
};
use crate::chance::{Chance, affordable, shuffled};

impl Evidence {
    /// The comparison of the main score with those of permuted labels. `None` if it is unknown: for
    /// a mean over items that an earlier version stored, or a metric without labels.
    pub fn chance(&self) -> Option<Chance> {
        match self {
            Self::Mean { chance, .. } => *chance,
            Self::Spearman { gold, predicted, .. } => {
                Some(correlations_within([(gold.as_slice(), widened(predicted))]))
            }
            Self::AveragePrecision { labels, similarities } => Some(of_precision(labels, similarities)),
            Self::VMeasure { classes, clusterings } => Some(of_clusterings(classes, clusterings)),
            Self::Nearest { nearest } => {
                let hits = |partners: &[u32]| nearest.iter().zip(partners).filter(|(a, b)| a == b).count() as f64;
                let partners: Vec<u32> = (0..nearest.len()).map(number).collect();
                Some(Chance::of_labels(&partners, hits))
            }
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The ranks of values around their mean, as a vector of length 1; empty if all values are equal.
fn unit_ranks(values: &[f64]) -> Vec<f64> {
    let ranks = RankOrder::ascending(values).average_ranks(&vec![1.0; values.len()]);
    let mean = (values.len() as f64 + 1.0) / 2.0;
    let length = ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 {
        return Vec::new();
    }
    ranks.into_iter().map(|rank| (rank - mean) / length).collect()
}

/// Sum of Spearman's correlations of gold scores with predictions over the groups, compared with
/// that of gold scores permuted within their groups. A group of equal values is left out.
pub(crate) fn correlations_within<'a, P: AsRef<[f64]>>(groups: impl IntoIterator<Item = (&'a [f64], P)>) -> Chance {
    let groups: Vec<(Vec<f64>, Vec<f64>)> = groups
        .into_iter()
        .map(|(gold, predicted)| (unit_ranks(gold), unit_ranks(predicted.as_ref())))
        .collect();
    let visited = affordable(groups.iter().map(|(gold, _)| gold.len()));
    let groups = &groups[..visited.min(groups.len())];
    let correlation = |gold: &[f64], predicted: &[f64]| gold.iter().zip(predicted).map(|(a, b)| a * b).sum::<f64>();
    let observed = groups
        .iter()
        .map(|(gold, predicted)| correlation(gold, predicted))
        .sum();
    Chance::test(observed, |rng| {
        let permuted = groups
            .iter()
            .map(|(gold, predicted)| correlation(&shuffled(rng, gold), predicted));
        permuted.sum()
    })
}

/// Sum of the average precisions of scores over the groups, compared with that of labels permuted
/// within their groups.
pub(crate) fn precisions_within<'a>(groups: impl IntoIterator<Item = (&'a [f64], Vec<bool>)>) -> Chance {
    let groups: Vec<(RankOrder, Vec<bool>)> = groups
        .into_iter()
        .map(|(scores, labels)| (RankOrder::descending(scores), labels))
        .collect();
    let visited = affordable(groups.iter().map(|(_, labels)| labels.len()));
    let groups = &groups[..visited.min(groups.len())];
    let precision = |ranked: &RankOrder, labels: &[bool]| {
        let weights = vec![1.0; labels.len()];
        ranked.average_precision(labels, &weights).unwrap_or(0.0)
    };
    let observed = groups.iter().map(|(ranked, labels)| precision(ranked, labels)).sum();
    Chance::test(observed, |rng| {
        let permuted = groups
            .iter()
            .map(|(ranked, labels)| precision(ranked, &shuffled(rng, labels)));
        permuted.sum()
    })
}

fn of_precision(labels: &[bool], similarities: &[Vec<f32>]) -> Chance {
    let ranked: Vec<RankOrder> = similarities
        .iter()
        .map(|own| RankOrder::descending(&widened(own)))
        .collect();
    let weights = vec![1.0; labels.len()];
    let best = |labels: &[bool]| {
        let each = ranked.iter().filter_map(|own| own.average_precision(labels, &weights));
        each.fold(f64::NAN, f64::max)
    };
    Chance::of_labels(labels, best)
}

/// Compares the V-measure. Classes are permuted among the items that a chain of clusterings
/// connects, so that the items of separate sets keep their classes.
fn of_clusterings(classes: &[u32], clusterings: &[Clustering]) -> Chance {
    let mut numbers = Numbers::default();
    let classes: Vec<u32> = classes.iter().map(|class| numbers.of(*class)).collect();
    let tables: Vec<Table> = clusterings.iter().map(|one| Table::new(&classes, one)).collect();
    let mut memberships: Vec<Vec<u32>> = vec![Vec::new(); classes.len()];
    for (clustering, one) in (0_u32..).zip(clusterings) {
        for item in &one.items {
            if let Some(own) = memberships.get_mut(*item as usize) {
                own.push(clustering);
            }
        }
    }
    let mut blocks: Vec<Vec<usize>> = vec![Vec::new(); classes.len()];
    for (item, block) in clusters(memberships).into_iter().enumerate() {
        blocks[block as usize].push(item);
    }
    let weights = vec![1.0; classes.len()];
    let score = |classes: &[u32]| {
        let tables: Vec<Table> = tables.iter().map(|table| table.relabelled(classes)).collect();
        v_measure(&tables, &weights).unwrap_or(f64::NAN)
    };
    Chance::test(score(&classes), |rng| {
        let mut permuted = classes.clone();
        for block in &blocks {
            let own: Vec<u32> = block.iter().map(|item| classes[*item]).collect();
            for (item, class) in block.iter().zip(shuffled(rng, &own)) {
                permuted[*item] = class;
            }
        }
        score(&permuted)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_stats::random::{stream, uniform};

    use super::*;

    /// Evidence of each kind on 60 items whose labels are `related` to their values, or drawn
    /// independently.
    fn kinds(related: bool) -> [Evidence; 4] {
        let mut rng = stream(3, 0);
        let values: Vec<f64> = (0..60).map(|_| uniform(&mut rng)).collect();
        let labels: Vec<f64> = values
            .iter()
            .map(|value| {
                if related {
                    *value + 0.4 * uniform(&mut rng)
                } else {
                    uniform(&mut rng)
                }
            })
            .collect();
        let cluster = |value: &f64| (value * 4.0) as u32;
        let items: Vec<u32> = (0..60).collect();
        [
            Evidence::Spearman {
                gold: labels.clone(),
                predicted: values.iter().map(|v| *v as f32).collect(),
                points: Vec::new(),
            },
            Evidence::AveragePrecision {
                labels: labels.iter().map(|label| *label > 0.6).collect(),
                similarities: vec![values.iter().map(|v| *v as f32).collect(); 2],
            },
            Evidence::VMeasure {
                classes: labels.iter().map(cluster).collect(),
                clusterings: vec![
                    Clustering {
                        items: items.clone(),
                        clusters: values.iter().map(cluster).collect(),
                        counts: Vec::new(),
                    };
                    2
                ],
            },
            Evidence::Nearest {
                nearest: items
                    .iter()
                    .map(|item| {
                        if related && item % 3 == 0 {
                            *item
                        } else {
                            (item * 7 + 3) % 60
                        }
                    })
                    .collect(),
            },
        ]
    }

    #[test]
    fn related_labels_beat_chance_and_unrelated_ones_do_not() {
        for (related, unrelated) in kinds(true).iter().zip(kinds(false)) {
            let (related, unrelated) = (related.chance().unwrap(), unrelated.chance().unwrap());
            assert_eq!(related.p_above(), 0.001, "{related:?}");
            assert!(
                unrelated.p_above() > 0.05 && unrelated.p_below() > 0.01,
                "{unrelated:?}"
            );
        }
    }

    #[test]
    fn inverted_labels_are_below_chance() {
        let [spearman, precision, ..] = kinds(true);
        let Evidence::Spearman {
            gold,
            predicted,
            points,
        } = spearman
        else {
            unreachable!()
        };
        let gold = gold.iter().map(|gold| -gold).collect();
        let inverted = Evidence::Spearman {
            gold,
            predicted,
            points,
        }
        .chance()
        .unwrap();
        let Evidence::AveragePrecision { labels, similarities } = precision else {
            unreachable!()
        };
        let labels = labels.iter().map(|label| !label).collect();
        let other = Evidence::AveragePrecision { labels, similarities }.chance().unwrap();
        assert_eq!([inverted.p_below(), other.p_below()], [0.001; 2]);
        assert_eq!([inverted.p_above(), other.p_above()], [1.0; 2]);
    }

    #[test]
    fn an_exact_p_value_of_six_pairs_is_met() {
        // Of the 720 orders of six ranks, the sorted one alone has a correlation of 1, and 5 orders
        // have a correlation of at least 0.942857 (scipy: 33/35 or more).
        let chance = |gold: [f64; 6]| {
            let predicted = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            let evidence = Evidence::Spearman {
                gold: gold.to_vec(),
                predicted,
                points: Vec::new(),
            };
            evidence.chance().unwrap().p_above()
        };
        let near = |found: f64, exact: f64| (found - exact).abs() < 0.01;
        assert!(near(chance([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 1.0 / 720.0));
        assert!(near(chance([2.0, 1.0, 3.0, 4.0, 5.0, 6.0]), 6.0 / 720.0));
    }

    #[test]
    fn items_of_separate_sets_keep_their_labels() {
        // In each set all items have one label and one cluster. So no permutation within the sets
        // changes anything, although one over both sets would.
        let set = |items: [u32; 3], cluster: u32| Clustering {
            items: items.to_vec(),
            clusters: vec![cluster; 3],
            counts: Vec::new(),
        };
        let evidence = Evidence::VMeasure {
            classes: vec![0, 0, 0, 1, 1, 1],
            clusterings: vec![set([0, 1, 2], 0), set([3, 4, 5], 0)],
        };
        assert_eq!(evidence.chance().unwrap().p_above(), 1.0);
    }
}
