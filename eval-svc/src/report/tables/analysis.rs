//! HTEB's tables 5 and 13: error rates, and how every number was made.

use super::{Cell, Tables, column, plain};
use crate::{
    profile::Grid,
    report::{Report, format::share},
};

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
    // Checks by other names than HTEB's (a generator that failed, say) get columns of their own: nothing is dropped.
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
    let mut columns = vec![column("", "Transformation"), column("", "Texts"), column("", "Total")];
    columns.extend(names.iter().map(|(_, title)| column("Check", title)));
    columns.push(column("", "Retried"));
    columns.push(column("First attempt", "Total"));
    columns.extend(names.iter().map(|(_, title)| column("First attempt", title)));
    let rows = report.error_rates.iter().map(|rates| {
        let percent = |value: f64| Cell::shown(share(value), value);
        let mut cells = vec![
            Cell::text(&rates.transformation),
            Cell::shown(rates.texts.to_string(), rates.texts as f64),
            percent(rates.unchanged),
        ];
        let checks = names
            .iter()
            .map(|(name, _)| rates.checks.get(name).copied().unwrap_or(0.0));
        cells.extend(checks.map(percent));
        cells.push(percent(rates.recovered));
        cells.push(percent(rates.first_failed));
        let first = names
            .iter()
            .map(|(name, _)| rates.first_checks.get(name).copied().unwrap_or(0.0));
        cells.extend(first.map(percent));
        plain(cells)
    });
    tables.add(
        "hteb-5",
        "HTEB, table 5",
        format!(
            "Error rates after at most {} attempts{}, as shares of the distinct texts of all data sets and seeds. Total: texts \
             for which the original stood in, each counted once; several checks may fire on one. Retried: passed after \
             another attempt. First attempt: the same before any retry, which is what the paper's rates are. The paper has a row a \
             generator, here a row a transformation.",
            report.suite.attempts,
            if report.suite.retry_identical { "" } else { " (identical texts are not retried)" }
        ),
        columns,
        rows.collect(),
    );
}

fn methods(tables: &mut Tables, grid: &Grid, report: &Report) {
    let (encoders, datasets, seeds) = (grid.encoders.len(), grid.datasets.len(), grid.seeds.len());
    let lines: [(&str, &str, &str, &str, String); 8] = [
        (
            "Scores per axis and total",
            "Score of an encoder",
            "Mean over seeds, transformations of an axis, axes, data sets",
            "Mean; ± sample SD over seeds of the number it stands beside",
            format!("{seeds} seeds"),
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
            "Kendall's τ-b; mean ± sample SD over data sets",
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
            "Distinct text and what became of it",
            "Mean over texts, then seeds, then data sets",
            "1 − cosine under the encoder",
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
