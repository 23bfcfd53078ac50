//! The papers' tables for a terminal. Correlations are × 100, as the papers print them.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment};
use isomer_eval::{
    selection::{Agreement, Bin, Estimate, JudgeResult, Report},
    stats::Interval,
};

use crate::table::{Table, TextTable};

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    let data: Vec<String> = report
        .data
        .iter()
        .map(|(name, pairs, of)| format!("{name} ({pairs} of {of} pairs)"))
        .collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Data: {}; seed {}", data.join(", "), report.settings.seed);
    let _ = writeln!(
        text,
        "\nStep 1: judges against gold scores, Spearman x 100 [95 % interval]"
    );
    let _ = writeln!(
        text,
        "{}",
        by_judge(report, |_, agreement, interval| correlation(agreement, interval))
    );
    let _ = writeln!(text, "\nMean absolute error on the scale of 0 to 5");
    let _ = writeln!(
        text,
        "{}",
        by_judge(report, |_, agreement, _| optional(agreement.mae, 2))
    );
    let _ = writeln!(
        text,
        "\nBy words of the pair, all data sets: Spearman x 100 / mean absolute error (pairs)"
    );
    let _ = writeln!(
        text,
        "{}",
        bins(report, |judge| judge.all_words(&report.settings.word_bins))
    );
    let _ = writeln!(text, "\nBy gold score, all data sets: mean absolute error (pairs)");
    let _ = writeln!(text, "{}", gold_bins(report));
    for judge in &report.judges {
        let seconds = judge.clock.per_text().map_or_else(
            || "all from the cache".to_owned(),
            |seconds| format!("{seconds:.2} s a pair"),
        );
        let _ = writeln!(
            text,
            "* {}: {} pairs without a rating, {} rated after retries; {seconds}",
            judge.id, judge.failures, judge.retried
        );
    }
    if let Some(chosen) = report.judges.first() {
        let _ = writeln!(text, "* chosen judge (highest mean correlation): {}", chosen.id);
    }
    if !report.paraphrasers.is_empty() {
        let _ = writeln!(
            text,
            "\nStep 2: generators of `{}` by the chosen judge",
            report.settings.transformation
        );
        let _ = writeln!(text, "{}", paraphrasers(report));
        if report.judges.len() > 1 || report.data.len() > 1 {
            let _ = writeln!(text, "\nThe same by every judge");
            let _ = writeln!(text, "{}", by_every_judge(report));
        }
    }
    text.trim_end().to_owned()
}

fn table(header: impl IntoIterator<Item = String>) -> Table {
    let mut table = crate::table::new();
    table.set_header(header.into_iter().map(Cell::new));
    table
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn correlation(agreement: &Agreement, interval: Option<&Interval>) -> String {
    let mut text = optional(agreement.spearman.map(|rho| rho * 100.0), 2);
    if let Some(interval) = interval {
        let _ = write!(text, " [{:.1}, {:.1}]", interval.low * 100.0, interval.high * 100.0);
    }
    text
}

fn estimate(value: Option<&Estimate>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| {
            format!(
                "{:.2} [{:.2}, {:.2}]",
                value.mean, value.interval.low, value.interval.high
            )
        },
    )
}

fn judge_names(report: &Report) -> impl Iterator<Item = String> {
    report.judges.iter().map(|judge| judge.id.clone())
}

/// Rows are datasets, columns are judges, and the macro average comes last.
fn by_judge(report: &Report, cell: impl Fn(&JudgeResult, &Agreement, Option<&Interval>) -> String) -> Table {
    let mut table = table(["dataset".to_owned()].into_iter().chain(judge_names(report)));
    for (row, (name, _, _)) in report.data.iter().enumerate() {
        let cells = report.judges.iter().map(|judge| match judge.sets.get(row) {
            Some((_, agreement, interval)) => number(cell(judge, agreement, interval.as_ref())),
            None => number("-".to_owned()),
        });
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    }
    let means = report.judges.iter().map(|judge| {
        let mean = Agreement {
            spearman: judge.mean(|agreement| agreement.spearman),
            mae: judge.mean(|agreement| agreement.mae),
            ..Agreement::default()
        };
        number(cell(judge, &mean, None))
    });
    table.add_row([Cell::new("average")].into_iter().chain(means));
    table
}

fn bins(report: &Report, of: impl Fn(&JudgeResult) -> Vec<Bin>) -> Table {
    by_bin(report, "words", of, |bin| {
        let rho = optional(bin.agreement.spearman.map(|rho| rho * 100.0), 2);
        format!("{rho} / {} ({})", optional(bin.agreement.mae, 2), bin.agreement.pairs)
    })
}

fn gold_bins(report: &Report) -> Table {
    by_bin(report, "gold", JudgeResult::all_gold, |bin| {
        format!("{} ({})", optional(bin.agreement.mae, 2), bin.agreement.pairs)
    })
}

/// Rows are bins, columns are judges.
fn by_bin(report: &Report, head: &str, of: impl Fn(&JudgeResult) -> Vec<Bin>, cell: impl Fn(&Bin) -> String) -> Table {
    let columns: Vec<Vec<Bin>> = report.judges.iter().map(of).collect();
    let labels = columns.first().into_iter().flatten().map(|bin| bin.label.as_str());
    let mut table = TextTable::of(labels.enumerate()).words(head, |(_, label)| label.to_owned());
    for (judge, bins) in report.judges.iter().zip(&columns) {
        table = table.number(&judge.id, |(row, _)| bins.get(row).map_or_else(String::new, &cell));
    }
    table.into()
}

fn paraphrasers(report: &Report) -> Table {
    TextTable::of(&report.paraphrasers)
        .words("generator", |own| own.id.clone())
        .number("similarity 0-5 [95 %]", |own| {
            estimate(own.scores.first().and_then(|score| score.mean.as_ref()))
        })
        .number("edit distance [95 %]", |own| estimate(own.edit_distance.as_ref()))
        .number("s a text", |own| {
            own.clock
                .per_text()
                .map_or_else(|| "cached".to_owned(), |seconds| format!("{seconds:.2}"))
        })
        .number("texts", |own| own.texts.to_string())
        .number("failed", |own| own.failed.to_string())
        .into()
}

fn by_every_judge(report: &Report) -> Table {
    let generators = report.paraphrasers.iter();
    let rows = generators.flat_map(|own| own.scores.iter().map(move |score| (own, score)));
    TextTable::of(rows)
        .words("generator", |(own, _)| own.id.clone())
        .words("judge", |(_, score)| score.judge.clone())
        .number("mean [95 %]", |(_, score)| estimate(score.mean.as_ref()))
        .number("Hodges-Lehmann over data sets [95 %]", |(_, score)| {
            score.shift.as_ref().map_or_else(
                || "-".to_owned(),
                |(shift, interval)| format!("{shift:.2} [{:.2}, {:.2}]", interval.low, interval.high),
            )
        })
        .number("unrated", |(_, score)| score.unrated.to_string())
        .into()
}
