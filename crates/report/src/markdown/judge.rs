//! The judge's ratings, and their relation to drift.

use super::{Report, plain};
use crate::{
    JudgeReport, RatingRow,
    format::{fine, fine3, percent, signed_fine},
    text_table::{TextTable, dash},
};

pub(super) fn write(page: &mut String, report: &Report) {
    let Some(judge) = &report.judge else { return };
    page.push_str(&format!("## Judge\n\n{}", plain(&judge.sentence())));
    page.push_str(
        " Rating: mean ± sample SD over texts, a text's seeds averaged first. Drawn, no rating (no answer of the judge was one, or \
         it failed) and unchanged (not rated) are of texts × seeds.\n\n",
    );
    ratings(page, judge);
    page.push_str(
        "### Drift against ratings\n\nSpearman's ρ of drift (1 − cosine of a text and its rewrite) with its rating, over \
         texts, with its 95 % percentile bootstrap interval (1,000 resamples of texts; as HTEB, figure 3, with a judge in \
         place of human raters). Below 0: texts rated lower moved further. Near 0: vectors move regardless of the ratings.\n\n",
    );
    drift(page, judge);
}

fn all(dataset: Option<&String>) -> String {
    dataset.map_or("all".to_owned(), |name| plain(name))
}

fn ratings(page: &mut String, judge: &JudgeReport) {
    TextTable::of(&judge.ratings)
        .words("Transformation", |one| plain(&one.transformation))
        .words("Scale", |one| one.scale.title())
        .words("Dataset", |one| all(one.dataset.as_ref()))
        .number("Rating", RatingRow::rating_text)
        .number("Texts rated", |one| one.texts.to_string())
        .number("Drawn", |one| one.drawn.to_string())
        .number("No rating", |one| (one.unreadable + one.failed).to_string())
        .number("Unchanged", |one| {
            let share = one.unchanged as f64 / one.asked.max(1) as f64;
            format!("{} ({})", one.unchanged, percent(share))
        })
        .write(page);
}

fn drift(page: &mut String, judge: &JudgeReport) {
    TextTable::of(&judge.drift)
        .words("Encoder", |one| plain(&one.encoder))
        .words("Transformation", |one| plain(&one.transformation))
        .words("Scale", |one| one.scale.name().to_owned())
        .words("Dataset", |one| all(one.dataset.as_ref()))
        .words("Remark", |one| plain(&one.remark()))
        .number("ρ", |one| one.spearman.map_or_else(dash, signed_fine))
        .number("95 % interval", |one| match (one.low, one.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", signed_fine(low), signed_fine(high)),
            _ => dash(),
        })
        .number("n", |one| one.texts.to_string())
        .number("Mean rating", |one| one.mean_rating.map_or_else(dash, fine))
        .number("Mean drift", |one| one.mean_drift.map_or_else(dash, fine3))
        .write(page);
}
