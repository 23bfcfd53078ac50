//! Completes a report with all values that follow from its other parts.

use std::collections::BTreeMap;

use super::{CheckRow, ErrorRates, Report, drift, findings, languages, tables};
use crate::profile::NotComputed;

/// Fills in all values that follow from the profile, the checks and the scores: error rates, the
/// papers' tables, missing values with their reasons, notes and headline. Existing notes come
/// first.
pub fn complete(report: &mut Report) {
    report.error_rates = error_rates(report);
    report.languages.targets = languages::targets(report);
    let made = tables::tables(report);
    report.tables = made.tables;
    report.not_computed = not_computed(report);
    report.not_computed.extend(made.missing);
    let notes = findings::notes(report);
    report.notes.extend(notes);
    report.headline = findings::headline(report);
}

fn error_rates(report: &Report) -> Vec<ErrorRates> {
    let planned = report.suite.transformations.iter();
    planned
        .map(|planned| {
            let rows: Vec<&CheckRow> = report
                .checks
                .iter()
                .filter(|row| row.transformation == planned.label)
                .collect();
            rates(&planned.label, &rows)
        })
        .collect()
}

fn rates(transformation: &str, rows: &[&CheckRow]) -> ErrorRates {
    let sum = |of: &dyn Fn(&CheckRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
    let texts = sum(&|row| row.texts);
    let share = |count: u64| if texts == 0 { 0.0 } else { count as f64 / texts as f64 };
    let counted = |of: fn(&CheckRow) -> &BTreeMap<String, u64>| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in rows.iter().flat_map(|row| of(row)) {
            *counts.entry(name.clone()).or_default() += count;
        }
        counts
    };
    let transformed = sum(&|row| row.ok + row.recovered);
    let shares = |counts: BTreeMap<String, u64>, of: u64| -> BTreeMap<String, f64> {
        let part = |count| if of == 0 { 0.0 } else { count as f64 / of as f64 };
        counts.into_iter().map(|(name, count)| (name, part(count))).collect()
    };
    // Means are over the transformed texts, so each row is weighted by their number.
    let mean = |of: &dyn Fn(&CheckRow) -> Option<f64>| {
        let weighed = || {
            let rows = rows.iter();
            rows.filter_map(|row| Some(((row.ok + row.recovered) as f64, of(row)?)))
        };
        let weight: f64 = weighed().map(|(weight, _)| weight).sum();
        (weight > 0.0).then(|| weighed().map(|(weight, value)| weight * value).sum::<f64>() / weight)
    };
    ErrorRates {
        transformation: transformation.to_owned(),
        texts,
        unchanged: share(sum(&|row| row.kept_original + row.failed)),
        same: Some(share(sum(&CheckRow::unchanged_texts))),
        near_copies: rows.iter().map(|row| row.near_copies).sum::<Option<u64>>().map(share),
        recovered: share(sum(&|row| row.recovered)),
        checks: shares(counted(|row| &row.failed_checks), texts),
        first_failed: share(texts - sum(&|row| row.ok)),
        first_checks: shares(counted(|row| &row.first_checks), texts),
        guards: shares(counted(|row| &row.guards), transformed),
        guards_untold: shares(counted(|row| &row.guards_untold), transformed),
        edit_distance: mean(&|row| row.edit_distance),
        length_ratio: mean(&|row| row.length_ratio),
    }
}

fn not_computed(report: &Report) -> Vec<NotComputed> {
    let mut missing: Vec<NotComputed> = report
        .profile
        .scopes
        .first()
        .map(|scope| scope.not_computed.clone())
        .unwrap_or_default();
    let mut say = |what: &str, why: &str| {
        missing.push(NotComputed {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    };
    if report.suite.seeds.len() == 1 {
        say("Standard deviations over seeds", "one seed; name more with --seeds");
    }
    if report.profile.encoders.len() > 1 && report.profile.baseline.is_none() {
        say(
            "Encoders against a baseline, with shift and p-value",
            "no baseline was named; name one with --baseline",
        );
    }
    if !report.drift.is_empty() && report.judge.is_none() {
        say(
            "Correlation of drift with judged quality",
            "the run names no judge; name one with --judge SPEC, e.g. --judge local:qwen2.5-coder-1.5b-instruct, or as \
             [judge] generator in the suite",
        );
    }
    missing.extend(drift::not_computed(report));
    missing
}
