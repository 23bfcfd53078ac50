//! A rule on the worst data set, or group of data sets: each is compared with the limit separately.

use super::{Unit, look::RuleCase};
use crate::{
    profile::Grid,
    report::{GateVerdict, RuleVerdict},
    stats::{
        StatsError,
        gate::worst::{Worst, worst_items, worst_points},
    },
};

/// Data sets of a rule by group, in the order of their first members: the name, and positions among
/// the rule's data sets.
fn groups(grid: &Grid, datasets: &[usize]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for (position, &dataset) in datasets.iter().enumerate() {
        match groups
            .iter_mut()
            .find(|(first, _)| grid.groups[*first] == grid.groups[dataset])
        {
            Some((_, own)) => own.push(position),
            None => groups.push((dataset, vec![position])),
        }
    }
    let name = |first: usize, own: &[usize]| match own.len() {
        1 => grid.datasets[first].clone(),
        _ => grid.groups[first].clone(),
    };
    groups
        .into_iter()
        .map(|(first, own)| (name(first, &own), own))
        .collect()
}

/// Decides the rule; `series` has one entry per group.
pub(super) fn decide(case: RuleCase<'_>, series: &[Vec<f64>], mut verdict: RuleVerdict) -> RuleVerdict {
    let rule = case.rule;
    let groups = groups(case.grid, &rule.datasets);
    let limit = rule.rule.held();
    let found: Result<Worst, String> = match rule.unit {
        Unit::Group => worst_points(limit, series).map_err(|error| refused(&error)),
        Unit::Item => match case.look.items.get(&case.key()) {
            Some(Ok(strata)) => {
                let own = |places: &Vec<usize>| places.iter().filter_map(|p| strata.get(*p)).cloned().collect();
                let units: Vec<Vec<_>> = groups.iter().map(|(_, places)| own(places)).collect();
                worst_items(limit, verdict.alpha, &units).map_err(|error| refused(&error))
            }
            Some(Err(why)) => Err(format!("no decision over items is possible: {why}")),
            None => Err("no decision over items is possible: the items are not known".to_owned()),
        },
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            verdict.note = Some(why);
            return verdict;
        }
    };
    verdict.verdict = GateVerdict::from(found.verdict);
    verdict.units = found.units.len();
    if let Some(unit) = found.units.get(found.worst) {
        verdict.estimate = Some(unit.estimate);
        (verdict.low, verdict.high) = (unit.bounds.map(|own| own.0), unit.bounds.map(|own| own.1));
    }
    let name = groups.get(found.worst).map_or("", |(name, _)| name.as_str());
    let open: Vec<&str> = groups
        .iter()
        .zip(&found.units)
        .filter(|(_, unit)| GateVerdict::from(unit.verdict) == GateVerdict::Undecided)
        .map(|((name, _), _)| name.as_str())
        .collect();
    let undecided = match open.as_slice() {
        [] => String::new(),
        some => format!("; undecided on {}", some.join(", ")),
    };
    verdict.note = Some(format!("{name} drops most{undecided}"));
    verdict
}

fn refused(error: &StatsError) -> String {
    format!("no decision is possible: {error}")
}
