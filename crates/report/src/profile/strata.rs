//! The values of a rule over items: each data set is a stratum of items, or of a figure with its
//! standard error.
//!
//! If every score of the rule is a mean over items, the stratum has one value for each item: the
//! rule's sum over the scores of that item. Items that share a text are one cluster. For scores
//! that are not means over items (a rank correlation, average precision, V-measure) the stratum has
//! the figure and the standard error from resampling the items.

use std::collections::BTreeMap;

use super::{
    Axis, Grid,
    items::{DatasetItems, Replicates, Sum, UnitItems},
    subsets,
};
use crate::{
    evidence::{Evidence, interval::ResampledDifference},
    stats::gate::{
        bounded::Range,
        items::{Cluster, Evidence as StratumEvidence, Stratum},
    },
    terms::Texts,
};

/// The quantity that a rule computes from the scores of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The original score.
    Original,
    Total,
    Axis(Axis),
    /// One transformation, by position.
    Transformation(usize),
}

/// An encoder and the baseline that it is compared with, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderPair {
    pub encoder: usize,
    pub baseline: usize,
}

/// The strata of one encoder: one for each data set; the members of a group share the group's
/// weight.
///
/// # Errors
/// The reason why a data set has none, as a message.
pub fn strata(
    grid: &Grid,
    e: usize,
    (figure, drop): (Figure, bool),
    texts: Texts,
    datasets: &[usize],
    items: &[DatasetItems],
    mut evidence: impl FnMut(usize) -> Result<UnitItems, String>,
) -> Result<Vec<Stratum>, String> {
    let sum = Sum::of_rule(grid, figure, drop);
    each(grid, datasets, items, |d, own| {
        let unit = evidence(d)?;
        let range = range(&grid.tasks[d], drop);
        match texts.masks(own) {
            Some(masks) => subsets::evidence(grid, (figure, drop), (&grid.datasets[d], own, masks), &unit, range),
            None => {
                let scored = grid.scores(e, d).into_iter().zip(unit.all()).collect();
                of_scores(own, &grid.datasets[d], &sum, scored, range)
            }
        }
    })
}

/// The strata of an encoder's score minus that of the baseline, item by item. Encoders that agree
/// on every item of every data set count as one encoder: other items would not distinguish them
/// either.
///
/// # Errors
/// The reason why a data set has none, as a message.
pub fn margin_strata(
    grid: &Grid,
    encoders: EncoderPair,
    figure: Figure,
    datasets: &[usize],
    items: &[DatasetItems],
    evidence: impl Fn(usize, usize) -> Result<UnitItems, String>,
) -> Result<Vec<Stratum>, String> {
    let EncoderPair { encoder, baseline } = encoders;
    let sum = Sum::of_rule(grid, figure, false).less_itself();
    let mut same = true;
    let mut strata = each(grid, datasets, items, |d, own| {
        let (new, old) = (evidence(encoder, d)?, evidence(baseline, d)?);
        same &= new == old;
        let scores = [grid.scores(encoder, d), grid.scores(baseline, d)].concat();
        let scored = scores.into_iter().zip(new.all().chain(old.all()));
        // A difference of two scores has the range of a drop.
        of_scores(
            own,
            &grid.datasets[d],
            &sum,
            scored.collect(),
            range(&grid.tasks[d], true),
        )
    })?;
    for stratum in strata.iter_mut().filter(|_| same) {
        let freedom = match &stratum.evidence {
            StratumEvidence::Items { clusters, .. } => clusters.len() as f64,
            StratumEvidence::Measured { freedom, .. } => *freedom,
        };
        stratum.evidence = StratumEvidence::Measured {
            estimate: 0.0,
            standard_error: 0.0,
            freedom,
        };
    }
    Ok(strata)
}

/// One stratum for each data set.
fn each(
    grid: &Grid,
    datasets: &[usize],
    items: &[DatasetItems],
    mut known: impl FnMut(usize, &DatasetItems) -> Result<StratumEvidence, String>,
) -> Result<Vec<Stratum>, String> {
    let mut of_dataset = |d: usize, weight: f64| {
        let own = items.get(d).ok_or_else(|| "its items are not known".to_owned())?;
        let evidence = known(d, own)?;
        Ok(Stratum { weight, evidence })
    };
    let groups: Vec<&str> = datasets.iter().map(|d| grid.groups[*d].as_str()).collect();
    datasets
        .iter()
        .zip(group_weights(&groups))
        .map(|(d, weight)| of_dataset(*d, weight).map_err(|why: String| format!("{}: {why}", grid.datasets[*d])))
        .collect()
}

/// Weights of data sets, by the group of each: the members of a group share the group's weight.
pub fn group_weights(groups: &[&str]) -> Vec<f64> {
    let members = |group: &str| groups.iter().filter(|other| **other == group).count();
    groups.iter().map(|group| 1.0 / members(group) as f64).collect()
}

/// The stratum of a sum over scores in points, each with its evidence.
fn of_scores(
    items: &DatasetItems,
    dataset: &str,
    sum: &Sum,
    scored: Vec<(f64, &Evidence)>,
    range: Range,
) -> Result<StratumEvidence, String> {
    if let Some(values) = values(sum, scored.iter().map(|(_, evidence)| *evidence)) {
        return Ok(StratumEvidence::Items {
            clusters: clusters(&items.clusters, &values),
            range,
        });
    }
    // Scores that do not count are not resampled.
    let counted = sum.terms().iter().zip(scored).filter(|(term, _)| **term != 0.0);
    let (terms, (scores, evidence)): (Vec<f64>, (Vec<f64>, Vec<&Evidence>)) = counted.unzip();
    known(Replicates::of(scores, &evidence, &items.clusters, dataset)?.resampled(&Sum(terms)))
}

/// The range of an item's value, in points. A correlation within a text is between −1 and 1, every
/// other value of an item between 0 and 1.
pub fn range(task: &str, drop: bool) -> Range {
    let least = if task == "summarisation" { -100.0 } else { 0.0 };
    Range {
        low: if drop { least - 100.0 } else { least },
        high: if drop { 100.0 - least } else { 100.0 },
    }
}

/// The rule's sum on each item, in points; `None` if a score is not a mean over items.
pub(super) fn values<'a>(sum: &Sum, all: impl Iterator<Item = &'a Evidence>) -> Option<Vec<Option<f64>>> {
    let mut total: Option<Vec<Option<f64>>> = None;
    for (term, evidence) in sum.terms().iter().zip(all) {
        if *term == 0.0 {
            continue;
        }
        let Evidence::Mean { values, .. } = evidence else {
            return None;
        };
        let own = values.iter().map(|value| value.map(|value| term * value * 100.0));
        total = Some(match total {
            None => own.collect(),
            Some(before) => {
                // An item that only some of the scores omit has no sum: the means would be of
                // different items.
                if before.len() != values.len() || before.iter().zip(values).any(|(a, b)| a.is_some() != b.is_some()) {
                    return None;
                }
                before.into_iter().zip(own).map(|(a, b)| Some(a? + b?)).collect()
            }
        });
    }
    total
}

/// Items by cluster, excluding those without a value.
pub(crate) fn clusters(of: &[u32], values: &[Option<f64>]) -> Vec<Cluster> {
    let mut all: BTreeMap<u32, Cluster> = BTreeMap::new();
    for (cluster, value) in of.iter().zip(values) {
        if let Some(value) = value {
            let own = all.entry(*cluster).or_insert(Cluster { sum: 0.0, items: 0 });
            own.sum += value;
            own.items += 1;
        }
    }
    all.into_values().collect()
}

/// A figure with its standard error over resamples.
pub(super) fn known(resampled: Option<ResampledDifference>) -> Result<StratumEvidence, String> {
    let resampled = resampled.ok_or_else(|| "its score is undefined on too many resamples of its items".to_owned())?;
    let (estimate, standard_error, freedom) = (resampled.estimate(), resampled.standard_error(), resampled.freedom());
    if standard_error > 0.0 {
        return Ok(StratumEvidence::Measured {
            estimate,
            standard_error,
            freedom,
        });
    }
    // No resample changes the figure. A change that none of the clusters shows may still exist, and
    // only their number bounds it.
    let clusters = (freedom + 1.0).round().max(1.0) as usize;
    Ok(StratumEvidence::Items {
        clusters: vec![Cluster::from(estimate); clusters],
        range: Range {
            low: -200.0,
            high: 200.0,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stats::gate::{Limit, Verdict, items::decide_items};

    const NEW_AND_OLD: EncoderPair = EncoderPair {
        encoder: 0,
        baseline: 1,
    };

    fn grid() -> Grid {
        let columns = [("paraphrase", Axis::Lexical), ("summarisation", Axis::Length)];
        let mut grid = Grid::of(&["a"], &["x"], &columns, &[1, 2]);
        grid.tasks[0] = "retrieval".to_owned();
        grid.groups[0] = "x".to_owned();
        grid
    }

    fn unit(original: &[f64], paraphrase: [&[f64]; 2], summarisation: [&[f64]; 2]) -> UnitItems {
        let mean = |values: &[f64]| Evidence::mean(values, None);
        UnitItems {
            original: mean(original),
            transformed: vec![paraphrase.map(mean).to_vec(), summarisation.map(mean).to_vec()],
        }
    }

    fn of(figure: Figure, drop: bool, clusters: &[u32], unit: &UnitItems) -> Vec<Cluster> {
        let items = DatasetItems {
            clusters: clusters.to_vec(),
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let found = strata(&grid(), 0, (figure, drop), Texts::All, &[0], &[items], |_| {
            Ok(unit.clone())
        })
        .unwrap();
        match &found[0].evidence {
            StratumEvidence::Items { clusters, .. } => clusters.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_items_drop_is_the_rules_sum_over_its_scores() {
        let unit = unit(&[1.0, 0.5], [&[0.0, 0.5], &[1.0, 0.5]], [&[1.0, 0.0], &[0.0, 0.0]]);
        // Paraphrase: item 0 scores 0 and 1, mean 0.5: a drop of 50; summarisation 50 and 50;
        // total: the mean of both.
        let sums = |figure, drop| {
            of(figure, drop, &[0, 1], &unit)
                .iter()
                .map(|one| one.sum)
                .collect::<Vec<f64>>()
        };
        assert_eq!(sums(Figure::Transformation(0), true), [50.0, 0.0]);
        assert_eq!(sums(Figure::Total, true), [50.0, 25.0]);
        assert_eq!(sums(Figure::Axis(Axis::Length), false), [50.0, 0.0]);
        assert_eq!(sums(Figure::Original, false), [100.0, 50.0]);
    }

    #[test]
    fn members_of_a_group_share_its_weight() {
        assert_eq!(group_weights(&["a", "b", "a"]), [0.5, 1.0, 0.5]);
    }

    #[test]
    fn items_that_share_a_text_are_one_cluster() {
        let unit = unit(&[1.0; 3], [&[0.0, 1.0, 0.0]; 2], [&[1.0; 3]; 2]);
        let clusters = of(Figure::Transformation(0), true, &[4, 9, 4], &unit);
        assert_eq!(
            clusters,
            [Cluster { sum: 200.0, items: 2 }, Cluster { sum: 0.0, items: 1 }]
        );
    }

    #[test]
    fn a_collapse_fails_and_a_copy_passes_on_enough_items() {
        let n = 400;
        let kept = unit(&vec![1.0; n], [&vec![1.0; n]; 2], [&vec![1.0; n]; 2]);
        let lost = unit(&vec![1.0; n], [&vec![0.0; n]; 2], [&vec![0.0; n]; 2]);
        let items = DatasetItems {
            clusters: (0..n as u32).collect(),
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let verdict = |unit: &UnitItems| {
            let all = std::slice::from_ref(&items);
            let strata = strata(&grid(), 0, (Figure::Total, true), Texts::All, &[0], all, |_| {
                Ok(unit.clone())
            })
            .unwrap();
            decide_items(Limit::at_most(3.0), 0.05, &strata).unwrap().verdict
        };
        assert_eq!(verdict(&kept), Verdict::Pass);
        assert_eq!(verdict(&lost), Verdict::Fail);
    }

    #[test]
    fn a_margin_is_the_encoders_sum_less_the_baselines_item_by_item() {
        let mut grid = Grid::of(&["new", "old"], &["x"], &[("paraphrase", Axis::Lexical)], &[1]);
        grid.tasks[0] = "retrieval".to_owned();
        let items = DatasetItems {
            clusters: vec![0, 1, 2],
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let scores = [[[1.0, 0.5, 0.0], [0.5, 0.5, 0.0]], [[1.0, 1.0, 0.5], [0.0, 1.0, 0.0]]];
        let of = |figure| {
            let found = margin_strata(
                &grid,
                NEW_AND_OLD,
                figure,
                &[0],
                std::slice::from_ref(&items),
                |encoder, _| {
                    let [original, transformed] = scores[encoder];
                    Ok(UnitItems {
                        original: Evidence::mean(&original, None),
                        transformed: vec![vec![Evidence::mean(&transformed, None)]],
                    })
                },
            );
            match &found.unwrap()[0].evidence {
                StratumEvidence::Items { clusters, range } => {
                    assert_eq!((range.low, range.high), (-100.0, 100.0));
                    clusters.iter().map(|one| one.sum).collect::<Vec<f64>>()
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(of(Figure::Original), [0.0, -50.0, -50.0]);
        assert_eq!(of(Figure::Total), [50.0, -50.0, 0.0]);
    }

    #[test]
    fn a_margin_of_rank_correlations_is_resampled_over_pairs() {
        // The new encoder orders 60 pairs as the gold scores do, the old one at random: the margin
        // is the difference of the scores, with a spread.
        let gold: Vec<f64> = (0..60).map(f64::from).collect();
        let spearman = |order: &dyn Fn(u32) -> f32| Evidence::Spearman {
            gold: gold.clone(),
            predicted: (0..60).map(order).collect(),
            points: Vec::new(),
        };
        let (new, old) = (spearman(&|i| i as f32), spearman(&|i| (i * 37 % 60) as f32));
        let mut grid = Grid::of(&["new", "old"], &["x"], &[("paraphrase", Axis::Lexical)], &[1]);
        for (e, evidence) in [&new, &old].into_iter().enumerate() {
            let score = evidence.whole().unwrap() * 100.0;
            (grid.original[e][0], grid.transformed[e][0][0][0]) = (score, score);
        }
        let items = DatasetItems {
            clusters: (0..60).collect(),
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let found = margin_strata(&grid, NEW_AND_OLD, Figure::Original, &[0], &[items], |encoder, _| {
            let own = if encoder == 0 { &new } else { &old };
            Ok(UnitItems {
                original: own.clone(),
                transformed: vec![vec![own.clone()]],
            })
        });
        let StratumEvidence::Measured {
            estimate,
            standard_error,
            ..
        } = found.unwrap()[0].evidence
        else {
            panic!("a correlation is resampled")
        };
        assert!((estimate - (grid.original[0][0] - grid.original[1][0])).abs() < 1e-9);
        assert!((5.0..25.0).contains(&standard_error), "{standard_error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let items = DatasetItems {
            clusters: vec![0],
            changed: Vec::new(),
            accepted: Vec::new(),
        };
        let why = strata(&grid(), 0, (Figure::Total, true), Texts::All, &[0], &[items], |_| {
            Err("no items are kept".to_owned())
        })
        .unwrap_err();
        assert_eq!(why, "x: no items are kept");
    }
}
