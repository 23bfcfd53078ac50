//! The result as tables of texts.

use super::{HumanRatings, RaterTable, VerdictCounts};
use crate::{
    format::{count, fine, fine3, share, signed_fine},
    text_table::{TextTable, dash, heads},
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
    let row = |own: &RaterTable| {
        let faithful = own.faithful as f64 / own.rated.max(1) as f64;
        vec![
            scope(own),
            with_sd(own.mean, own.sd),
            own.rated.to_string(),
            own.ratings.to_string(),
            format!("{} ({})", own.faithful, share(faithful)),
            number(own.ac2, fine),
            with_sd(own.judge_mean, own.judge_sd),
        ]
    };
    TextTable {
        title: "Ratings by people".to_owned(),
        note: format!(
            "As HTEB, table 2: {}, by {}. Mean ± sample SD over all ratings of the raters; rewrites that the judge accepts and others are \
             weighted by their numbers in the run. Faithful: rated rewrites whose raters' mean is at least {}. AC2: Gwet's agreement of \
             the raters, ordinal weights. Judge: mean ± SD over all rewrites.",
            ratings.scale.title(),
            ratings.raters.join(", "),
            fine(ratings.accept)
        ),
        head: heads(&[
            "Transformation",
            "Rating",
            "Rewrites",
            "Ratings",
            "Faithful",
            "AC2",
            "Judge",
        ]),
        words: 1,
        rows: ratings.rows.iter().map(row).collect(),
        detail: false,
    }
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
    let row = |own: &RaterTable| {
        vec![
            scope(own),
            drawn(own.share.accepted),
            drawn(own.share.not_accepted),
            number(own.share.estimate, share),
            number(own.share.low, share),
        ]
    };
    TextTable {
        title: "Share of faithful rewrites".to_owned(),
        note: format!(
            "Faithful of drawn of all rewrites that the judge accepts, and of the others. Estimate: prediction-powered. Bound: exact, \
             one-sided, at {:.0} % for each row, whatever the judge's ratings are worth.",
            100.0 * ratings.confidence
        ),
        head: heads(&[
            "Transformation",
            "Judge accepts",
            "Judge does not",
            "Estimate",
            "At least",
        ]),
        words: 1,
        rows: ratings.rows.iter().map(row).collect(),
        detail: false,
    }
}

fn agreement(ratings: &HumanRatings) -> TextTable {
    let row = |own: &RaterTable| {
        let found = &own.agreement;
        vec![
            scope(own),
            found.both.to_string(),
            found.neither.to_string(),
            found.judge_only.to_string(),
            found.raters_only.to_string(),
            number(found.spearman, signed_fine),
            interval(found.low, found.high),
            number(found.mean_absolute_error, fine),
            found.note.clone().unwrap_or_default(),
        ]
    };
    TextTable {
        title: "The judge beside the raters".to_owned(),
        note: "Rated rewrites: accepted by both, by neither, by the judge only, by the raters only. Spearman's ρ of the judge's rating with \
               the raters' mean, with its 95 % percentile bootstrap interval over rewrites (1,000 resamples), and the mean distance of the \
               two."
            .to_owned(),
        head: heads(&[
            "Transformation",
            "Both",
            "Neither",
            "Judge only",
            "Raters only",
            "ρ",
            "95 % interval",
            "Distance",
            "Remark",
        ]),
        words: 1,
        rows: ratings.rows.iter().map(row).collect(),
        detail: false,
    }
}

fn drift(ratings: &HumanRatings) -> TextTable {
    let rows = ratings.drift.iter().map(|own| {
        vec![
            own.encoder.clone(),
            own.transformation.clone(),
            number(own.spearman, signed_fine),
            interval(own.low, own.high),
            own.texts.to_string(),
            number(own.mean_rating, fine),
            number(own.mean_drift, fine3),
            own.remark(),
        ]
    });
    TextTable {
        title: "Drift against ratings".to_owned(),
        note: "As HTEB, figure 3: Spearman's ρ of drift (1 − cosine of a text and its rewrite) with the raters' mean, over texts, with its \
               95 % percentile bootstrap interval (1,000 resamples). Below 0: texts rated lower moved further."
            .to_owned(),
        head: heads(&[
            "Encoder",
            "Transformation",
            "ρ",
            "95 % interval",
            "Texts",
            "Mean rating",
            "Mean drift",
            "Remark",
        ]),
        words: 2,
        rows: rows.collect(),
        detail: false,
    }
}

fn thresholds(ratings: &HumanRatings) -> TextTable {
    let rows = ratings.thresholds.iter().map(|own| {
        vec![
            target(own.target),
            number(own.threshold, fine),
            number(own.precision, share),
            number(own.recall, share),
            own.note.clone().unwrap_or_default(),
        ]
    });
    TextTable {
        title: "The judge's threshold".to_owned(),
        note: "Lowest rating that the judge has to give so that the rewrites that it accepts are faithful (precision) and the faithful ones \
               are accepted (recall), estimated from the rated rewrites. For `accept` of the next run's judge: the bound above holds for a \
               threshold that was chosen before the ratings."
            .to_owned(),
        head: heads(&["Target", "Threshold", "Precision", "Recall", "Remark"]),
        words: 1,
        rows: rows.collect(),
        detail: false,
    }
}
