//! A report as tables for a terminal.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};

use crate::{
    GateReport, GateRule, JudgeReport, Report, RuleVerdict, noise_view,
    profile::{EncoderProfile, Moved, RobustnessProfile},
    terms::Counters,
};

/// Renders a report.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Robustness profile, suite {}: {}, {}",
        report.suite.name,
        report.profile.unit,
        report.profile.counted()
    );
    let _ = writeln!(text, "{}", axes(&report.profile));
    if let Some(gate) = &report.gate {
        let _ = writeln!(text, "{}\n{}", gate.sentence(), rules(report, gate));
        if let Some(rounds) = gate.rounds() {
            let _ = writeln!(text, "{rounds}");
        }
    }
    let doses = report.profile.doses();
    if !doses.is_empty() {
        let _ = writeln!(text, "{}", noise(report, &doses));
    }
    let shown = noise_view::without_doses(report);
    let _ = writeln!(text, "{}", per_dataset(&shown.profile));
    if !shown.checks.is_empty() {
        let _ = writeln!(text, "{}", outcomes(&shown));
    }
    if let Some(separation) = &report.separation {
        for sentence in separation.asked_sentences() {
            let _ = writeln!(text, "{sentence}");
        }
        for encoder in &separation.encoders {
            let _ = writeln!(text, "{}", encoder.sentence());
        }
    }
    if let Some(judge) = &report.judge {
        let _ = writeln!(text, "{}\n{}\n{}", judge.sentence(), ratings(judge), related(judge));
    }
    let counters = &report.counters;
    let _ = writeln!(
        text,
        "texts: {} planned, {} generated, {} from cache, {} generator calls; scores: {} computed, {} from cache; {:.1} s",
        counters.texts_planned,
        counters.texts_generated,
        counters.texts_cached,
        counters.generator_calls,
        counters.scores_computed,
        counters.scores_cached,
        report.run.seconds,
    );
    let _ = writeln!(text, "{}", tokens(counters));
    if let Some(judge) = &counters.judge {
        let _ = writeln!(
            text,
            "ratings: {} planned, {} asked, {} from cache, {} missing; {} judge calls",
            judge.ratings_planned, judge.ratings_made, judge.ratings_cached, judge.ratings_missing, judge.calls,
        );
    }
    for line in report.headline.iter().chain(&report.notes) {
        let _ = writeln!(text, "* {line}");
    }
    text
}

/// The run's token counts, which a gateway charges to a budget.
fn tokens(counters: &Counters) -> String {
    let judge = counters.judge.unwrap_or_default();
    let mut text = format!(
        "tokens: {} encoded, {} read and {} written by generators",
        counters.tokens_encoded, counters.generator_tokens, counters.generated_tokens
    );
    if counters.judge.is_some() {
        let _ = write!(text, ", {} and {} by the judge", judge.tokens, judge.generated_tokens);
    }
    if counters.tokens_estimated || judge.tokens_estimated {
        text.push_str(" (partly estimated)");
    }
    if counters.cost_nano_usd > 0 {
        let _ = write!(
            text,
            "; encoding cost {:.4} US dollars",
            counters.cost_nano_usd as f64 / 1e9
        );
    }
    text
}

/// An empty table. If it would be wider than the terminal, the text of its cells is wrapped. Output
/// to a file or a pipe is not wrapped.
pub fn empty_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if let Some((columns, _)) = terminal_size::terminal_size_of(std::io::stdout()) {
        table.set_width(columns.0);
    }
    table
}

fn table<S: ToString>(header: impl IntoIterator<Item = S>) -> Table {
    let mut table = empty_table();
    table.set_header(header.into_iter().map(|h| Cell::new(h.to_string())));
    table
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// `81.2 (-1.3)`, with the SD over seeds if there is one, and the interval of the change for other
/// items.
fn moved(moved: Option<&Moved>) -> Cell {
    let Some(moved) = moved else {
        return number("-".to_owned());
    };
    let interval = match &moved.intervals.items {
        Some(found) => format!(" [{:+.2}, {:+.2}]", found.low, found.high),
        None => String::new(),
    };
    let sd = moved
        .sd
        .map(|sd| format!("\nSD over seeds {sd:.2}"))
        .unwrap_or_default();
    number(format!("{:.2} ({:+.2}{interval}){sd}", moved.mean, moved.delta))
}

fn axes(profile: &RobustnessProfile) -> Table {
    let mut header = vec!["encoder".to_owned(), "original".to_owned()];
    header.extend(profile.axes.iter().map(|a| a.title().to_owned()));
    header.push("total (Δ)".to_owned());
    let mut table = table(header);
    for encoder in &profile.encoders {
        let mut row = vec![Cell::new(&encoder.encoder), number(format!("{:.2}", encoder.original))];
        row.extend(
            profile
                .axes
                .iter()
                .map(|axis| moved(encoder.axes.iter().find(|a| a.axis == *axis).map(|a| &a.moved))),
        );
        row.push(moved(encoder.total.as_ref()));
        table.add_row(row);
    }
    table
}

/// The verdict of each rule for each encoder.
fn rules(report: &Report, gate: &GateReport) -> Table {
    let mut table = table([
        "encoder", "rule", "verdict", "estimate", "bounds", "limit", "basis", "n", "seeds", "remark",
    ]);
    for encoder in &gate.encoders {
        for (rule, said) in gate.rules.iter().zip(&encoder.rules) {
            table.add_row(vec![
                Cell::new(&encoder.encoder),
                Cell::new(&rule.title),
                Cell::new(said.verdict.name()),
                number(estimate(report, gate, rule, said, &encoder.encoder)),
                number(said.bounds_text()),
                number(rule.limit_text()),
                Cell::new(rule.basis.name()),
                number(said.units.to_string()),
                number(said.seeds.to_string()),
                Cell::new(said.remark()),
            ]);
        }
    }
    table
}

/// A rule's estimate. If it is not a mean, its kind and the mean of the profile are added.
fn estimate(report: &Report, gate: &GateReport, rule: &GateRule, said: &RuleVerdict, encoder: &str) -> String {
    let estimate = said.estimate_text();
    match (rule.estimator(), report.mean_beside(gate, rule, said, encoder)) {
        ("mean", _) => estimate,
        (estimator, Some(mean)) => format!("{estimate}\n{estimator}; mean {mean:.2}"),
        (estimator, None) => format!("{estimate}\n{estimator}"),
    }
}

/// The drop of each encoder and channel at each dose.
fn noise(report: &Report, doses: &[f64]) -> Table {
    let mut table = table(noise_view::head(doses));
    for cells in noise_view::rows(report, doses) {
        let (names, numbers) = cells.split_at(2);
        let names = names.iter().map(Cell::new);
        table.add_row(names.chain(numbers.iter().map(|cell| number(cell.clone()))));
    }
    table
}

/// Scores by data set. Noise has its own table.
fn per_dataset(profile: &RobustnessProfile) -> Table {
    let names: Vec<&str> = profile
        .encoders
        .first()
        .map(|e| e.transformations.iter().map(|t| t.transformation.as_str()).collect())
        .unwrap_or_default();
    let mut header = vec!["encoder", "dataset", "original"];
    header.extend(&names);
    let mut table = table(header);
    for EncoderProfile { encoder, datasets, .. } in &profile.encoders {
        for dataset in datasets {
            let mut row = vec![
                Cell::new(encoder),
                Cell::new(&dataset.dataset),
                number(format!("{:.2}", dataset.original)),
            ];
            row.extend(names.iter().map(|name| {
                moved(
                    dataset
                        .transformations
                        .iter()
                        .find(|t| t.transformation == *name)
                        .map(|t| &t.moved),
                )
            }));
            table.add_row(row);
        }
    }
    table
}

/// The ratings of the texts, over all data sets.
fn ratings(judge: &JudgeReport) -> Table {
    let mut table = table([
        "transformation",
        "scale",
        "rating ± SD over texts",
        "texts",
        "drawn",
        "no rating",
        "unchanged",
    ]);
    for row in judge.ratings.iter().filter(|row| row.dataset.is_none()) {
        let mut cells = vec![
            Cell::new(&row.transformation),
            Cell::new(row.scale.title()),
            number(row.rating_text()),
        ];
        let counts = [row.texts, row.drawn, row.unreadable + row.failed, row.unchanged];
        cells.extend(counts.map(|n| number(n.to_string())));
        table.add_row(cells);
    }
    table
}

/// The relation of drift to the ratings, over all data sets.
fn related(judge: &JudgeReport) -> Table {
    let mut table = table([
        "encoder",
        "transformation",
        "scale",
        "drift ~ rating (ρ)",
        "95 % interval",
        "n",
        "remark",
    ]);
    for row in judge.drift.iter().filter(|row| row.dataset.is_none()) {
        let interval = match (row.low, row.high) {
            (Some(low), Some(high)) => format!("{low:+.2} to {high:+.2}"),
            _ => "-".to_owned(),
        };
        table.add_row(vec![
            Cell::new(&row.encoder),
            Cell::new(&row.transformation),
            Cell::new(row.scale.name()),
            number(row.spearman.map_or("-".to_owned(), |rho| format!("{rho:+.2}"))),
            number(interval),
            number(row.texts.to_string()),
            Cell::new(row.note.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

fn outcomes(report: &Report) -> Table {
    let mut table = table([
        "transformation",
        "seed",
        "dataset",
        "texts",
        "ok",
        "recovered",
        "kept original",
        "failed",
        "checks that fired",
    ]);
    for row in &report.checks {
        let fired: Vec<String> = row
            .failed_checks
            .iter()
            .map(|(check, count)| format!("{check} {count}"))
            .collect();
        let mut cells = vec![
            Cell::new(&row.transformation),
            number(row.seed.to_string()),
            Cell::new(&row.dataset),
        ];
        cells.extend([row.texts, row.ok, row.recovered, row.kept_original, row.failed].map(|n| number(n.to_string())));
        cells.push(Cell::new(fired.join(", ")));
        table.add_row(cells);
    }
    table
}
