//! The comparison as sections of tables.

use super::{Change, DatasetDiff, Diff, DiffRow, DiffSide, ThresholdOf, WorstItem};
use crate::{
    format::{count, ends, p_value, points, share, signed},
    html::short_digest,
    metric::overlap::weight_of_prefix,
    task::LIST_DEPTH,
    text_table::{Section, TextTable, dash},
};

/// All sections, in order.
pub(super) fn sections(diff: &Diff) -> Vec<Section> {
    let mut all = vec![Section {
        title: "Over all data sets".to_owned(),
        tables: tables(&diff.rows, diff.options.k),
        ..Section::default()
    }];
    all.extend(diff.languages.iter().map(|group| Section {
        title: format!("Language: {}", group.language),
        paragraphs: vec![format!("{}.", group.datasets.join(", "))],
        tables: tables(&group.rows, diff.options.k),
        ..Section::default()
    }));
    all.extend(diff.datasets.iter().map(|own| of_dataset(own, diff.options.k)));
    let lists = [
        (
            "Left out",
            "The two runs do not have these in common, so they are not compared.",
            &diff.left_out,
        ),
        (
            "Other rewrites",
            "The two runs have other rewrites of the same texts here.",
            &diff.other_rewrites,
        ),
    ];
    for (title, why, list) in lists.into_iter().filter(|(_, _, list)| !list.is_empty()) {
        all.push(Section {
            title: title.to_owned(),
            paragraphs: vec![why.to_owned()],
            list: list.clone(),
            ..Section::default()
        });
    }
    all.push(sides(diff).into());
    all
}

fn sides(diff: &Diff) -> TextTable {
    TextTable::of([("old", &diff.old), ("new", &diff.new)])
        .words("Side", |(name, _): (&str, &DiffSide)| name.to_owned())
        .words("Run", |(_, side)| side.run.clone())
        .words("Encoder", |(_, side)| side.encoder.clone())
        .words("Revision", |(_, side)| side.revision.clone())
        .words("Weights", |(_, side)| short_digest(side.weights_digest.clone()))
        .words("Vector space", |(_, side)| short_digest(side.vector_space.clone()))
        .words("Suite", |(_, side)| {
            format!("{} ({})", side.suite, short_digest(side.suite_digest.clone()))
        })
        .words("Report made", |(_, side)| side.finished.to_string())
        .titled("Compared runs", notes(diff))
}

/// Notes that a reader needs to understand the tables.
fn notes(diff: &Diff) -> String {
    let threshold = match diff.options.threshold {
        ThresholdOf::Old => {
            "Thresholds of pairs are chosen on the old encoder's original texts and hold for both encoders."
        }
        ThresholdOf::Each => "Thresholds of pairs are chosen on each encoder's own original texts.",
    };
    let seeds: Vec<String> = diff.seeds.iter().map(u64::to_string).collect();
    format!(
        "Scores x 100, mean over seeds ({}). Drop: original less transformed. In brackets: 95 % intervals over other items of \
         these data sets, both encoders on the same resamples. Decisions: items x seeds. p: two-sided, of equal chances of \
         becoming wrong and becoming right; no correction for several rows. {threshold} Rank-biased overlap with p = {}, \
         extrapolated from the first {} documents, or as many as the search returned; the first {} carry {} of its weight.",
        seeds.join(", "),
        diff.options.persistence,
        LIST_DEPTH,
        LIST_DEPTH,
        share(weight_of_prefix(diff.options.persistence, LIST_DEPTH)),
    )
}

/// Scores, then flips and the agreement of lists, if there are any.
fn tables(rows: &[DiffRow], k: usize) -> Vec<TextTable> {
    let scores = TextTable::of(rows)
        .words("Texts", label)
        .number("Old", |row| points(row.old))
        .number("New", |row| points(row.new))
        .number("Change", |row| changed(&row.change))
        .number("Old drop", |row| row.old_drop.map_or_else(dash, signed))
        .number("New drop", |row| row.new_drop.map_or_else(dash, signed))
        .number("Change of drop", |row| {
            row.drop_change.as_ref().map_or_else(dash, changed)
        })
        .titled("Scores", "");
    let mut all = vec![scores, flips(rows), lists(rows, k)];
    all.retain(|table| !table.rows.is_empty());
    all
}

fn flips(rows: &[DiffRow]) -> TextTable {
    let flipped = rows.iter().filter_map(|row| Some((row, row.flips.as_ref()?)));
    let mut tests: Vec<&str> = flipped.clone().map(|(_, flips)| flips.test.as_str()).collect();
    tests.dedup();
    let number = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
    TextTable::of(flipped)
        .words("Texts", |(row, _)| label(row))
        .number("Decisions", |(_, flips)| number(flips.decisions))
        .number("Old right", |(_, flips)| number(flips.old_right))
        .number("New right", |(_, flips)| number(flips.new_right))
        .number("Became wrong", |(_, flips)| {
            format!("{} ({})", number(flips.negative), share(flips.negative_rate()))
        })
        .number("Became right", |(_, flips)| number(flips.positive))
        .number("p", |(_, flips)| p_value(flips.p))
        .titled("Flips", format!("p: {}.", tests.join("; ")))
}

fn lists(rows: &[DiffRow], k: usize) -> TextTable {
    let agreement = |own: &Change| match &own.interval {
        Some(found) => format!("{} [{}, {}]", points(own.value), points(found.low), points(found.high)),
        None => points(own.value),
    };
    TextTable::of(rows.iter().filter_map(|row| Some((row, row.lists.as_ref()?))))
        .words("Texts", |(row, _)| label(row))
        .number("Lists", |(_, lists)| {
            count(usize::try_from(lists.lists).unwrap_or(usize::MAX))
        })
        .number(format!("Overlap at {k} (%)"), |(_, lists)| agreement(&lists.overlap))
        .number("Rank-biased overlap (%)", |(_, lists)| {
            agreement(&lists.rank_biased_overlap)
        })
        .number("Same first document", |(_, lists)| share(lists.same_first))
        .titled("Result lists", "")
}

fn of_dataset(own: &DatasetDiff, k: usize) -> Section {
    let mut tables = tables(&own.rows, k);
    if !own.worst.is_empty() {
        tables.push(worst(&own.worst));
    }
    let items = format!(
        "{} items in {} clusters of items that share a text; language {}.",
        count(own.items),
        count(own.clusters),
        own.language
    );
    Section {
        title: format!("{} ({}, {})", own.dataset, own.task, own.main_score),
        paragraphs: [items].into_iter().chain(remarks(own)).collect(),
        tables,
        ..Section::default()
    }
}

fn worst(items: &[WorstItem]) -> TextTable {
    let became = |one: &WorstItem| {
        let transformed = one.transformed.join(" / ");
        if one.transformed_old.is_empty() {
            return transformed;
        }
        format!("{transformed}; in the old run: {}", one.transformed_old.join(" / "))
    };
    let table = TextTable::of(items)
        .words("Item", |one| one.item.to_string())
        .words("Texts", |one| texts(one.transformation.as_ref()))
        .words("As it was", |one| one.original.join(" / "))
        .words("As it became", became)
        .words("Old", |one| one.old.clone())
        .words("New", |one| one.new.clone())
        .number("Flips", |one| format!("{} of {}", one.flips, one.of));
    TextTable {
        detail: true,
        ..table.titled("Items that lose most", "")
    }
}

/// Remarks on a data set's numbers.
fn remarks(own: &DatasetDiff) -> Vec<String> {
    let mut all = Vec::new();
    match (own.right_old, own.right_new) {
        (Some(old), Some(new)) if old == new => all.push(format!("Flips: {}.", old.sentence())),
        (Some(old), Some(new)) => all.push(format!("Flips: old: {}; new: {}.", old.sentence(), new.sentence())),
        _ => {}
    }
    all.extend(own.no_flips.as_ref().map(|why| format!("No flips: {why}.")));
    all.extend(
        own.no_lists
            .as_ref()
            .map(|why| format!("No agreement of lists: {why}.")),
    );
    all.extend(own.no_intervals.as_ref().map(|why| format!("No intervals: {why}.")));
    all
}

fn label(row: &DiffRow) -> String {
    texts(row.transformation.as_ref())
}

fn texts(transformation: Option<&String>) -> String {
    transformation.map_or_else(|| "original".to_owned(), Clone::clone)
}

fn changed(own: &Change) -> String {
    match &own.interval {
        Some(found) => format!("{} {}", signed(own.value), ends(found)),
        None => signed(own.value),
    }
}
