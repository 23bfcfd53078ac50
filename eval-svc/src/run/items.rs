//! The profile with its intervals: items of the data sets, and the evidence of their scores from the store.

use std::collections::HashMap;

use super::{
    measure::Scored,
    plan::{Plan, Table, Variant},
    summary,
    transform::Transformed,
    units::UnitStore,
};
use crate::{
    change::Change,
    evidence::{
        Evidence,
        clusters::clusters,
        subset::{Mask, items_where},
    },
    gate::{Bound, ItemStrata, Quantity, Unit},
    profile::{self, DatasetItems, Figure, RobustnessProfile, UnitItems, add_intervals},
};

/// Makes the profile.
pub(super) fn profile(
    plan: &Plan,
    transformed: &Transformed,
    scored: &[Scored],
    units: &UnitStore,
) -> RobustnessProfile {
    let grid = summary::grid(plan, scored);
    let mut profile = profile::profile(&grid, plan.baseline);
    let items = all_items(plan, transformed);
    let addresses = addresses(scored);
    add_intervals(&mut profile, &grid, &items, |encoder, table| {
        evidence(plan, units, &addresses, encoder, table)
    });
    profile
}

/// Addresses of the stored scores.
type Addresses<'a> = HashMap<(usize, usize, Variant), &'a str>;

fn addresses(scored: &[Scored]) -> Addresses<'_> {
    scored
        .iter()
        .map(|one| ((one.encoder, one.table, one.variant), one.unit.as_str()))
        .collect()
}

fn all_items(plan: &Plan, transformed: &Transformed) -> Vec<DatasetItems> {
    plan.tables
        .iter()
        .map(|table| items(plan, transformed, table))
        .collect()
}

/// What the scores of an encoder on a data set are made of.
fn evidence(
    plan: &Plan,
    units: &UnitStore,
    addresses: &Addresses<'_>,
    encoder: usize,
    table: usize,
) -> Result<UnitItems, String> {
    let one = |variant: Variant| -> Result<Evidence, String> {
        let address = addresses.get(&(encoder, table, variant));
        address
            .and_then(|address| units.evidence(address))
            .ok_or_else(|| format!("no items are kept for {}", plan.describe(variant)))
    };
    let of_transformation = |transformation: usize| {
        (0..plan.suite.seeds.len())
            .map(|seed| one(Variant::Transformed { transformation, seed }))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(UnitItems {
        original: one(Variant::Original)?,
        transformed: (0..plan.transformations.len())
            .map(of_transformation)
            .collect::<Result<_, _>>()?,
    })
}

/// What the gate's rules over items look at, for each judged encoder. Such rules are decided once, when everything is in.
pub(super) fn of_rules(
    plan: &Plan,
    gate: &Bound,
    transformed: &Transformed,
    scored: &[Scored],
    units: &UnitStore,
) -> ItemStrata {
    let mut all = ItemStrata::new();
    if gate.rules.iter().all(|rule| rule.unit == Unit::Group) {
        return all;
    }
    let grid = summary::grid(plan, scored);
    let items = all_items(plan, transformed);
    let addresses = addresses(scored);
    for &encoder in &gate.judged {
        for (r, rule) in gate
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.unit == Unit::Item)
        {
            let figure = match rule.quantity {
                Quantity::Original => Figure::Original,
                Quantity::Total => Figure::Total,
                Quantity::Axis(axis) => Figure::Axis(axis),
                Quantity::Transformation(column) => Figure::Transformation(column),
                // Decided over texts, by separation itself.
                Quantity::Separation(_) => continue,
            };
            let found = profile::strata(
                &grid,
                encoder,
                (figure, rule.is_drop()),
                &rule.datasets,
                &items,
                |table| evidence(plan, units, &addresses, encoder, table),
            );
            all.insert((encoder, r), found);
        }
    }
    all
}

fn items(plan: &Plan, transformed: &Transformed, table: &Table) -> DatasetItems {
    let texts = table.dataset.item_texts();
    let distinct = texts.iter().map(|own| {
        let numbers = own.iter().filter_map(|text| table.texts.get(*text as usize));
        numbers.copied().collect::<Vec<u32>>()
    });
    let changed = |t: usize, s: usize| changed(plan, transformed, table, &texts, t, s);
    DatasetItems {
        clusters: clusters(distinct),
        changed: (0..plan.transformations.len())
            .map(|t| (0..plan.suite.seeds.len()).map(|s| changed(t, s)).collect())
            .collect(),
    }
}

/// The items all of whose transformed texts changed.
fn changed(plan: &Plan, transformed: &Transformed, table: &Table, texts: &[Vec<u32>], t: usize, s: usize) -> Mask {
    let requests = table.requests.of(&plan.transformations[t]);
    let request = |text: u32| requests.get(text as usize).copied().flatten();
    let asked: Vec<Vec<u32>> = texts
        .iter()
        .map(|own| own.iter().copied().filter(|text| request(*text).is_some()).collect())
        .collect();
    items_where(asked.iter().map(Vec::as_slice), |text| {
        let made = request(text).and_then(|request| transformed.get(t, s, request));
        made.is_some_and(|made| made.change != Change::Unchanged)
    })
}
