//! HTEB's tables 5 and 13: error rates, and the origin of every number.

use super::{Cell, Tables, column, plain};
use crate::{Report, format::share, profile::Grid};

/// The ten checks of HTEB, with the headings of its table 5.
const CHECKS: [(&str, &str); 10] = [
    ("identical", "Identical"),
    ("empty", "Empty"),
    ("ellipsis", "Ellipsis"),
    ("structured", "JSON"),
    ("reasoning_leak", "Reasoning leak"),
    ("instruction_prefix", "Prefix leak"),
    ("wrong_language", "Language"),
    ("runaway", "Runaway"),
    ("truncated", "Truncated"),
    ("summary_longer", "Longer summary"),
];

pub(super) fn add(tables: &mut Tables, grid: &Grid, report: &Report) {
    errors(tables, report);
    methods(tables, grid, report);
}

fn errors(tables: &mut Tables, report: &Report) {
    // Checks that HTEB does not have (such as a failed generator) get columns of their own, so that
    // nothing is dropped.
    let mut names: Vec<(String, String)> = CHECKS.map(|(name, title)| (name.to_owned(), title.to_owned())).to_vec();
    for name in report
        .error_rates
        .iter()
        .flat_map(|rates| rates.checks.keys().chain(rates.first_checks.keys()))
    {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name.clone(), name.replace('_', " ")));
        }
    }
    let mut columns = vec![column("", "Transformation"), column("", "Texts")];
    for group in ["First attempt", "Residual, after retries"] {
        columns.push(column(group, "Total"));
        columns.extend(names.iter().map(|(_, title)| column(group, title)));
    }
    columns.push(column("", "Retried"));
    let rows = report.error_rates.iter().map(|rates| {
        let percent = |value: f64| Cell::shown(share(value), value);
        let mut cells = vec![
            Cell::text(&rates.transformation),
            Cell::shown(rates.texts.to_string(), rates.texts as f64),
        ];
        for (total, checks) in [
            (rates.first_failed, &rates.first_checks),
            (rates.unchanged, &rates.checks),
        ] {
            cells.push(percent(total));
            let shares = names.iter().map(|(name, _)| checks.get(name).copied().unwrap_or(0.0));
            cells.extend(shares.map(percent));
        }
        cells.push(percent(rates.recovered));
        plain(cells)
    });
    tables.add(
        "hteb-5",
        "HTEB, table 5",
        format!(
            "Error rates at the first attempt, and residual error rates after retries: shares of the distinct texts of all data sets and \
             seeds. The paper's rates are those of the first attempt; it has one row per generator, this one has one row per transformation. At most \
             {} attempts a text were made{}. Total: texts that failed a check, each counted once; several checks may fire on one. After \
             retries, the original stood in for them. Retried: passed after another attempt.",
            report.suite.attempts,
            if report.suite.retry_identical { "" } else { " (identical texts are not retried)" }
        ),
        columns,
        rows.collect(),
    );
}

fn methods(tables: &mut Tables, grid: &Grid, report: &Report) {
    let (encoders, datasets, seeds) = (grid.encoders.len(), grid.datasets.len(), grid.seeds.len());
    let lines: [(&str, &str, &str, &str, String); 10] = [
        (
            "Scores per axis and total",
            "Score of an encoder",
            "Mean over seeds, transformations of an axis, axes, data sets",
            "Mean; SD over seeds: the sample SD of the number it stands beside, no interval",
            format!("{seeds} seeds"),
        ),
        (
            "Change of a score, axis and total: other items",
            "Item of a data set; items that share a text together",
            "None: all scores on one resample of items, then as the scores",
            "95 % interval by bootstrap of items, corrected percentiles",
            format!("{datasets} data sets, their items"),
        ),
        (
            "Change of an axis and total: other data sets",
            "Difference of a group of data sets",
            "Mean over seeds, transformations, axes, data sets of the group",
            "95 % interval by Student's t over groups",
            report.profile.counted(),
        ),
        (
            "Shift of a transformation, one encoder",
            "Paired difference on a data set",
            "Mean over seeds",
            "Wilcoxon signed-rank, two-sided, Holm over transformations; Hodges–Lehmann shift, 95 % interval from the Walsh \
             averages and by percentile bootstrap (1000)",
            format!("{datasets} data sets"),
        ),
        (
            "Shift of a transformation, all encoders",
            "Paired difference on a data set",
            "Mean over seeds and encoders",
            "The same",
            format!("{datasets} data sets"),
        ),
        (
            "Absolute change of an axis",
            "Absolute difference of a data set and transformation",
            "Mean over seeds and encoders",
            "Median",
            format!("{datasets} data sets × transformations"),
        ),
        (
            "Encoder against baseline",
            "Paired difference on a data set",
            "Mean over seeds",
            "Wilcoxon signed-rank, Holm over encoders; Hodges–Lehmann shift",
            format!("{datasets} data sets"),
        ),
        (
            "Stability of rankings",
            "Original and transformed scores of the encoders on a data set",
            "Mean over seeds (and transformations)",
            "Kendall's τ-b; mean over data sets, ± sample SD over them with four encoders or more; data sets whose order changes",
            format!("{encoders} encoders"),
        ),
        (
            "Split-half reliability",
            "Scores of the encoders on half of the data sets",
            "Mean over seeds, transformations, data sets of the half",
            "Spearman's ρ; median of 1000 task-stratified splits",
            format!("{encoders} encoders, {datasets} data sets"),
        ),
        (
            "Drift",
            "Distinct text and its rewrite",
            "Mean over texts, then seeds, then data sets",
            "1 − cosine under the encoder; also divided by its parallel gap",
            format!(
                "{} pairs",
                report.drift.iter().map(|row| row.pairs).max().unwrap_or_default()
            ),
        ),
    ];
    let judged = report.judge.as_ref().map(|judge| {
        (
            "Drift against a judge's ratings",
            "Drift and rating of a text",
            "Mean over seeds",
            "Spearman's ρ over texts, 95 % percentile bootstrap interval",
            format!(
                "{} texts at most",
                judge.drift.iter().map(|row| row.texts).max().unwrap_or_default()
            ),
        )
    });
    let rows = lines
        .into_iter()
        .chain(judged)
        .map(|(analysis, unit, aggregation, method, n)| {
            plain(
                [analysis, unit, aggregation, method, n.as_str()]
                    .map(Cell::text)
                    .to_vec(),
            )
        });
    tables.add(
        "hteb-13",
        "HTEB, table 13",
        "How the numbers were made: what is observed, what was averaged before, and the method.".to_owned(),
        ["Analysis", "Unit of observation", "Averaged before", "Method", "n"]
            .map(|name| column("", name))
            .to_vec(),
        rows.collect(),
    );
}
