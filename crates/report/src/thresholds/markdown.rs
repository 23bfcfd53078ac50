//! `thresholds.md`: the thresholds as tables.

use super::{
    headline::{shown, target},
    model::{Rates, ScoreInterval, ScoreMap, TargetMet, ThresholdRow, ThresholdSet, Thresholds},
};
use crate::{
    format::{count, fine3, share},
    markdown::{header, plain, row},
};

pub(super) fn render(all: &Thresholds) -> String {
    let mut page = format!("# Thresholds of {}\n\n", plain(&all.encoder.encoder));
    for sentence in &all.headline {
        page.push_str(&format!("- {}\n", plain(sentence)));
    }
    page.push('\n');
    for set in &all.sets {
        of_set(&mut page, set);
    }
    for map in &all.maps {
        of_map(&mut page, map);
    }
    for (title, list) in [("Without a threshold", &all.without), ("Not mapped", &all.not_mapped)] {
        if !list.is_empty() {
            page.push_str(&format!("## {title}\n\n"));
            for one in list {
                page.push_str(&format!("- {}: {}\n", plain(&one.name), plain(&one.why)));
            }
            page.push('\n');
        }
    }
    page.push_str("## Goals\n\n");
    header(
        &mut page,
        &["Encoder", "Revision", "Vector space", "Run", "Suite", "Report made"],
        6,
    );
    let of = std::iter::once(&all.encoder).chain(all.maps.first().map(|map| &map.from));
    for one in of {
        row(
            &mut page,
            &[
                plain(&one.encoder),
                plain(&one.revision),
                plain(&one.vector_space.chars().take(12).collect::<String>()),
                plain(&one.run),
                plain(&one.suite),
                one.finished.to_string(),
            ],
        );
    }
    page.push_str(&format!(
        "\nTarget on the original texts: {}. In brackets: 95 % intervals, over other items of these data sets. Held out: each item is decided by \
         a threshold that was chosen without it. Restored: the threshold that meets the target on these texts. Precision holds for the share of \
         positives that each table names.\n",
        target(all.options.target)
    ));
    page
}

fn of_set(page: &mut String, set: &ThresholdSet) {
    page.push_str(&format!("## {} ({})\n\n", plain(&set.name), set.task));
    page.push_str(&format!(
        "Threshold {}{}; {} items in {} clusters that share a text; {} positive.\n\n",
        number(set.threshold),
        ends(set.interval.as_ref()),
        count(set.items),
        count(set.clusters),
        share(set.prevalence)
    ));
    for note in &set.notes {
        page.push_str(&format!("Note: {}.\n\n", plain(note)));
    }
    rows(page, &set.rows, true);
    for language in &set.languages {
        page.push_str(&format!(
            "### {}: language {}\n\n",
            plain(&set.name),
            plain(&language.language)
        ));
        rows(page, &language.rows, false);
    }
}

fn rows(page: &mut String, rows: &[ThresholdRow], restored: bool) {
    let held = "Held out";
    let mut heads = vec![
        "Texts",
        "Precision",
        "Recall",
        "False-positive rate",
        held,
        "Target",
        "Unchanged",
        "Changed items",
    ];
    if restored {
        heads.extend(["Restored", "Change", "Recall there"]);
    }
    header(page, &heads, 1);
    for one in rows {
        let pair = |rates: &Rates| format!("{} / {}", shown(&rates.precision), shown(&rates.recall));
        let mut cells = vec![
            one.transformation
                .as_deref()
                .map_or_else(|| "original".to_owned(), plain),
            shown(&one.rates.precision),
            shown(&one.rates.recall),
            one.rates.fpr.as_ref().map_or_else(dash, shown),
            one.held_out.as_ref().map_or_else(dash, pair),
            met(one.target).to_owned(),
            one.unchanged.map_or_else(dash, share),
            one.changed.as_ref().map_or_else(dash, pair),
        ];
        if restored {
            match (&one.restored, &one.not_restored) {
                (Some(found), _) => cells.extend([
                    number(found.threshold),
                    format!("{}{}", number(found.change), ends(found.interval.as_ref())),
                    shown(&found.rates.recall),
                ]),
                (None, Some(why)) => cells.extend([plain(why), dash(), dash()]),
                (None, None) => cells.extend([dash(), dash(), dash()]),
            }
        }
        row(page, &cells);
    }
    page.push('\n');
    for one in rows {
        if let Some(note) = &one.target_note {
            let name = one.transformation.as_deref().unwrap_or("original");
            page.push_str(&format!("{}: {}.\n\n", plain(name), plain(note)));
        }
    }
}

fn of_map(page: &mut String, map: &ScoreMap) {
    page.push_str(&format!(
        "## From scores of {}\n\n{} pairs of {}; {} knots; Spearman's correlation {}.\n\n",
        plain(&map.from.encoder),
        count(map.pairs),
        plain(&map.datasets.join(", ")),
        map.knots.len(),
        fine3(map.spearman)
    ));
    header(
        page,
        &[
            "Error",
            "Root mean square",
            "Mean absolute",
            "95 % at most",
            "Beyond the knots",
        ],
        1,
    );
    let errors = [
        ("the pairs that it was fitted on", map.in_sample),
        ("other pairs (cross-validated)", map.cross_validated),
        ("no map", map.of_no_map),
        ("the mean for all", map.of_the_mean),
    ];
    for (name, error) in errors {
        row(
            page,
            &[
                name.to_owned(),
                number(error.rmse),
                number(error.mae),
                number(error.p95),
                dash(),
            ],
        );
    }
    for one in &map.transformations {
        let error = one.error;
        row(
            page,
            &[
                plain(&one.transformation),
                number(error.rmse),
                number(error.mae),
                number(error.p95),
                share(one.beyond),
            ],
        );
    }
    page.push('\n');
    if !map.thresholds.is_empty() {
        header(
            page,
            &["Data set", "Old threshold", "Mapped", "Own", "Precision", "Recall"],
            1,
        );
        for one in &map.thresholds {
            row(
                page,
                &[
                    plain(&one.dataset),
                    number(one.old),
                    number(one.mapped),
                    one.own.map_or_else(dash, number),
                    shown(&one.rates.precision),
                    shown(&one.rates.recall),
                ],
            );
        }
        page.push('\n');
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

fn dash() -> String {
    "–".to_owned()
}
