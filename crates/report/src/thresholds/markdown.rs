//! `thresholds.md`: the thresholds as tables.

use super::{
    headline::{shown, target},
    model::{Rates, ScoreInterval, ScoreMap, ScoredEncoder, TargetMet, ThresholdRow, ThresholdSet, Thresholds},
};
use crate::{
    format::{count, fine3, share},
    html::short_digest,
    markdown::plain,
    text_table::{Section, TextTable, dash},
};

pub(super) fn render(all: &Thresholds) -> String {
    let mut page = format!("# Thresholds of {}\n\n", plain(&all.encoder.encoder));
    for sentence in &all.headline {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    let lists = [("Without a threshold", &all.without), ("Not mapped", &all.not_mapped)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let lists = lists.map(|(title, list)| Section {
        title: title.to_owned(),
        list: list.iter().map(|one| format!("{}: {}", one.name, one.why)).collect(),
        ..Section::default()
    });
    let sections = all.sets.iter().flat_map(of_set).chain(all.maps.iter().map(of_map));
    for section in sections.chain(lists).chain([goals(all).into()]) {
        section.markdown(&mut page);
    }
    page
}

fn goals(all: &Thresholds) -> TextTable {
    let encoders = std::iter::once(&all.encoder).chain(all.maps.first().map(|map| &map.from));
    TextTable::of(encoders)
        .words("Encoder", |one: &ScoredEncoder| one.encoder.clone())
        .words("Revision", |one| one.revision.clone())
        .words("Vector space", |one| short_digest(one.vector_space.clone()))
        .words("Run", |one| one.run.clone())
        .words("Suite", |one| one.suite.clone())
        .words("Report made", |one| one.finished.to_string())
        .titled(
            "Goals",
            format!(
                "Target on the original texts: {}. In brackets: 95 % intervals, over other items of these data sets. Held out: each item is decided by \
                 a threshold that was chosen without it. Restored: the threshold that meets the target on these texts. Precision holds for the share of \
                 positives that each table names.",
                target(all.options.target)
            ),
        )
}

/// A section for the set, and one for each of its languages.
fn of_set(set: &ThresholdSet) -> Vec<Section> {
    let threshold = format!(
        "Threshold {}{}; {} items in {} clusters that share a text; {} positive.",
        number(set.threshold),
        ends(set.interval.as_ref()),
        count(set.items),
        count(set.clusters),
        share(set.prevalence)
    );
    let notes = set.notes.iter().map(|note| format!("Note: {note}."));
    let mut all = vec![Section {
        title: format!("{} ({})", set.name, set.task),
        paragraphs: [threshold].into_iter().chain(notes).collect(),
        tables: vec![rows(&set.rows, true)],
        ..Section::default()
    }];
    all.extend(set.languages.iter().map(|language| Section {
        title: format!("{}: language {}", set.name, language.language),
        tables: vec![rows(&language.rows, false)],
        ..Section::default()
    }));
    all
}

fn rows(rows: &[ThresholdRow], restored: bool) -> TextTable {
    let pair = |rates: &Rates| format!("{} / {}", shown(&rates.precision), shown(&rates.recall));
    let label = |row: &ThresholdRow| row.transformation.clone().unwrap_or_else(|| "original".to_owned());
    let mut table = TextTable::of(rows)
        .words("Texts", label)
        .number("Precision", |row| shown(&row.rates.precision))
        .number("Recall", |row| shown(&row.rates.recall))
        .number("False-positive rate", |row| {
            row.rates.fpr.as_ref().map_or_else(dash, shown)
        })
        .number("Held out", |row| row.held_out.as_ref().map_or_else(dash, pair))
        .words("Target", |row| met(row.target).to_owned())
        .number("Unchanged", |row| row.unchanged.map_or_else(dash, share))
        .number("Changed items", |row| row.changed.as_ref().map_or_else(dash, pair));
    if restored {
        table = table
            .words("Restored", |row| match (&row.restored, &row.not_restored) {
                (Some(found), _) => number(found.threshold),
                (None, why) => why.clone().unwrap_or_else(dash),
            })
            .number("Change", |row| {
                row.restored.as_ref().map_or_else(dash, |found| {
                    format!("{}{}", number(found.change), ends(found.interval.as_ref()))
                })
            })
            .number("Recall there", |row| {
                row.restored
                    .as_ref()
                    .map_or_else(dash, |found| shown(&found.rates.recall))
            });
    }
    let notes = rows
        .iter()
        .filter_map(|row| Some((label(row), row.target_note.as_ref()?)));
    let notes: Vec<String> = notes.map(|(label, note)| format!("{label}: {note}.")).collect();
    table.titled("Rates", notes.join(" "))
}

fn of_map(map: &ScoreMap) -> Section {
    let fit = format!(
        "{} pairs of {}; {} knots; Spearman's correlation {}.",
        count(map.pairs),
        map.datasets.join(", "),
        map.knots.len(),
        fine3(map.spearman)
    );
    let whole = [
        ("the pairs that it was fitted on", map.in_sample),
        ("other pairs (cross-validated)", map.cross_validated),
        ("no map", map.of_no_map),
        ("the mean for all", map.of_the_mean),
    ];
    let whole = whole.into_iter().map(|(name, error)| (name, error, None));
    let each = map.transformations.iter();
    let each = each.map(|one| (one.transformation.as_str(), one.error, Some(one.beyond)));
    let errors = TextTable::of(whole.chain(each))
        .words("Error", |(name, ..)| name.to_owned())
        .number("Root mean square", |(_, error, _)| number(error.rmse))
        .number("Mean absolute", |(_, error, _)| number(error.mae))
        .number("95 % at most", |(_, error, _)| number(error.p95))
        .number("Beyond the knots", |(.., beyond)| beyond.map_or_else(dash, share))
        .titled("Errors", "");
    let thresholds = TextTable::of(&map.thresholds)
        .words("Data set", |one| one.dataset.clone())
        .number("Old threshold", |one| number(one.old))
        .number("Mapped", |one| number(one.mapped))
        .number("Own", |one| one.own.map_or_else(dash, number))
        .number("Precision", |one| shown(&one.rates.precision))
        .number("Recall", |one| shown(&one.rates.recall))
        .titled("Thresholds", "");
    let mut tables = vec![errors, thresholds];
    tables.retain(|table| !table.rows.is_empty());
    Section {
        title: format!("From scores of {}", map.from.encoder),
        paragraphs: vec![fit],
        tables,
        ..Section::default()
    }
}

fn met(target: TargetMet) -> &'static str {
    match target {
        TargetMet::Met => "met",
        TargetMet::Missed => "missed",
        TargetMet::NotShown => "not shown",
        TargetMet::NoNumber => "–",
    }
}

fn number(value: f64) -> String {
    format!("{value:.4}").replacen('-', "−", 1)
}

fn ends(interval: Option<&ScoreInterval>) -> String {
    interval.map_or_else(String::new, |found| {
        format!(" [{}, {}]", number(found.low), number(found.high))
    })
}
