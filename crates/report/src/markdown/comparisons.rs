//! Comparisons of encoders: rankings, significance groups, drift.

use super::{Report, header, plain, quantity, row};
use crate::{
    RatingRow,
    format::{fine, fine3, p_value, percent, place, signed_fine},
    profile::{FriedmanTest, Level, Quantity, ScopeProfile},
    text_table::{TextTable, dash},
};

/// Ranks, stability, reliability and groups for each scope; then drift.
pub(super) fn write(page: &mut String, report: &Report) {
    for scope in &report.profile.scopes {
        if scope.rank_shifts.is_empty() {
            continue;
        }
        let n = scope.n();
        page.push_str(&format!("## Rankings: {} (n = {n})\n\n", scope.scope.title()));
        places(page, scope);
        groups(page, scope);
        reliability(page, scope);
    }
    drift(page, report);
}

/// Original, axes and total: the quantities with a column in the tables.
fn wide(quantity: &Quantity) -> bool {
    quantity.level != Level::Transformation
}

fn places(page: &mut String, scope: &ScopeProfile) {
    page.push_str(
        "Ranks by mean score (1 is the best), ranks gained or lost in brackets; below, Kendall's τ-b between original and \
         transformed rankings, mean over data sets (and its SD over them), and data sets on which at least two encoders change order.\n\n",
    );
    let Some(first) = scope.rank_shifts.first() else { return };
    let names: Vec<String> = first
        .under
        .iter()
        .filter(|one| wide(&one.quantity))
        .map(|one| quantity(&one.quantity.name))
        .collect();
    let mut heads = vec!["Encoder", "original"];
    heads.extend(names.iter().map(String::as_str));
    header(page, &heads, 1);
    for encoder in &scope.rank_shifts {
        let mut cells = vec![plain(&encoder.encoder), place(encoder.original)];
        for one in encoder.under.iter().filter(|one| wide(&one.quantity)) {
            let gained = match one.gained {
                0.0 => String::new(),
                up if up > 0.0 => format!(" (+{})", place(up)),
                down => format!(" (−{})", place(-down)),
            };
            cells.push(format!("{}{gained}", place(one.rank)));
        }
        row(page, &cells);
    }
    let mut cells = vec!["**Kendall's τ-b**".to_owned(), "–".to_owned()];
    cells.extend(
        scope
            .rank_stability
            .iter()
            .filter(|one| wide(&one.quantity))
            .map(|one| {
                let Some(tau) = one.tau else { return "–".to_owned() };
                let sd = one.sd.map(|sd| format!("SD over data sets {}", fine3(sd)));
                let details: Vec<String> = sd.into_iter().chain(one.reordered_text()).collect();
                match details.as_slice() {
                    [] => fine3(tau),
                    details => format!("{} ({})", fine3(tau), details.join("; ")),
                }
            }),
    );
    row(page, &cells);
    page.push('\n');
}

fn groups(page: &mut String, scope: &ScopeProfile) {
    if scope.friedman.is_empty() {
        return;
    }
    page.push_str(
        "Friedman's test over data sets, then Nemenyi's critical difference of average ranks (CD) at 0.05: encoders that share \
         a letter do not differ.\n\n",
    );
    let encoders = |test: &FriedmanTest| -> String {
        let encoders = test.encoders.iter();
        let encoders =
            encoders.map(|one| format!("{} {} ({})", plain(&one.encoder), fine(one.average_rank), one.letters));
        encoders.collect::<Vec<_>>().join(", ")
    };
    TextTable::of(&scope.friedman)
        .words("On", |test| quantity(&test.quantity.name))
        .number("p (Friedman)", |test| test.p_value.map_or_else(dash, p_value))
        .number("CD", |test| test.critical_difference.map_or_else(dash, fine))
        .number("Average rank and letters, best first", |test| {
            test.note.clone().unwrap_or_else(|| encoders(test))
        })
        .write(page);
}

fn reliability(page: &mut String, scope: &ScopeProfile) {
    if scope.reliability.is_empty() {
        return;
    }
    page.push_str(
        "Split-half reliability of the rankings, task-stratified, median of 1000 splits (2.5 % and 97.5 % quantiles of the \
         splits, which are not a confidence interval):\n\n",
    );
    TextTable::of(&scope.reliability)
        .words("On", |one| quantity(&one.quantity.name))
        .number("Spearman's ρ", |one| one.median.map_or_else(dash, signed_fine))
        .number("Quantiles", |one| match (one.low, one.high, &one.note) {
            (Some(low), Some(high), _) => format!("{} to {}", signed_fine(low), signed_fine(high)),
            (_, _, note) => note.as_deref().map_or_else(dash, plain),
        })
        .write(page);
}

/// Drift of a transformation, and its value in parallel gaps if known.
fn moved(report: &Report, encoder: &str, label: &str) -> String {
    let Some(drift) = report.drift_of(encoder, label) else {
        return "–".to_owned();
    };
    match report.drift_in_gaps(encoder, label) {
        Some(scaled) if scaled.datasets < scaled.of => format!(
            "{} ({} gaps, {} of {} data sets)",
            fine3(drift),
            fine(scaled.mean),
            scaled.datasets,
            scaled.of
        ),
        Some(scaled) => format!("{} ({} gaps)", fine3(drift), fine(scaled.mean)),
        None => fine3(drift),
    }
}

fn drift(page: &mut String, report: &Report) {
    if report.drift.is_empty() {
        return;
    }
    page.push_str(
        "## Drift\n\n1 − cosine of each distinct text and its rewrite, under the encoder; mean over texts, seeds and data \
         sets. Texts that kept their original are left out. In brackets the same in units of the encoder's own parallel gap: mean \
         cosine of texts with their rewrites less that with the rewrites of other texts, over rewrites in the text's language.\n\n",
    );
    let labels: Vec<String> = report
        .suite
        .transformations
        .iter()
        .map(|one| plain(&one.label))
        .collect();
    let mut heads = vec!["Encoder", "Parallel gap"];
    heads.extend(labels.iter().map(String::as_str));
    header(page, &heads, 1);
    for encoder in &report.profile.encoders {
        let gap = report.parallel_gap_of(&encoder.encoder);
        let mut cells = vec![plain(&encoder.encoder), gap.map_or("not known".to_owned(), fine3)];
        let transformations = report.suite.transformations.iter();
        cells.extend(transformations.map(|one| moved(report, &encoder.encoder, &one.label)));
        row(page, &cells);
    }
    let mut cells = vec!["Texts left unchanged".to_owned(), "–".to_owned()];
    let transformations = report.suite.transformations.iter();
    cells.extend(transformations.map(|one| percent(report.unchanged_share(&one.label, None))));
    row(page, &cells);
    for encoder in report.encoders.iter().filter(|_| !report.truncation.is_empty()) {
        let mut cells = vec![format!("Texts cut by {}", plain(&encoder.id)), "–".to_owned()];
        cells.extend(report.suite.transformations.iter().map(|one| {
            let share = report.cut(&encoder.id, None, Some(&one.label)).share();
            share.map_or("unknown".to_owned(), percent)
        }));
        row(page, &cells);
    }
    for scale in report.judged_scales() {
        let mut cells = vec![
            format!("Mean rating ({}; ± SD over texts)", scale.title()),
            "–".to_owned(),
        ];
        cells.extend(report.suite.transformations.iter().map(|one| {
            let rating = report.rating_of(scale, &one.label);
            rating.map_or("–".to_owned(), RatingRow::rating_text)
        }));
        row(page, &cells);
    }
    page.push('\n');
}
