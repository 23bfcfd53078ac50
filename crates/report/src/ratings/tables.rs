//! The result as tables of texts.

use super::{HumanRatings, RaterTable, VerdictCounts};
use crate::{
    DriftRating,
    format::{count, fine, fine3, share, signed_fine},
    text_table::{TextTable, dash},
    thresholds::target,
};

/// All tables that have rows.
pub(super) fn tables(ratings: &HumanRatings) -> Vec<TextTable> {
    let mut all = vec![
        people(ratings),
        shares(ratings),
        agreement(ratings),
        drift(ratings),
        thresholds(ratings),
    ];
    all.retain(|table| !table.rows.is_empty());
    all
}

fn number(value: Option<f64>, shown: fn(f64) -> String) -> String {
    value.map_or_else(dash, shown)
}

fn with_sd(mean: Option<f64>, sd: Option<f64>) -> String {
    match (mean, sd) {
        (Some(mean), Some(sd)) => format!("{} ± {}", fine(mean), fine(sd)),
        (mean, _) => number(mean, fine),
    }
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("[{}, {}]", signed_fine(low), signed_fine(high)),
        _ => dash(),
    }
}

fn scope(row: &RaterTable) -> String {
    row.transformation.clone().unwrap_or_else(|| "all".to_owned())
}

fn people(ratings: &HumanRatings) -> TextTable {
    let faithful = |own: &RaterTable| own.faithful as f64 / own.rated.max(1) as f64;
    let note = format!(
        "As HTEB, table 2: {}, by {}. Mean ± sample SD over all ratings of the raters; rewrites that the judge accepts and others are \
         weighted by their numbers in the run. Faithful: rated rewrites whose raters' mean is at least {}. AC2: Gwet's agreement of \
         the raters, ordinal weights. Judge: mean ± SD over all rewrites.",
        ratings.scale.title(),
        ratings.raters.join(", "),
        fine(ratings.accept)
    );
    TextTable::of(&ratings.rows)
        .words("Transformation", scope)
        .number("Rating", |own| with_sd(own.mean, own.sd))
        .number("Rewrites", |own| own.rated.to_string())
        .number("Ratings", |own| own.ratings.to_string())
        .number("Faithful", |own| format!("{} ({})", own.faithful, share(faithful(own))))
        .number("AC2", |own| number(own.ac2, fine))
        .number("Judge", |own| with_sd(own.judge_mean, own.judge_sd))
        .titled("Ratings by people", note)
}

fn shares(ratings: &HumanRatings) -> TextTable {
    let drawn = |own: VerdictCounts| {
        format!(
            "{} of {} of {}",
            own.faithful,
            own.drawn,
            count(super::headline::size(own.rewrites))
        )
    };
    let note = format!(
        "Faithful of drawn of all rewrites that the judge accepts, and of the others. Estimate: prediction-powered. Bound: exact, \
         one-sided, at {:.0} % for each row, whatever the judge's ratings are worth.",
        100.0 * ratings.confidence
    );
    TextTable::of(&ratings.rows)
        .words("Transformation", scope)
        .number("Judge accepts", |own| drawn(own.share.accepted))
        .number("Judge does not", |own| drawn(own.share.not_accepted))
        .number("Estimate", |own| number(own.share.estimate, share))
        .number("At least", |own| number(own.share.low, share))
        .titled("Share of faithful rewrites", note)
}

fn agreement(ratings: &HumanRatings) -> TextTable {
    TextTable::of(&ratings.rows)
        .words("Transformation", scope)
        .number("Both", |own| own.agreement.both.to_string())
        .number("Neither", |own| own.agreement.neither.to_string())
        .number("Judge only", |own| own.agreement.judge_only.to_string())
        .number("Raters only", |own| own.agreement.raters_only.to_string())
        .number("ρ", |own| number(own.agreement.spearman, signed_fine))
        .number("95 % interval", |own| interval(own.agreement.low, own.agreement.high))
        .number("Distance", |own| number(own.agreement.mean_absolute_error, fine))
        .words("Remark", |own| own.agreement.note.clone().unwrap_or_default())
        .titled(
            "The judge beside the raters",
            "Rated rewrites: accepted by both, by neither, by the judge only, by the raters only. Spearman's ρ of the judge's rating with \
             the raters' mean, with its 95 % percentile bootstrap interval over rewrites (1,000 resamples), and the mean distance of the \
             two.",
        )
}

fn drift(ratings: &HumanRatings) -> TextTable {
    TextTable::of(&ratings.drift)
        .words("Encoder", |own| own.encoder.clone())
        .words("Transformation", |own| own.transformation.clone())
        .number("ρ", |own| number(own.spearman, signed_fine))
        .number("95 % interval", |own| interval(own.low, own.high))
        .number("Texts", |own| own.texts.to_string())
        .number("Mean rating", |own| number(own.mean_rating, fine))
        .number("Mean drift", |own| number(own.mean_drift, fine3))
        .words("Remark", DriftRating::remark)
        .titled(
            "Drift against ratings",
            "As HTEB, figure 3: Spearman's ρ of drift (1 − cosine of a text and its rewrite) with the raters' mean, over texts, with its \
             95 % percentile bootstrap interval (1,000 resamples). Below 0: texts rated lower moved further.",
        )
}

fn thresholds(ratings: &HumanRatings) -> TextTable {
    TextTable::of(&ratings.thresholds)
        .words("Target", |own| target(own.target))
        .number("Threshold", |own| number(own.threshold, fine))
        .number("Precision", |own| number(own.precision, share))
        .number("Recall", |own| number(own.recall, share))
        .words("Remark", |own| own.note.clone().unwrap_or_default())
        .titled(
            "The judge's threshold",
            "Lowest rating that the judge has to give so that the rewrites that it accepts are faithful (precision) and the faithful ones \
             are accepted (recall), estimated from the rated rewrites. For `accept` of the next run's judge: the bound above holds for a \
             threshold that was chosen before the ratings.",
        )
}
