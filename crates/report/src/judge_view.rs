//! The judge's section of `report.html`.

use minijinja::{Value, context};

use super::{
    DriftRating, JudgeReport, RatingRow, Report,
    format::{fine, fine3, signed_fine},
};

/// The values for the template.
pub(super) fn view(judge: &JudgeReport) -> Value {
    // Ratings over all data sets come first; those of one data set are in a fold.
    let rated = |whole: bool| -> Vec<Value> {
        let rows = judge.ratings.iter().filter(|row| row.dataset.is_none() == whole);
        rows.map(rating).collect()
    };
    let moved = |whole: bool| -> Vec<Value> {
        let rows = judge.drift.iter().filter(|row| row.dataset.is_none() == whole);
        rows.map(drift).collect()
    };
    context! {
        sentence => judge.sentence(),
        ratings => rated(true),
        drift => moved(true),
        ratings_each => rated(false),
        drift_each => moved(false),
    }
}

/// Ratings of each transformation over all data sets, per scale, for the last rows of another
/// table.
pub(super) fn feet(report: &Report) -> Vec<Value> {
    let foot = |scale: crate::terms::Scale| {
        let all = report.suite.transformations.iter();
        let cells: Vec<String> = all
            .map(|one| {
                let rating = report.rating_of(scale, &one.label);
                rating.map_or("–".to_owned(), RatingRow::rating_text)
            })
            .collect();
        context! { title => scale.title(), cells }
    };
    report.judged_scales().into_iter().map(foot).collect()
}

fn rating(row: &RatingRow) -> Value {
    context! {
        transformation => row.transformation.clone(),
        scale => row.scale.title(),
        dataset => row.dataset.clone(),
        rating => row.rating_text(),
        texts => row.texts,
        drawn => row.drawn,
        missing => row.unreadable + row.failed,
        unchanged => row.unchanged,
        share => if row.asked == 0 { 0.0 } else { row.unchanged as f64 / row.asked as f64 },
    }
}

fn drift(row: &DriftRating) -> Value {
    let interval = match (row.low, row.high) {
        (Some(low), Some(high)) => format!("[{}, {}]", signed_fine(low), signed_fine(high)),
        _ => "–".to_owned(),
    };
    context! {
        encoder => row.encoder.clone(),
        transformation => row.transformation.clone(),
        scale => row.scale.name(),
        dataset => row.dataset.clone(),
        rho => row.spearman.map_or("–".to_owned(), signed_fine),
        interval,
        texts => row.texts,
        rating => row.mean_rating.map_or("–".to_owned(), fine),
        drift => row.mean_drift.map_or("–".to_owned(), fine3),
        remark => row.remark(),
    }
}
