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
    CheckRow, Report,
    format::{count, ends, fine, p_value, percent, points, score_ends, signed, signed_fine},
    noise_view, overview,
};
use crate::{
    evidence::interval::DeltaInterval,
    profile::{Axis, Moved, Shift, ShiftInterval},
    text_table::{TextTable, dash},
};

pub(super) use crate::markdown_table::{header, plain, row};

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
    let rows = gate.encoders.iter();
    let rows = rows.flat_map(|encoder| gate.rules_of(encoder).map(move |(rule, said)| (encoder, rule, said)));
    TextTable::of(rows)
        .words("Encoder", |(encoder, ..)| plain(&encoder.encoder))
        .words("Rule", |(_, rule, _)| plain(&rule.title))
        .words("Verdict", |(.., said)| format!("**{}**", said.verdict.name()))
        .words("Basis", |(_, rule, _)| rule.basis.name().to_owned())
        .words("Remark", |(.., said)| plain(&said.remark()))
        .words("Estimator", |(_, rule, _)| rule.estimator().to_owned())
        .number("Estimate", |(.., said)| said.estimate_text())
        .number("Mean", |(encoder, rule, said)| {
            match report.mean_beside(gate, rule, said, &encoder.encoder) {
                Some(mean) => fine(mean),
                None if rule.estimator() == "mean" => said.estimate_text(),
                None => dash(),
            }
        })
        .number("Bounds", |(.., said)| plain(&said.bounds_text()))
        .number("Limit", |(_, rule, _)| rule.limit_text())
        .number("n", |(.., said)| said.units.to_string())
        .number("Seeds", |(.., said)| said.seeds.to_string())
        .write(page);
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
    let interval = |interval: &Option<DeltaInterval>| interval.as_ref().map_or_else(dash, ends);
    let rows = report.profile.encoders.iter().flat_map(|encoder| {
        let axes = encoder.axes.iter().map(|axis| (axis.axis.title(), &axis.moved));
        let all = axes.chain(encoder.total.iter().map(|total| ("Total", total)));
        all.map(move |(title, moved)| (encoder, title, moved))
    });
    TextTable::of(rows)
        .words("Encoder", |(encoder, ..)| plain(&encoder.encoder))
        .words("On", |(_, title, _)| title.to_owned())
        .number("Change", |(.., moved)| signed(moved.delta))
        .number("Other items", |(.., moved)| interval(&moved.intervals.items))
        .number("Other data sets", |(.., moved)| interval(&moved.intervals.datasets))
        .number("SD over seeds", |(.., moved)| sd_over_seeds(moved))
        .write(page);
}

/// Headings of [`shift_cells`].
const SHIFT_HEADS: [&str; 4] = ["Shift", "95 % interval", "bootstrap", "p (Holm)"];

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
    let encoders = report.profile.encoders.iter();
    let rows = encoders.flat_map(|encoder| encoder.transformations.iter().map(move |one| (encoder, one)));
    let unchanged = |label: &str| percent(report.unchanged_share(label, None));
    TextTable::of(rows)
        .words("Encoder", |(encoder, _)| plain(&encoder.encoder))
        .words("Transformation", |(_, one)| plain(&one.transformation))
        .words("Axis", |(_, one)| one.axis.title().to_owned())
        .number("Score", |(_, one)| points(one.moved.mean))
        .number("SD over seeds", |(_, one)| sd_over_seeds(&one.moved))
        .number("Change", |(_, one)| change(&one.moved))
        .numbers(SHIFT_HEADS, |(_, one)| {
            one.shift
                .as_ref()
                .map_or_else(|| std::array::from_fn(|_| dash()), shift_cells)
        })
        .number("Unchanged", |(_, one)| unchanged(&one.transformation))
        .write(page);
    if report.profile.encoders.len() > 1 {
        line!(
            page,
            "Over all encoders (one pair a data set, mean over encoders and seeds):"
        );
        line!(page);
        TextTable::of(&report.profile.shifts)
            .words("Transformation", |one| plain(&one.transformation))
            .numbers(SHIFT_HEADS, |one| shift_cells(&one.shift))
            .number("Median absolute change", |one| {
                fine(one.shift.median_absolute_difference)
            })
            .number("Unchanged", |one| unchanged(&one.transformation))
            .write(page);
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
    let rows = report.datasets.iter().enumerate().flat_map(|(d, dataset)| {
        let encoders = report.profile.encoders.iter();
        encoders.filter_map(move |encoder| Some((dataset, encoder, encoder.datasets.get(d)?)))
    });
    let mut table = TextTable::of(rows)
        .words("Dataset", |(dataset, ..)| match &dataset.sample {
            Some(sample) => format!(
                "{} (sample of {} of {} rows)",
                plain(&dataset.name),
                count(sample.rows),
                count(sample.of)
            ),
            None => plain(&dataset.name),
        })
        .words("Encoder", |(_, encoder, _)| plain(&encoder.encoder))
        .words("Score", |(dataset, ..)| plain(&dataset.main_score))
        .number("Original", |(.., own)| match &own.original_interval {
            Some(found) => format!("{} {}", points(own.original), score_ends(found)),
            None => points(own.original),
        });
    for (t, transformation) in report.suite.transformations.iter().enumerate() {
        table = table.number(plain(&transformation.label), |(dataset, _, own)| {
            let Some(one) = own.transformations.get(t) else {
                return dash();
            };
            let unchanged = match report.unchanged_share(&one.transformation, Some(&dataset.name)) {
                0.0 => String::new(),
                share => format!("; {} unchanged", percent(share)),
            };
            let sd = match one.moved.sd {
                Some(sd) => format!("; SD over seeds {}", fine(sd)),
                None => String::new(),
            };
            format!("{} ({}{sd}{unchanged})", points(one.moved.mean), change(&one.moved))
        });
    }
    table.write(page);
}

fn baseline(page: &mut String, report: &Report) {
    let Some(baseline) = &report.profile.baseline else {
        return;
    };
    line!(page, "## Against {}", plain(&baseline.encoder));
    line!(page);
    TextTable::of(&baseline.comparisons)
        .words("Encoder", |one| plain(&one.encoder))
        .words("On", |one| quantity(&one.quantity))
        .numbers(SHIFT_HEADS, |one| shift_cells(&one.shift))
        .number("n", |one| one.shift.n.to_string())
        .write(page);
}

fn checks(page: &mut String, report: &Report) {
    line!(page, "## Outcome of the texts");
    line!(page);
    let failed = |check: &CheckRow| -> String {
        let failed = check.failed_checks.iter();
        let failed: Vec<String> = failed.map(|(name, n)| format!("{} {n}", plain(name))).collect();
        if failed.is_empty() { dash() } else { failed.join(", ") }
    };
    TextTable::of(&report.checks)
        .words("Transformation", |check| plain(&check.transformation))
        .words("Dataset", |check| plain(&check.dataset))
        .number("Seed", |check| check.seed.to_string())
        .number("Texts", |check| check.texts.to_string())
        .number("First try", |check| check.ok.to_string())
        .number("Retried", |check| check.recovered.to_string())
        .number("Unchanged", |check| {
            format!("{} ({})", check.unchanged_texts(), percent(check.unchanged_share()))
        })
        .number("Near-copies", |check| {
            check.near_copies.map_or_else(dash, |count| count.to_string())
        })
        .number("Edit distance", |check| check.edit_distance.map_or_else(dash, fine))
        .number("Length ratio", |check| check.length_ratio.map_or_else(dash, fine))
        .number("Checks that failed", failed)
        .number("Guard warnings", |check| {
            guard_warnings(&check.guards, &check.guards_untold)
        })
        .write(page);
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
    TextTable::of(&report.examples)
        .words("Transformation", |example| plain(&example.transformation))
        .words("Dataset", |example| plain(&example.dataset))
        .words("Drift", |example| example.drift.map_or_else(dash, fine))
        .words("Original", |example| plain(&example.original))
        .words("Transformed", |example| plain(&example.transformed))
        .write(page);
}
