//! The section on separation of `report.html`, and its chart.

use minijinja::{Value, context};

use super::{
    Report, SeparationRow, charts,
    format::{fine, percent, signed_fine},
};

/// The template, included by the page.
pub(super) const TEMPLATE: &str = include_str!("page/separation.html");

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
        chart => charts::plane(report).map(Value::from_safe_string),
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
        overlap => row.overlap_alone.map_or("–".to_owned(), fine),
        nearer => row.nearer_than_change.map_or("–".to_owned(), percent),
    }
}
