//! The judge's ratings, and their relation to drift.

use super::{Report, header, plain, row};
use crate::{
    JudgeReport,
    format::{fine, fine3, percent, signed_fine},
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
    let cells = [
        "Transformation",
        "Scale",
        "Dataset",
        "Rating",
        "Texts rated",
        "Drawn",
        "No rating",
        "Unchanged",
    ];
    header(page, &cells, 3);
    for one in &judge.ratings {
        let share = if one.asked == 0 {
            0.0
        } else {
            one.unchanged as f64 / one.asked as f64
        };
        row(
            page,
            &[
                plain(&one.transformation),
                one.scale.title(),
                all(one.dataset.as_ref()),
                one.rating_text(),
                one.texts.to_string(),
                one.drawn.to_string(),
                (one.unreadable + one.failed).to_string(),
                format!("{} ({})", one.unchanged, percent(share)),
            ],
        );
    }
    page.push('\n');
}

fn drift(page: &mut String, judge: &JudgeReport) {
    let cells = [
        "Encoder",
        "Transformation",
        "Scale",
        "Dataset",
        "Remark",
        "ρ",
        "95 % interval",
        "n",
        "Mean rating",
        "Mean drift",
    ];
    header(page, &cells, 5);
    for one in &judge.drift {
        let interval = match (one.low, one.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", signed_fine(low), signed_fine(high)),
            _ => "–".to_owned(),
        };
        row(
            page,
            &[
                plain(&one.encoder),
                plain(&one.transformation),
                one.scale.name().to_owned(),
                all(one.dataset.as_ref()),
                plain(&one.remark()),
                one.spearman.map_or("–".to_owned(), signed_fine),
                interval,
                one.texts.to_string(),
                one.mean_rating.map_or("–".to_owned(), fine),
                one.mean_drift.map_or("–".to_owned(), fine3),
            ],
        );
    }
    page.push('\n');
}
