//! Rounds of a run: the data sets and seeds of each look. Pure.
//!
//! Without a sequential gate there is one round with everything. With one,
//! [`crate::stats::gate::schedule`] determines the number of data sets and seeds of each round, and
//! [`super::order`] the order of the data sets.
//!
//! A look under one seed represents all seeds only if a seed's random draws are independent across
//! data sets. If something is drawn once per seed for all data sets (the target language of
//! `translation`), every round has all seeds.

use isomer_proto::eval::v1::GateSequential;

use super::{Layout, Variant, order::order};
use crate::{
    gate::{BoundGate, DatasetTask, spending},
    stats::gate::schedule,
};

/// A round: the cumulative data sets and seeds at its end, including earlier rounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Round {
    /// Its number, from 1.
    pub number: usize,
    /// Positions of the data sets, ascending.
    pub tables: Vec<usize>,
    /// Number of seeds, starting with the first.
    pub seeds: usize,
    /// Share of the full run's data sets x seeds.
    pub fraction: f64,
    /// Error probability that the look after the round may spend.
    pub alpha: f64,
}

impl Round {
    /// A single round with everything in the layout.
    pub(crate) fn whole(layout: &Layout, gate: Option<&BoundGate>) -> Self {
        Self {
            number: 1,
            tables: (0..layout.tables.len()).collect(),
            seeds: layout.suite.seeds.len(),
            fraction: 1.0,
            alpha: gate.map_or(0.0, |gate| gate.alpha),
        }
    }

    /// Variants of a data set that are in the round.
    pub(crate) fn variants(&self, layout: &Layout) -> Vec<Variant> {
        let seeded = |variant: &Variant| match variant {
            Variant::Original => true,
            Variant::Transformed { seed, .. } => *seed < self.seeds,
        };
        layout.variants().into_iter().filter(seeded).collect()
    }
}

/// The rounds of a run; the last has everything.
pub(crate) fn rounds(layout: &Layout, gate: Option<&BoundGate>) -> Vec<Round> {
    let (tables, seeds) = (layout.tables.len(), layout.suite.seeds.len());
    let alpha = gate.map_or(0.0, |gate| gate.alpha);
    let Some(spending) = gate.and_then(|gate| spending(gate.sequential)) else {
        return vec![Round::whole(layout, gate)];
    };
    let datasets: Vec<_> = layout
        .tables
        .iter()
        // By group, so that the members of a group are in the same round.
        .map(|table| DatasetTask {
            name: table.group(),
            task: table.dataset.task(),
        })
        .collect();
    let order = order(&datasets);
    let shared = layout
        .transformations
        .iter()
        .any(|planned| planned.transformation.draws_per_seed());
    let looks = looks(tables, seeds, shared);
    let shares = schedule::shares(&looks, spending, alpha);
    looks
        .into_iter()
        .zip(shares)
        .enumerate()
        .map(|(i, (look, alpha))| {
            let mut tables: Vec<usize> = order.iter().copied().take(look.units).collect();
            tables.sort_unstable();
            Round {
                number: i + 1,
                tables,
                seeds: look.seeds,
                fraction: look.fraction,
                alpha,
            }
        })
        .collect()
}

/// The looks; `all_seeds`: whether every look has all seeds.
fn looks(tables: usize, seeds: usize, all_seeds: bool) -> Vec<schedule::Round> {
    if !all_seeds {
        return schedule::rounds(tables, seeds);
    }
    schedule::rounds(tables, 1)
        .into_iter()
        .map(|look| schedule::Round { seeds, ..look })
        .collect()
}

/// Rows of each data set in the first round.
const FIRST: usize = 100;

/// Whether a gate is decided in rounds over items.
pub(crate) fn over_items(gate: &BoundGate) -> bool {
    gate.sequential == GateSequential::Betting
}

/// Rows of the largest data set.
pub(crate) fn rows(layout: &Layout) -> usize {
    let items = layout.tables.iter().map(|table| table.dataset.items());
    items.max().unwrap_or(0)
}

/// Maximum rows of each data set in rounds over items: doubled until the largest data set is
/// complete.
pub(crate) fn sizes(rows: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(FIRST), |size| size.checked_mul(2));
    let mut sizes: Vec<usize> = doubled.take_while(|size| *size < rows).collect();
    sizes.push(rows);
    sizes
}

/// The maximum number of looks of a gate.
pub(crate) fn most_looks(layout: &Layout, gate: &BoundGate) -> usize {
    if over_items(gate) { sizes(rows(layout)).len() } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_once_a_seed_puts_all_seeds_into_every_round() {
        let units_and_seeds = |all_seeds| -> Vec<(usize, usize)> {
            let looks = looks(16, 3, all_seeds);
            looks.iter().map(|look| (look.units, look.seeds)).collect()
        };
        assert_eq!(units_and_seeds(false), [(8, 1), (16, 1), (16, 2), (16, 3)]);
        assert_eq!(units_and_seeds(true), [(8, 3), (16, 3)]);
        assert_eq!(looks(16, 3, true)[0].fraction, 0.5);
    }

    #[test]
    fn rounds_double_until_everything_is_in() {
        assert_eq!(sizes(1000), [100, 200, 400, 800, 1000]);
        assert_eq!(sizes(800), [100, 200, 400, 800]);
        assert_eq!(sizes(100), [100]);
        assert_eq!(sizes(7), [7]);
    }
}
