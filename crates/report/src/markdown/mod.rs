//! `report.md`: the findings as tables that are readable in a terminal and in a merge request.

mod comparisons;
mod judge;
mod manifest;
mod plain_table;
mod separation;
mod subsets;
mod tables;

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Report,
    format::{count, ends, fine, p_value, percent, points, score_ends, signed, signed_fine},
    noise_view, overview,
};
use crate::{
    evidence::interval::DeltaInterval,
    profile::{Axis, Moved, Shift, ShiftInterval},
};

pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    head(&mut page, report);
    rules(&mut page, report);
    profile(&mut page, report);
    let shown = &*noise_view::without_doses(report);
    transformations(&mut page, shown);
    datasets(&mut page, shown);
    baseline(&mut page, report);
    comparisons::write(&mut page, shown);
    plain_table::noise(&mut page, report);
    plain_table::variants(&mut page, report);
    plain_table::searches(&mut page, report);
    separation::write(&mut page, report);
    judge::write(&mut page, report);
    subsets::write(&mut page, shown);
    tables::write(&mut page, report);
    checks(&mut page, shown);
    examples(&mut page, report);
    tables::missing(&mut page, report);
    manifest::write(&mut page, report);
    page
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($page:expr) => { $page.push('\n') };
    ($page:expr, $($part:tt)*) => {{ let _ = writeln!($page, $($part)*); }};
}

/// Data in running text and cells: without markup, line breaks or cell borders.
pub(super) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            _ => safe.push(c),
        }
    }
    safe
}

pub(super) fn row(page: &mut String, cells: &[String]) {
    line!(page, "| {} |", cells.join(" | "));
}

/// A table head whose first `left` columns contain words and whose other columns contain numbers.
pub(super) fn header(page: &mut String, cells: &[&str], left: usize) {
    line!(page, "| {} |", cells.join(" | "));
    let rules: Vec<&str> = (0..cells.len()).map(|i| if i < left { "---" } else { "--:" }).collect();
    line!(page, "| {} |", rules.join(" | "));
}

/// Standard deviation over seeds; a dash if there is only one seed.
fn sd_over_seeds(moved: &Moved) -> String {
    moved.sd.map_or("–".to_owned(), fine)
}

/// Change with its interval for other items, for example `−2.1 [−3.0, −1.2]`.
fn change(moved: &Moved) -> String {
    match &moved.intervals.items {
        Some(found) => format!("{} {}", signed(moved.delta), ends(found)),
        None => signed(moved.delta),
    }
}

/// A quantity as a heading: an axis by its short name, others unchanged.
fn quantity(name: &str) -> String {
    let axis = Axis::SCORED.into_iter().find(|axis| axis.name() == name);
    axis.map_or_else(|| plain(name), |axis| axis.title().to_owned())
}

fn head(page: &mut String, report: &Report) {
    line!(page, "# Robustness profile: {}", plain(&report.suite.name));
    line!(page);
    if !report.suite.description.is_empty() {
        line!(page, "{}", plain(&report.suite.description));
        line!(page);
    }
    match &report.gate {
        Some(gate) => {
            line!(page, "## Verdict: {}", gate.verdict.name());
            line!(page);
            line!(page, "{} {}", overview::meaning(gate), plain(&gate.sentence()));
            if let Some(rounds) = gate.rounds() {
                line!(page, "{}", plain(&rounds));
            }
        }
        None => line!(
            page,
            "No limits were set, so there is no verdict: the report describes the encoders without judging them."
        ),
    }
    line!(page);
    for sentence in &report.headline {
        line!(page, "- {}", plain(sentence));
    }
    line!(page);
    line!(
        page,
        "Scores × 100; {}. n = {}, {} seed{}; metrics: {}.",
        report.profile.aggregation,
        report.profile.counted(),
        report.suite.seeds.len(),
        if report.suite.seeds.len() == 1 { "" } else { "s" },
        plain(&report.suite.metrics)
    );
    for note in &report.notes {
        line!(page);
        line!(page, "> {}", plain(note));
    }
    line!(page);
}

fn rules(page: &mut String, report: &Report) {
    let Some(gate) = &report.gate else { return };
    line!(page, "## Rules of the gate");
    line!(page);
    line!(
        page,
        "Drop: original less transformed, in points; elsewhere the same number is a change with a minus. Bounds are one-sided at 1 − {}, \
         and elsewhere intervals are two-sided at 95 %; n: {}. Mean: as in the profile, where the estimate is not a mean.",
        gate.alpha,
        gate.unit
    );
    line!(page);
    let cells = [
        "Encoder",
        "Rule",
        "Verdict",
        "Basis",
        "Remark",
        "Estimator",
        "Estimate",
        "Mean",
        "Bounds",
        "Limit",
        "n",
        "Seeds",
    ];
    header(page, &cells, 6);
    for encoder in &gate.encoders {
        for (rule, said) in gate.rules_of(encoder) {
            row(
                page,
                &[
                    plain(&encoder.encoder),
                    plain(&rule.title),
                    format!("**{}**", said.verdict.name()),
                    rule.basis.name().to_owned(),
                    plain(&said.remark()),
                    rule.estimator().to_owned(),
                    said.estimate_text(),
                    match report.mean_beside(gate, rule, said, &encoder.encoder) {
                        Some(mean) => fine(mean),
                        None if rule.estimator() == "mean" => said.estimate_text(),
                        None => "–".to_owned(),
                    },
                    plain(&said.bounds_text()),
                    rule.limit_text(),
                    said.units.to_string(),
                    said.seeds.to_string(),
                ],
            );
        }
    }
    line!(page);
}

fn profile(page: &mut String, report: &Report) {
    line!(page, "## Profile");
    line!(page);
    let mut cells = vec!["Encoder", "Original"];
    cells.extend(report.profile.axes.iter().map(|axis| axis.title()));
    cells.extend(["Total", "Change"]);
    header(page, &cells, 1);
    for encoder in &report.profile.encoders {
        let mut cells = vec![plain(&encoder.encoder), points(encoder.original)];
        cells.extend(encoder.axes.iter().map(|axis| points(axis.moved.mean)));
        match &encoder.total {
            Some(total) => cells.extend([points(total.mean), signed(total.delta)]),
            None => cells.extend(vec!["–".to_owned(); 2]),
        }
        row(page, &cells);
    }
    let mut cells = vec!["Texts left unchanged".to_owned(), "–".to_owned()];
    let axes = report.profile.axes.iter();
    cells.extend(axes.map(|axis| percent(report.unchanged_share_of_axis(*axis))));
    cells.extend(vec!["–".to_owned(); 2]);
    row(page, &cells);
    line!(page);
    line!(
        page,
        "Changes with their 95 % intervals: *other items* of these same data sets, and *other data sets* of the same kinds. SD over \
         seeds: how far the score varies when the same texts are rewritten again; it is not an interval."
    );
    line!(page);
    header(
        page,
        &[
            "Encoder",
            "On",
            "Change",
            "Other items",
            "Other data sets",
            "SD over seeds",
        ],
        2,
    );
    let interval = |interval: &Option<DeltaInterval>| interval.as_ref().map_or("–".to_owned(), ends);
    for encoder in &report.profile.encoders {
        let axes = encoder.axes.iter().map(|axis| (axis.axis.title(), &axis.moved));
        for (title, moved) in axes.chain(encoder.total.iter().map(|total| ("Total", total))) {
            row(
                page,
                &[
                    plain(&encoder.encoder),
                    title.to_owned(),
                    signed(moved.delta),
                    interval(&moved.intervals.items),
                    interval(&moved.intervals.datasets),
                    sd_over_seeds(moved),
                ],
            );
        }
    }
    line!(page);
}

/// Shift, interval from the Walsh averages, bootstrap interval, p.
fn shift_cells(shift: &Shift) -> [String; 4] {
    let ends = |interval: &Option<ShiftInterval>| match interval {
        Some(interval) => format!("[{}, {}]", signed_fine(interval.low), signed_fine(interval.high)),
        None => "–".to_owned(),
    };
    let p = shift.p_holm.map_or("–".to_owned(), p_value);
    [
        signed_fine(shift.hodges_lehmann),
        ends(&shift.signed_rank_interval),
        ends(&shift.interval),
        p,
    ]
}

fn transformations(page: &mut String, report: &Report) {
    line!(page, "## Transformations");
    line!(page);
    line!(
        page,
        "Shift: Hodges–Lehmann over datasets, seeds averaged first, with its 95 % interval from the signed-rank test \
         (Walsh averages; six data sets at least) and by percentile bootstrap; p: Wilcoxon signed-rank, two-sided, Holm over \
         transformations. Beside a change: its 95 % interval with other items. Unchanged: texts that stayed as they were."
    );
    line!(page);
    header(
        page,
        &[
            "Encoder",
            "Transformation",
            "Axis",
            "Score",
            "SD over seeds",
            "Change",
            "Shift",
            "95 % interval",
            "bootstrap",
            "p (Holm)",
            "Unchanged",
        ],
        3,
    );
    for encoder in &report.profile.encoders {
        for one in &encoder.transformations {
            let [shift, interval, bootstrap, p] = one
                .shift
                .as_ref()
                .map_or_else(|| ["–"; 4].map(str::to_owned), shift_cells);
            row(
                page,
                &[
                    plain(&encoder.encoder),
                    plain(&one.transformation),
                    one.axis.title().to_owned(),
                    points(one.moved.mean),
                    sd_over_seeds(&one.moved),
                    change(&one.moved),
                    shift,
                    interval,
                    bootstrap,
                    p,
                    percent(report.unchanged_share(&one.transformation, None)),
                ],
            );
        }
    }
    line!(page);
    if report.profile.encoders.len() > 1 {
        line!(
            page,
            "Over all encoders (one pair a data set, mean over encoders and seeds):"
        );
        line!(page);
        header(
            page,
            &[
                "Transformation",
                "Shift",
                "95 % interval",
                "bootstrap",
                "p (Holm)",
                "Median absolute change",
                "Unchanged",
            ],
            1,
        );
        for one in &report.profile.shifts {
            let [shift, interval, bootstrap, p] = shift_cells(&one.shift);
            row(
                page,
                &[
                    plain(&one.transformation),
                    shift,
                    interval,
                    bootstrap,
                    p,
                    fine(one.shift.median_absolute_difference),
                    percent(report.unchanged_share(&one.transformation, None)),
                ],
            );
        }
        line!(page);
    }
}

fn datasets(page: &mut String, report: &Report) {
    line!(page, "## Datasets");
    line!(page);
    line!(
        page,
        "In square brackets: 95 % intervals with other items of the data set. For a sample of a data set's rows, that of the original \
         score is its sampling error."
    );
    line!(page);
    let labels: Vec<String> = report.suite.transformations.iter().map(|t| plain(&t.label)).collect();
    let mut cells = vec!["Dataset", "Encoder", "Score", "Original"];
    cells.extend(labels.iter().map(String::as_str));
    header(page, &cells, 3);
    for (d, dataset) in report.datasets.iter().enumerate() {
        for encoder in &report.profile.encoders {
            let Some(own) = encoder.datasets.get(d) else { continue };
            let mut cells = vec![
                match &dataset.sample {
                    Some(sample) => format!(
                        "{} (sample of {} of {} rows)",
                        plain(&dataset.name),
                        count(sample.rows),
                        count(sample.of)
                    ),
                    None => plain(&dataset.name),
                },
                plain(&encoder.encoder),
                plain(&dataset.main_score),
                match &own.original_interval {
                    Some(found) => format!("{} {}", points(own.original), score_ends(found)),
                    None => points(own.original),
                },
            ];
            cells.extend(own.transformations.iter().map(|t| {
                let unchanged = match report.unchanged_share(&t.transformation, Some(&dataset.name)) {
                    0.0 => String::new(),
                    share => format!("; {} unchanged", percent(share)),
                };
                let sd = match t.moved.sd {
                    Some(sd) => format!("; SD over seeds {}", fine(sd)),
                    None => String::new(),
                };
                format!("{} ({}{sd}{unchanged})", points(t.moved.mean), change(&t.moved))
            }));
            row(page, &cells);
        }
    }
    line!(page);
}

fn baseline(page: &mut String, report: &Report) {
    let Some(baseline) = &report.profile.baseline else {
        return;
    };
    line!(page, "## Against {}", plain(&baseline.encoder));
    line!(page);
    let heads = ["Encoder", "On", "Shift", "95 % interval", "bootstrap", "p (Holm)", "n"];
    header(page, &heads, 2);
    for one in &baseline.comparisons {
        let [shift, interval, bootstrap, p] = shift_cells(&one.shift);
        row(
            page,
            &[
                plain(&one.encoder),
                quantity(&one.quantity),
                shift,
                interval,
                bootstrap,
                p,
                one.shift.n.to_string(),
            ],
        );
    }
    line!(page);
}

fn checks(page: &mut String, report: &Report) {
    line!(page, "## Outcome of the texts");
    line!(page);
    header(
        page,
        &[
            "Transformation",
            "Dataset",
            "Seed",
            "Texts",
            "First try",
            "Retried",
            "Unchanged",
            "Near-copies",
            "Edit distance",
            "Length ratio",
            "Checks that failed",
            "Guard warnings",
        ],
        2,
    );
    for check in &report.checks {
        let failed: Vec<String> = check
            .failed_checks
            .iter()
            .map(|(name, n)| format!("{} {n}", plain(name)))
            .collect();
        row(
            page,
            &[
                plain(&check.transformation),
                plain(&check.dataset),
                check.seed.to_string(),
                check.texts.to_string(),
                check.ok.to_string(),
                check.recovered.to_string(),
                format!("{} ({})", check.unchanged_texts(), percent(check.unchanged_share())),
                check.near_copies.map_or("–".to_owned(), |count| count.to_string()),
                check.edit_distance.map_or("–".to_owned(), fine),
                check.length_ratio.map_or("–".to_owned(), fine),
                if failed.is_empty() {
                    "–".to_owned()
                } else {
                    failed.join(", ")
                },
                guard_warnings(&check.guards, &check.guards_untold),
            ],
        );
    }
    line!(page);
}

/// Counts of each meaning guard: findings, and texts on which it could not decide.
fn guard_warnings(fired: &BTreeMap<String, u64>, untold: &BTreeMap<String, u64>) -> String {
    let fired = fired.iter().map(|(name, n)| format!("{name} {n}"));
    let untold = untold
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| format!("{name} untold {n}"));
    let all: Vec<String> = fired.chain(untold).collect();
    if all.is_empty() {
        "–".to_owned()
    } else {
        all.join(", ")
    }
}

fn examples(page: &mut String, report: &Report) {
    if report.examples.is_empty() {
        return;
    }
    line!(page, "## Examples");
    line!(page);
    line!(
        page,
        "Some drawn by their content, and those that moved furthest. Drift: 1 − cosine, mean over encoders."
    );
    line!(page);
    header(
        page,
        &["Transformation", "Dataset", "Drift", "Original", "Transformed"],
        5,
    );
    for example in &report.examples {
        row(
            page,
            &[
                plain(&example.transformation),
                plain(&example.dataset),
                example.drift.map_or("–".to_owned(), fine),
                plain(&example.original),
                plain(&example.transformed),
            ],
        );
    }
    line!(page);
}
