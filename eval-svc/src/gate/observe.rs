//! A rule's observations from a grid of scores: one series per data set, with one value per seed.

use super::{
    Measure, Texts,
    bound::{BoundRule, Quantity},
    look::RuleCase,
};
use crate::{
    profile::{Grid, axis_series, total_series},
    stats::gate::bounded::Range,
};

/// Scores of a data set, one per completed seed; one value for originals, which have no seeds.
fn scores(grid: &Grid, encoder: usize, dataset: usize, quantity: Quantity, seeds: usize) -> Vec<f64> {
    let mut series = match quantity {
        Quantity::Original => return vec![grid.original[encoder][dataset]],
        // Separation is not a score: `sensitivity` decides such rules.
        Quantity::Separation(_) => return Vec::new(),
        Quantity::Total => total_series(grid, encoder, dataset).unwrap_or_default(),
        Quantity::Axis(axis) => axis_series(grid, encoder, dataset, axis),
        Quantity::Transformation(column) => grid.transformed[encoder][dataset][column].clone(),
    };
    series.truncate(seeds);
    series
}

/// A rule's values on a data set, one per seed.
fn values(case: RuleCase<'_>, dataset: usize) -> Result<Vec<f64>, String> {
    let RuleCase {
        grid,
        look,
        encoder,
        rule,
        ..
    } = case;
    if rule.rule.texts == Texts::All {
        return Ok(scores(grid, encoder, dataset, rule.quantity, look.seeds));
    }
    let position = rule.datasets.iter().position(|own| *own == dataset);
    match (look.subsets.get(&case.key()), position) {
        (Some(Ok(all)), Some(position)) => {
            let mut values = all.get(position).cloned().unwrap_or_default();
            values.truncate(look.seeds);
            Ok(values)
        }
        (Some(Err(why)), _) => Err(why.clone()),
        _ => Err("the items whose texts it looks at are not known".to_owned()),
    }
}

/// The values that a rule compares with its limit, for one encoder: for each group of its data sets
/// with results, one value per seed. Members of a group are averaged, since the languages of a data
/// set are not independent draws.
///
/// # Errors
/// The reason why such a number does not exist, for a reader of the report: the rule is invalid.
pub(super) fn observations(case: RuleCase<'_>, datasets: &[usize]) -> Result<Vec<Vec<f64>>, String> {
    let (grid, encoder, rule) = (case.grid, case.encoder, case.rule);
    let mut all = Vec::with_capacity(datasets.len());
    for &dataset in datasets {
        let name = &grid.datasets[dataset];
        let own = values(case, dataset)?;
        let original = grid.original[encoder][dataset];
        let series: Vec<f64> = match rule.rule.limit.measure() {
            Measure::Score | Measure::Separation => own,
            // On a subset of the rewrites, the values are drops already.
            Measure::Drop if rule.rule.texts != Texts::All => own,
            Measure::Drop => own.iter().map(|score| original - score).collect(),
            Measure::DropPercent => {
                if original <= 0.0 {
                    return Err(format!(
                        "the original score on {name} is {original:.1}: a drop in percent of it means nothing; use max_drop"
                    ));
                }
                own.iter().map(|score| (original - score) / original * 100.0).collect()
            }
            // Their values are those of items, which `report::paired_strata` computes.
            Measure::NegativeFlips | Measure::Overlap => {
                return Err("it is about items, not about scores".to_owned());
            }
            Measure::Difference => {
                let Some(baseline) = case.gate.baseline else {
                    return Err("no baseline encoder was named".to_owned());
                };
                let of_baseline = RuleCase {
                    encoder: baseline,
                    ..case
                };
                let other = values(of_baseline, dataset)?;
                own.iter().zip(other).map(|(own, other)| own - other).collect()
            }
        };
        if series.is_empty() || series.iter().any(|value| !value.is_finite()) {
            return Err(format!("a score on {name} is not a number"));
        }
        all.push((grid.groups[dataset].as_str(), series));
    }
    Ok(by_group(all))
}

/// The range of a group's value: scores lie between −100 and 100 points.
pub(super) fn range(rule: &BoundRule, grid: &Grid, encoder: usize, datasets: &[usize]) -> Range {
    let (least, most) = (-100.0, 100.0);
    let score = Range { low: least, high: most };
    let of_dataset = |dataset: &usize| {
        let original = grid.original[encoder][*dataset];
        match rule.rule.limit.measure() {
            Measure::Score | Measure::Separation => score,
            // On a subset of the items, the original may have any score.
            Measure::Drop if rule.rule.texts != Texts::All => Range {
                low: least - most,
                high: most - least,
            },
            Measure::Drop => Range::of_drop(original, least, most),
            Measure::DropPercent => {
                let points = Range::of_drop(original, least, most);
                Range {
                    low: points.low / original * 100.0,
                    high: points.high / original * 100.0,
                }
            }
            Measure::NegativeFlips | Measure::Overlap => Range { low: 0.0, high: most },
            Measure::Difference => Range {
                low: least - most,
                high: most - least,
            },
        }
    };
    datasets.iter().map(of_dataset).reduce(Range::union).unwrap_or(score)
}

/// The mean of each group's members, seed by seed, in the order of their first members.
fn by_group(all: Vec<(&str, Vec<f64>)>) -> Vec<Vec<f64>> {
    let mut groups: Vec<(&str, Vec<Vec<f64>>)> = Vec::new();
    for (group, series) in all {
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(series),
            None => groups.push((group, vec![series])),
        }
    }
    let mean = |members: Vec<Vec<f64>>| -> Vec<f64> {
        let seeds = members.first().map_or(0, Vec::len);
        let of_seed = |s: usize| members.iter().map(|own| own[s]).sum::<f64>() / members.len() as f64;
        (0..seeds).map(of_seed).collect()
    };
    groups.into_iter().map(|(_, members)| mean(members)).collect()
}
