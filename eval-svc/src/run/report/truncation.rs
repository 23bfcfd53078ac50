//! Truncated texts in the report.

use crate::{
    report::TruncationRow,
    run::{
        plan::{Encoders, Layout, Variant},
        score::ScoreEntry,
    },
};

/// One row per encoder, data set and variant, over all seeds. Texts that no transformation changes
/// have a separate row.
pub(crate) fn rows(layout: &Layout, encoders: &Encoders, scores: &[ScoreEntry]) -> Vec<TruncationRow> {
    let mut rows: Vec<TruncationRow> = Vec::new();
    for one in scores {
        let (Some(encoder), Some(table)) = (encoders.get(one.encoder), layout.tables.get(one.table)) else {
            continue;
        };
        let transformation = layout.label(one.variant).map(str::to_owned);
        let fixed = (one.variant == Variant::Original && one.cuts.fixed.texts > 0).then_some((true, one.cuts.fixed));
        for (fixed, count) in [(false, one.cuts.varied)].into_iter().chain(fixed) {
            let (encoder, dataset) = (encoder.encoder.id.as_str(), table.dataset.name());
            let known = rows.iter_mut().find(|row| {
                row.encoder == encoder
                    && row.dataset == dataset
                    && row.transformation == transformation
                    && row.fixed == fixed
            });
            match known {
                Some(row) => row.count.extend(count),
                None => rows.push(TruncationRow {
                    encoder: encoder.to_owned(),
                    dataset: dataset.to_owned(),
                    transformation: transformation.clone(),
                    fixed,
                    count,
                }),
            }
        }
    }
    rows
}
