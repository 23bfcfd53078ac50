//! The scores of a run as a grid.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    profile::{Column, Grid},
    run::{
        plan::{Encoders, Layout, Variant},
        score::ScoreEntry,
    },
};
use isomer_report::terms::ChannelDose;

/// Arranges every score in the grid.
pub(crate) fn grid(layout: &Layout, encoders: &Encoders, scores: &[ScoreEntry]) -> Grid {
    let mut grid = Grid::new(
        encoders.ids().map(str::to_owned).collect(),
        layout
            .tables
            .iter()
            .map(|table| table.dataset.name().to_owned())
            .collect(),
        layout
            .transformations
            .iter()
            .map(|t| Column {
                noise: ChannelDose::of(&t.transformation),
                ..Column::new(&t.label, t.axis)
            })
            .collect(),
        layout.suite.seeds.clone(),
    );
    grid.variants = (0..encoders.len()).map(|e| encoders.is_variant(e)).collect();
    for (d, table) in layout.tables.iter().enumerate() {
        grid.groups[d] = table.group();
        grid.tasks[d] = table.dataset.task().name().to_owned();
        grid.languages[d] = table.dataset.language_group();
    }
    let mut digests: BTreeMap<(usize, usize), BTreeSet<&str>> = BTreeMap::new();
    for one in scores {
        let points = one.score.main * 100.0;
        match one.variant {
            Variant::Original => grid.original[one.encoder][one.table] = points,
            Variant::Transformed { transformation, seed } => {
                grid.transformed[one.encoder][one.table][transformation][seed] = points;
                digests
                    .entry((one.table, transformation))
                    .or_default()
                    .insert(&one.texts);
            }
        }
    }
    for ((table, transformation), texts) in digests {
        grid.same_texts[table][transformation] = texts.len() == 1 && layout.suite.seeds.len() > 1;
    }
    grid
}
