//! The chart of `diff.html`: decisions that became wrong and right.

use super::{Diff, DiffRow};
use crate::charts::{Figure, FlipBlock, FlipRow, flips};

/// The chart with its caption; none without decisions.
pub(super) fn figures(diff: &Diff) -> Vec<Figure> {
    let texts = diff
        .rows
        .iter()
        .filter_map(|one| row(one.transformation.as_deref().unwrap_or("original"), one));
    let original = |one: &&DiffRow| one.transformation.is_none();
    let datasets = diff
        .datasets
        .iter()
        .filter_map(|own| row(&own.dataset, own.rows.iter().find(original)?));
    let mut blocks = vec![FlipBlock {
        heading: "All data sets",
        rows: texts.collect(),
    }];
    if diff.datasets.len() > 1 {
        blocks.push(FlipBlock {
            heading: "Original texts by data set",
            rows: datasets.collect(),
        });
    }
    blocks.retain(|block| !block.rows.is_empty());
    if blocks.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        title: "Flips.".to_owned(),
        caption: "Decisions that became wrong and right, as a share of all decisions, with their number. A decision is an item \
                  under a seed."
            .to_owned(),
        marks: &[],
        wide: false,
        svg: flips(&blocks),
    }]
}

fn row(name: &str, row: &DiffRow) -> Option<FlipRow> {
    let flips = row.flips.as_ref()?;
    Some(FlipRow {
        name: name.to_owned(),
        decisions: flips.decisions,
        wrong: flips.negative,
        right: flips.positive,
    })
}
