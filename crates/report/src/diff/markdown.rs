//! `diff.md`: the comparison as tables.

use super::{DatasetDiff, Diff, DiffRow, DiffSide, ThresholdOf};
use crate::{
    evidence::interval::DeltaInterval,
    format::{count, ends, p_value, points, share, signed},
    markdown::{header, plain, row},
    metric::overlap::weight_of_prefix,
    task::LIST_DEPTH,
};

pub(super) fn render(diff: &Diff) -> String {
    let mut page = format!(
        "# {} against {}\n\n",
        plain(&diff.new.encoder),
        plain(&diff.old.encoder)
    );
    for sentence in &diff.headline {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    rows(&mut page, "## Over all data sets", &diff.rows, diff.options.k);
    for group in &diff.languages {
        let title = format!("## Language: {}", plain(&group.language));
        rows(&mut page, &title, &group.rows, diff.options.k);
    }
    for dataset in &diff.datasets {
        of_dataset(&mut page, dataset, diff.options.k);
    }
    if !diff.left_out.is_empty() {
        page.push_str("## Left out\n\nThe two runs do not have these in common, so they are not compared.\n\n");
        for one in &diff.left_out {
            page.push_str(&format!("- {}\n", plain(one)));
        }
        page.push('\n');
    }
    if !diff.other_rewrites.is_empty() {
        page.push_str("## Other rewrites\n\nThe two runs have other rewrites of the same texts here.\n\n");
        for one in &diff.other_rewrites {
            page.push_str(&format!("- {}\n", plain(one)));
        }
        page.push('\n');
    }
    page.push_str("## Compared runs\n\n");
    header(
        &mut page,
        &["", "Run", "Encoder", "Revision", "Vector space", "Suite", "Report made"],
        7,
    );
    for (name, side) in [("old", &diff.old), ("new", &diff.new)] {
        row(&mut page, &side_cells(name, side));
    }
    page.push_str(&format!("\n{}\n", notes(diff)));
    page
}

fn side_cells(name: &str, side: &DiffSide) -> Vec<String> {
    vec![
        name.to_owned(),
        plain(&side.run),
        plain(&side.encoder),
        plain(&side.revision),
        plain(&side.vector_space.chars().take(12).collect::<String>()),
        plain(&side.suite),
        side.finished.to_string(),
    ]
}

/// Notes that a reader needs to understand the tables.
pub(super) fn notes(diff: &Diff) -> String {
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

fn rows(page: &mut String, title: &str, rows: &[DiffRow], k: usize) {
    page.push_str(&format!("{title}\n\n"));
    header(
        page,
        &[
            "Texts",
            "Old",
            "New",
            "Change",
            "Old drop",
            "New drop",
            "Change of drop",
        ],
        1,
    );
    for one in rows {
        row(
            page,
            &[
                label(one),
                points(one.old),
                points(one.new),
                changed(one.change.value, one.change.interval.as_ref()),
                one.old_drop.map_or_else(dash, signed),
                one.new_drop.map_or_else(dash, signed),
                one.drop_change
                    .as_ref()
                    .map_or_else(dash, |own| changed(own.value, own.interval.as_ref())),
            ],
        );
    }
    page.push('\n');
    if rows.iter().any(|one| one.flips.is_some()) {
        header(
            page,
            &[
                "Texts",
                "Decisions",
                "Old right",
                "New right",
                "Became wrong",
                "Became right",
                "p",
            ],
            1,
        );
        for one in rows {
            let Some(flips) = &one.flips else { continue };
            let number = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX));
            row(
                page,
                &[
                    label(one),
                    number(flips.decisions),
                    number(flips.old_right),
                    number(flips.new_right),
                    format!("{} ({})", number(flips.negative), share(flips.negative_rate())),
                    number(flips.positive),
                    plain(&p_value(flips.p)),
                ],
            );
        }
        page.push('\n');
        let mut tests: Vec<&str> = rows
            .iter()
            .filter_map(|one| Some(one.flips.as_ref()?.test.as_str()))
            .collect();
        tests.dedup();
        page.push_str(&format!("p: {}.\n\n", plain(&tests.join("; "))));
    }
    if rows.iter().any(|one| one.lists.is_some()) {
        let overlap = format!("Overlap at {k} (%)");
        header(
            page,
            &[
                "Texts",
                "Lists",
                &overlap,
                "Rank-biased overlap (%)",
                "Same first document",
            ],
            1,
        );
        for one in rows {
            let Some(lists) = &one.lists else { continue };
            let agreement = |own: &super::Change| match &own.interval {
                Some(found) => format!("{} [{}, {}]", points(own.value), points(found.low), points(found.high)),
                None => points(own.value),
            };
            row(
                page,
                &[
                    label(one),
                    count(usize::try_from(lists.lists).unwrap_or(usize::MAX)),
                    agreement(&lists.overlap),
                    agreement(&lists.rank_biased_overlap),
                    share(lists.same_first),
                ],
            );
        }
        page.push('\n');
    }
}

fn of_dataset(page: &mut String, own: &DatasetDiff, k: usize) {
    let title = format!("## {} ({}, {})", plain(&own.dataset), own.task, plain(&own.main_score));
    rows(page, &title, &own.rows, k);
    for sentence in remarks(own) {
        page.push_str(&format!("{}\n\n", plain(&sentence)));
    }
    if own.worst.is_empty() {
        return;
    }
    page.push_str("Items that lose most:\n\n");
    header(
        page,
        &["Item", "Texts", "As it was", "As it became", "Old", "New", "Flips"],
        6,
    );
    for one in &own.worst {
        let texts = |texts: &[String]| plain(&texts.join(" / "));
        row(
            page,
            &[
                one.item.to_string(),
                one.transformation
                    .as_deref()
                    .map_or_else(|| "original".to_owned(), plain),
                texts(&one.original),
                if one.transformed_old.is_empty() {
                    texts(&one.transformed)
                } else {
                    format!(
                        "{}; in the old run: {}",
                        texts(&one.transformed),
                        texts(&one.transformed_old)
                    )
                },
                plain(&one.old),
                plain(&one.new),
                format!("{} of {}", one.flips, one.of),
            ],
        );
    }
    page.push('\n');
}

/// Remarks on a data set's numbers.
pub(super) fn remarks(own: &DatasetDiff) -> Vec<String> {
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

fn label(one: &DiffRow) -> String {
    one.transformation
        .as_deref()
        .map_or_else(|| "original".to_owned(), plain)
}

fn changed(value: f64, interval: Option<&DeltaInterval>) -> String {
    match interval {
        Some(found) => format!("{} {}", signed(value), ends(found)),
        None => signed(value),
    }
}

fn dash() -> String {
    "–".to_owned()
}
