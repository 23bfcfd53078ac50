//! Isotonic regression, thresholds and proportions of clusters against scikit-learn and scipy
//! (`fixtures/make_thresholds.py`).

use isomer_stats::{
    clustered_proportion,
    isotonic::{Isotonic, cross_validated},
    threshold::{Point, Points, Target},
};
use serde_json::Value;

use super::{designs::close, read};

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn isotonic_regression_equals_scikit_learn() {
    let (mut compared, mut left_out) = (0, 0);
    for (index, row) in read("thresholds.json")["isotonic"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let [x, y, w, at, values] = ["x", "y", "w", "at", "values"].map(|key| list(&row[key]));
        let fitted = Isotonic::fit_weighted(&x, &y, &w).unwrap();
        for (x, expected) in at.iter().zip(&values) {
            close(fitted.at(*x), *expected, 1e-12, &format!("design {index} at {x}"));
            compared += 1;
        }
        if !row["left_out"].is_null() {
            let fold: Vec<usize> = list(&row["fold"]).into_iter().map(|f| f as usize).collect();
            let found = cross_validated(&x, &y, &fold).unwrap();
            for (found, expected) in found.iter().zip(list(&row["left_out"])) {
                close(*found, expected, 1e-12, &format!("design {index}, left out"));
                left_out += 1;
            }
        }
    }
    assert!(compared > 500 && left_out > 500, "{compared} {left_out}");
}

#[test]
fn thresholds_and_what_they_do_equal_scikit_learn() {
    let (mut reached, mut unreached) = (0, 0);
    for (index, row) in read("thresholds.json")["thresholds"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let scores = list(&row["scores"]);
        let labels = list(&row["labels"]);
        let points = (0_u32..)
            .zip(scores.iter().zip(&labels))
            .map(|(item, (score, label))| Point {
                score: *score,
                positive: *label > 0.0,
                item,
            });
        let points = Points::new(points.collect(), vec![0; scores.len()]);
        let even = vec![1.0; scores.len()];
        let counts = points.counts(row["cut"].as_f64().unwrap(), &even);
        let found = [
            counts.true_positives,
            counts.false_positives,
            counts.false_negatives,
            counts.true_negatives,
        ];
        assert_eq!(found.to_vec(), list(&row["counts"]), "design {index}");
        for (name, expected) in row["chosen"].as_object().unwrap() {
            let what = format!("design {index}, {name}");
            let target = match name.split_once('=') {
                Some(("precision", value)) => Target::Precision(value.parse().unwrap()),
                Some((_, value)) => Target::FalsePositiveRate(value.parse().unwrap()),
                None => Target::F1,
            };
            let found = points.choose(target, &even);
            let Some(expected) = expected.as_array() else {
                assert!(found.is_err(), "{what}");
                unreached += 1;
                continue;
            };
            let (found, expected) = (found.unwrap(), list(&Value::Array(expected.clone())));
            close(found.accepted, expected[0], 1e-12, &what);
            let told = match target {
                Target::Precision(_) => [found.counts.precision(), found.counts.recall()],
                Target::FalsePositiveRate(_) => [found.counts.false_positive_rate(), found.counts.recall()],
                Target::F1 => [found.counts.f1(), None],
            };
            for (found, expected) in told.into_iter().flatten().zip(&expected[1..]) {
                close(found, *expected, 1e-12, &what);
            }
            // The threshold is below all accepted scores and above all others.
            assert_eq!(points.counts(found.threshold, &even), found.counts, "{what}");
            reached += 1;
        }
    }
    assert!(reached > 200 && unreached > 5, "{reached} {unreached}");
}

#[test]
fn intervals_of_clusters_equal_korn_and_graubards_formula() {
    for (index, row) in read("thresholds.json")["proportions"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let clusters: Vec<(f64, f64)> = row["clusters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| (own[0].as_f64().unwrap(), own[1].as_f64().unwrap()))
            .collect();
        let found = clustered_proportion(&clusters, 0.95).unwrap();
        let what = format!("design {index}");
        for (found, key) in [(found.effective, "effective"), (found.low, "low"), (found.high, "high")] {
            close(found, row[key].as_f64().unwrap(), 1e-9, &what);
        }
    }
}
