//! The papers' tables from their published numbers (`fixtures/papers.json`). Published figures have
//! two decimals. A mean of such figures is accurate to 0.005, and is compared with another rounded
//! figure, so a difference of 0.01 counts as equality.

use isomer_stats::{Alternative, hodges_lehmann, holm, mean, wilcoxon_signed_rank};
use serde_json::Value;

use crate::support::floats;

const ROUNDED: f64 = 0.010_1;

/// Rows of a table except the averages.
fn rows(table: &Value) -> Vec<(&String, &Value)> {
    table
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "Average")
        .collect()
}

fn names(table: &Value) -> Vec<&str> {
    table["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect()
}

#[track_caller]
fn equal(found: f64, published: f64, what: &str) {
    assert!(
        (found - published).abs() <= ROUNDED,
        "{what}: {found} is not {published}"
    );
}

/// Per model: differences all-mpnet-base-v2 minus the model over Table 6's nine data sets,
/// paraphrased scores.
fn baseline_less_model(model: usize) -> Vec<f64> {
    let papers = super::read("papers.json");
    let found: Vec<f64> = rows(&papers["pteb_6"]["rows"])
        .iter()
        .map(|(_, row)| {
            let scores = floats(&row["scores"]);
            scores[1] - scores[2 * model + 1]
        })
        .collect();
    assert_eq!(found.len(), 9);
    found
}

#[test]
fn pteb_table_14_follows_from_table_6_shift_by_shift_and_p_by_p() {
    let papers = super::read("papers.json");
    let models = names(&papers["pteb_6"]);
    let tests: Vec<f64> = (1..5)
        .map(|model| {
            wilcoxon_signed_rank(&baseline_less_model(model), Alternative::TwoSided)
                .unwrap()
                .p_value
        })
        .collect();
    for (model, adjusted) in (1..5).zip(holm(&tests)) {
        let published = floats(&papers["pteb_14"][models[model]]);
        let shift = hodges_lehmann(&baseline_less_model(model)).unwrap();
        assert!(
            (shift - published[0]).abs() <= 0.005_1,
            "{}: {shift} is not {}",
            models[model],
            published[0]
        );
        assert_eq!((adjusted * 100.0).round() / 100.0, published[1], "{}", models[model]);
    }
}

#[test]
fn pteb_table_7_pools_runs_that_are_not_published_but_its_intervals_hold_the_shifts_of_the_means() {
    // Its shifts and p-values are based on 45 pairs of data set and run; the runs' scores are not
    // in the paper.
    let papers = super::read("papers.json");
    let models = names(&papers["pteb_6"]);
    for model in 1..5 {
        let published = floats(&papers["pteb_7"][models[model]]);
        let shift = hodges_lehmann(&baseline_less_model(model)).unwrap();
        assert!(
            published[2] <= shift && shift <= published[3],
            "{}: {shift}",
            models[model]
        );
        assert!((shift - published[0]).abs() < 0.2);
    }
}

#[test]
fn pteb_table_6_adds_up() {
    let papers = super::read("papers.json");
    let table = &papers["pteb_6"]["rows"];
    for (name, row) in table.as_object().unwrap() {
        let (scores, deltas) = (floats(&row["scores"]), floats(&row["deltas"]));
        let found: Vec<f64> = scores.chunks(2).map(|pair| pair[1] - pair[0]).collect();
        for (a, b) in found.iter().zip(&deltas) {
            equal(*a, *b, name);
        }
        equal(mean(&found).unwrap(), deltas[5], name);
    }
    for (column, average) in floats(&table["Average"]["scores"]).into_iter().enumerate() {
        let scores: Vec<f64> = rows(table)
            .iter()
            .map(|(_, row)| floats(&row["scores"])[column])
            .collect();
        equal(mean(&scores).unwrap(), average, "average");
    }
}

#[test]
fn hteb_tables_14_and_15_are_means_of_axes_and_of_models() {
    let papers = super::read("papers.json");
    for (table, models) in [("hteb_14", 11), ("hteb_15", 9)] {
        assert_eq!(rows(&papers[table]).len(), models);
        for (name, row) in papers[table].as_object().unwrap() {
            let v = floats(row);
            let (original, axes) = (v[0], [v[1], v[3], v[5]]);
            equal(mean(&axes).unwrap(), v[7], &format!("{table} {name} total"));
            for at in [1, 3, 5, 7] {
                equal(v[at] - original, v[at + 1], &format!("{table} {name} difference {at}"));
            }
        }
        for (column, average) in floats(&papers[table]["Average"]).into_iter().enumerate() {
            let cells: Vec<f64> = rows(&papers[table])
                .iter()
                .map(|(_, row)| floats(row)[column])
                .collect();
            equal(mean(&cells).unwrap(), average, &format!("{table} average {column}"));
        }
    }
}

#[test]
fn hteb_tables_17_to_21_average_to_their_last_rows_and_to_tables_14_and_15() {
    let papers = super::read("papers.json");
    for (table, summary, datasets) in [
        (17, "hteb_14", 19),
        (18, "hteb_14", 19),
        (19, "hteb_14", 19),
        (20, "hteb_15", 13),
        (21, "hteb_15", 13),
    ] {
        let data = &papers[format!("hteb_{table}")];
        let cells = rows(&data["rows"]);
        assert_eq!(cells.len(), datasets);
        for (model, name) in names(data).into_iter().enumerate() {
            let average = floats(&data["rows"]["Average"][model]);
            let totals = floats(&papers[summary][name]);
            for (figure, published) in [(0, totals[0]), (1, totals[7]), (2, average[2])] {
                let column: Vec<f64> = cells.iter().map(|(_, row)| floats(&row[model])[figure]).collect();
                let what = format!("table {table}, {name}, figure {figure}");
                equal(mean(&column).unwrap(), average[figure], &what);
                equal(mean(&column).unwrap(), published, &what);
            }
        }
    }
}
