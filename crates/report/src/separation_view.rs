//! The section on separation of `report.html`.

use minijinja::{Value, context};

use super::{
    Report, SeparationRow,
    format::{percent, share, signed_fine},
};

/// The values for the template; `None` if separation was not measured.
pub(super) fn view(report: &Report) -> Option<Value> {
    let separation = report.separation.as_ref()?;
    let encoders: Vec<Value> = separation
        .encoders
        .iter()
        .map(|one| {
            context! {
                encoder => one.encoder.clone(),
                sentence => one.sentence(),
                rows => one.rows().map(row).collect::<Vec<Value>>(),
                datasets => one.datasets.iter().map(row).collect::<Vec<Value>>(),
            }
        })
        .collect();
    Some(context! {
        encoders,
        asked => separation.asked_sentences(),
        most => separation.texts_per_dataset,
        words => separation.most_words,
        counted => separation.transformations.join(", "),
    })
}

fn row(row: &SeparationRow) -> Value {
    context! {
        of => row.of_text(),
        share => row.share_text(),
        interval => row.interval_text(),
        texts => row.texts,
        comparisons => row.comparisons,
        unsure => row.tied + row.undefined,
        margin => row.margin.map_or("–".to_owned(), signed_fine),
        overlap => row.overlap_alone.map_or("–".to_owned(), share),
        nearer => row.nearer_than_change.map_or("–".to_owned(), percent),
    }
}
