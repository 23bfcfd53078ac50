//! A report as tables for a terminal.

use std::{collections::BTreeMap, fmt::Write};

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};

use crate::{
    CheckRow, GateReport, JudgeReport, RatingRow, Report,
    answer::worst_first,
    cards,
    format::{ends_fine, fine, points, signed, signed_fine},
    names, noise_view,
    profile::{EncoderProfile, Moved, RobustnessProfile},
    terms::Counters,
    text_table::{TableColumns, TextTable, dash},
};

/// Width of lines where the output is not a terminal.
const WIDTH: u16 = 80;

pub fn render(report: &Report) -> String {
    let report = &*names::short(report);
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
        let _ = writeln!(text, "{}", verdicts(gate));
    }
    let doses = report.profile.doses();
    if !doses.is_empty() {
        let _ = writeln!(text, "{}", noise(report, &doses));
    }
    let shown = noise_view::without_doses(report);
    let _ = writeln!(text, "{}", per_dataset(report));
    if !shown.checks.is_empty() {
        let _ = writeln!(text, "{}", outcomes(&shown));
    }
    if let Some(separation) = &report.separation {
        let sentences = separation.encoders.iter().map(|encoder| encoder.sentence());
        for sentence in separation.asked_sentences().into_iter().chain(sentences) {
            text.push_str(&folded("", &sentence, ""));
        }
    }
    if let Some(judge) = &report.judge {
        let sentence = folded("", &judge.sentence(), "");
        let _ = writeln!(text, "{sentence}{}\n{}", ratings(judge), related(judge));
    }
    let counters = &report.counters;
    let texts = format!(
        "texts: {} planned, {} generated, {} from cache, {} generator calls; scores: {} computed, {} from cache; {:.1} s",
        counters.texts_planned,
        counters.texts_generated,
        counters.texts_cached,
        counters.generator_calls,
        counters.scores_computed,
        counters.scores_cached,
        report.run.seconds,
    );
    let ratings = counters.judge.as_ref().map(|judge| {
        format!(
            "ratings: {} planned, {} asked, {} from cache, {} missing; {} judge calls",
            judge.ratings_planned, judge.ratings_made, judge.ratings_cached, judge.ratings_missing, judge.calls,
        )
    });
    for line in [texts, tokens(counters)].into_iter().chain(ratings) {
        text.push_str(&folded("", &line, "  "));
    }
    for line in report.headline.iter().chain(&report.notes) {
        text.push_str(&folded("* ", line, "  "));
    }
    text
}

/// A paragraph in lines of the terminal's width. The first starts with `first`, the others with
/// `rest`.
fn folded(first: &str, text: &str, rest: &str) -> String {
    let length = |text: &str| text.chars().count();
    let width = usize::from(width());
    let mut lines = first.to_owned();
    let (mut column, mut begins) = (length(first), true);
    for word in text.split_whitespace() {
        if !begins && column + 1 + length(word) > width {
            lines.push('\n');
            lines.push_str(rest);
            (column, begins) = (length(rest), true);
        }
        if !begins {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length(word);
        begins = false;
    }
    lines + "\n"
}

fn width() -> u16 {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(WIDTH, |(columns, _)| columns.0)
}

/// The gate's verdict, and a sentence for each rule and encoder, the worst verdict first.
fn verdicts(gate: &GateReport) -> String {
    let caveats = gate.caveats().join(" ");
    let mut text = folded("", &format!("{} {caveats}", gate.summary()), "");
    for answer in gate.answers() {
        let _ = writeln!(text, "{} {}:", answer.own.encoder, answer.own.verdict.verb());
        let said = gate.rules_of(answer.own);
        for (rule, said) in worst_first(said.collect()) {
            let verdict = format!("  {:<9}  ", said.verdict.name());
            text.push_str(&folded(&verdict, &rule.sentence(said), &" ".repeat(13)));
        }
    }
    if let Some(rounds) = gate.rounds() {
        text.push_str(&folded("", &rounds, ""));
    }
    text.trim_end().to_owned()
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

/// A table that is as wide as the terminal at most; elsewhere 80 columns. Cells are wrapped at
/// words, and a word is split only if the longest words of all columns do not fit.
#[derive(Debug, Clone)]
pub struct TerminalTable(Table);

/// A table without rows, with a line below its head.
pub fn empty_table() -> TerminalTable {
    let line = LineStyle::none().fill('─').junction('─');
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(line))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width());
    TerminalTable(table)
}

impl From<&TextTable> for TerminalTable {
    fn from(table: &TextTable) -> Self {
        let mut shown = empty_table();
        shown.set_header(&table.head);
        for cells in &table.rows {
            shown.add_row(cells);
        }
        for (column, number) in shown.column_iter_mut().zip(&table.numbers) {
            if *number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        shown
    }
}

impl<R> From<TableColumns<R>> for TerminalTable {
    fn from(columns: TableColumns<R>) -> Self {
        Self::from(&columns.table)
    }
}

impl std::ops::Deref for TerminalTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0
    }
}

impl std::ops::DerefMut for TerminalTable {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.0
    }
}

impl std::fmt::Display for TerminalTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = self.0.clone();
        let least = least_widths(&table);
        for (column, least) in table.column_iter_mut().zip(least) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The width of each column with its padding that splits no word. If these do not fit, the widest
/// ones are reduced, the first column last.
fn least_widths(table: &Table) -> Vec<u16> {
    const PADDING: u16 = 2;
    let rows = || table.header().into_iter().chain(table.row_iter());
    let longest = |cell: &Cell| {
        let content = cell.content();
        let words = content.split([' ', '\n']).map(|word| word.chars().count());
        u16::try_from(words.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let columns = rows().map(|row| row.cell_iter().count()).max().unwrap_or(0);
    let mut least: Vec<u16> = (0..columns)
        .map(|column| {
            rows()
                .filter_map(|row| row.cell_iter().nth(column))
                .map(longest)
                .max()
                .unwrap_or(0)
                + PADDING
        })
        .collect();
    // A space divides two columns.
    let most = u32::from(table.width().unwrap_or(WIDTH)).saturating_sub(columns.saturating_sub(1) as u32);
    while least.iter().map(|width| u32::from(*width)).sum::<u32>() > most {
        let others = least.iter_mut().skip(1).max().filter(|width| **width > 8 + PADDING);
        match others {
            Some(widest) => *widest -= 1,
            None => match least.iter_mut().max().filter(|width| **width > 1 + PADDING) {
                Some(widest) => *widest -= 1,
                None => break,
            },
        }
    }
    least
}

fn table<S: ToString>(header: impl IntoIterator<Item = S>) -> TerminalTable {
    let mut table = empty_table();
    table.set_header(header.into_iter().map(|h| Cell::new(h.to_string())));
    table
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The scores of each encoder on the original texts, on each axis, and in total.
fn axes(profile: &RobustnessProfile) -> TerminalTable {
    let mut table = table(["encoder", "score", "change", "95 % interval"]);
    for encoder in &profile.encoders {
        table.add_row(vec![Cell::new(&encoder.encoder), number(fine(encoder.original))]);
        let axes = encoder.axes.iter().map(|one| (one.axis.title(), &one.moved));
        for (title, moved) in axes.chain(encoder.total.iter().map(|total| ("total", total))) {
            let sd = moved.sd.map(|sd| format!("\nSD over seeds {}", fine(sd)));
            table.add_row(vec![
                Cell::new(part(title)),
                number(fine(moved.mean)),
                number(signed_fine(moved.delta)),
                number(interval(moved) + &sd.unwrap_or_default()),
            ]);
        }
    }
    table
}

/// The first cell of a row that belongs to the encoder above it. The space breaks no line.
fn part(name: &str) -> String {
    format!("·\u{a0}{name}")
}

/// The interval of a change, for other items.
fn interval(moved: &Moved) -> String {
    moved.intervals.items.as_ref().map_or("–".to_owned(), ends_fine)
}

/// The drop of each encoder and channel at each dose.
fn noise(report: &Report, doses: &[f64]) -> TerminalTable {
    let head = noise_view::head(doses);
    let mut table = table(head.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, cell)| cell));
    let mut above = String::new();
    for cells in noise_view::rows(report, doses) {
        let [encoder, channel, drops @ .., half] = cells.as_slice() else {
            continue;
        };
        if *encoder != above {
            table.add_row([encoder]);
            above.clone_from(encoder);
        }
        let drops = drops.iter().map(|cell| number(cell.clone()));
        // The numbers behind "no clear effect" are in the columns before it.
        let half = half.split(':').next().unwrap_or(half);
        table.add_row(
            [Cell::new(part(channel))]
                .into_iter()
                .chain(drops)
                .chain([Cell::new(half)]),
        );
    }
    table
}

/// Scores by data set, with the transformation under which an encoder loses most.
fn per_dataset(report: &Report) -> TerminalTable {
    let mut table = table(["encoder", "original", "total", "change", "weakest"]);
    for EncoderProfile { encoder, datasets, .. } in &report.profile.encoders {
        table.add_row([encoder]);
        for dataset in datasets {
            let total = dataset.total.as_ref();
            let dash = || "–".to_owned();
            table.add_row(vec![
                Cell::new(part(&dataset.dataset)),
                number(points(dataset.original)),
                number(total.map_or_else(dash, |total| points(total.mean))),
                number(total.map_or_else(dash, |total| signed(total.delta))),
                Cell::new(
                    cards::weakest_of(report, dataset)
                        .map_or_else(dash, |(label, delta)| format!("{label} {}", signed(delta))),
                ),
            ]);
        }
    }
    table
}

/// The ratings of the texts, over all data sets.
fn ratings(judge: &JudgeReport) -> TerminalTable {
    let table = TextTable::of(judge.ratings.iter().filter(|row| row.dataset.is_none()))
        .words("transformation", |row| row.transformation.clone())
        .words("scale", |row| row.scale.title())
        .number("rating ± SD over texts", RatingRow::rating_text)
        .number("texts", |row| row.texts.to_string())
        .number("drawn", |row| row.drawn.to_string())
        .number("no rating", |row| (row.unreadable + row.failed).to_string())
        .number("unchanged", |row| row.unchanged.to_string());
    table.into()
}

/// The relation of drift to the ratings, over all data sets.
fn related(judge: &JudgeReport) -> TerminalTable {
    let table = TextTable::of(judge.drift.iter().filter(|row| row.dataset.is_none()))
        .words("encoder", |row| row.encoder.clone())
        .words("rewrites", |row| {
            format!("{}, {}", row.transformation, row.scale.name())
        })
        .number("ρ", |row| row.spearman.map_or_else(dash, signed_fine))
        .number("95 % interval", |row| match (row.low, row.high, &row.note) {
            (Some(low), Some(high), _) => format!("{} to {}", signed_fine(low), signed_fine(high)),
            (_, _, Some(note)) => note.clone(),
            _ => dash(),
        })
        .number("texts", |row| row.texts.to_string());
    table.into()
}

/// The outcomes of each transformation, over all seeds and data sets.
fn outcomes(report: &Report) -> TerminalTable {
    let mut labels: Vec<&str> = Vec::new();
    for row in &report.checks {
        if !labels.contains(&row.transformation.as_str()) {
            labels.push(&row.transformation);
        }
    }
    let sum = |label: &str, of: fn(&CheckRow) -> u64| checks_of(report, label).map(of).sum::<u64>().to_string();
    let fired = |label: &str| {
        let mut fired: BTreeMap<&str, u64> = BTreeMap::new();
        for (check, count) in checks_of(report, label).flat_map(|row| &row.failed_checks) {
            *fired.entry(check).or_default() += count;
        }
        let fired: Vec<String> = fired.iter().map(|(check, count)| format!("{check} {count}")).collect();
        fired.join(", ")
    };
    let table = TextTable::of(labels)
        .words("transformation", str::to_owned)
        .number("texts", |label| sum(label, |row| row.texts))
        .number("ok", |label| sum(label, |row| row.ok))
        .number("recovered", |label| sum(label, |row| row.recovered))
        .number("kept original", |label| sum(label, |row| row.kept_original))
        .number("failed", |label| sum(label, |row| row.failed))
        .words("checks that fired", fired);
    table.into()
}

fn checks_of<'a>(report: &'a Report, transformation: &'a str) -> impl Iterator<Item = &'a CheckRow> {
    report
        .checks
        .iter()
        .filter(move |row| row.transformation == transformation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        crate::read(&std::fs::read("../../eval-svc/fixtures/report/report.json").unwrap()).unwrap()
    }

    #[test]
    fn piped_output_fits_80_columns_and_a_rule_is_a_sentence() {
        let text = render(&report());
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
        }
        let rule = text.lines().position(|line| line.starts_with("  fail ")).unwrap();
        let lines: Vec<&str> = text.lines().skip(rule).take(2).collect();
        assert!(
            lines[0].contains("drops by") && lines.concat().contains("(limit 9)"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_table_splits_words_of_the_widest_columns_only() {
        let mut table = empty_table();
        table.set_width(60).set_header(["name", "state", "source"]);
        table.add_row(["AmazonCounterfactualClassification", "present", &"s".repeat(40)]);
        let text = table.to_string();
        assert!(
            text.contains("AmazonCounterfactualClassification") && text.contains("present"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_paragraph_is_folded_at_words() {
        let words = vec!["word"; 40].join(" ");
        let text = folded("* ", &words, "  ");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 41);
    }
}
