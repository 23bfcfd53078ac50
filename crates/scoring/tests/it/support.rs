//! Inputs and scores of mteb, in files. The tests of eval-svc include this file too.

use std::collections::BTreeMap;

use isomer_scoring::{
    metric::{Similarity, vector_matrix},
    task::Scores,
};
use ndarray::Array2;
use serde_json::Value;

pub(crate) use numbers::*;

#[allow(dead_code, reason = "shared with the tests of statistics")]
#[path = "../../../stats/tests/it/support.rs"]
mod numbers;

pub(crate) fn matrix(rows: &Value) -> Array2<f32> {
    let rows: Vec<Vec<f32>> = serde_json::from_value(rows.clone()).unwrap();
    vector_matrix(rows.len(), rows[0].len(), rows.concat()).unwrap()
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

pub(crate) fn similarity(case: &Value) -> Similarity {
    match case["similarity"].as_str().unwrap() {
        "cosine" => Similarity::Cosine,
        "dot" => Similarity::Dot,
        other => panic!("{other}"),
    }
}

/// All scores that mteb gives, and no others.
#[track_caller]
pub(crate) fn same_scores(found: &Scores, expected: &Value, tolerance: f64) {
    let expected: BTreeMap<String, Option<f64>> = serde_json::from_value(expected.clone()).unwrap();
    for (key, value) in &expected {
        match value {
            Some(value) => {
                let found = found.all.get(key).unwrap_or_else(|| panic!("{key} is missing"));
                close(*found, *value, tolerance, key);
            }
            None => assert!(!found.all.contains_key(key), "{key} is undefined"),
        }
    }
    for key in found.all.keys() {
        assert!(expected.contains_key(key), "{key} is not mteb's");
    }
}

pub(crate) fn judgements(qrels: &Value, query_ids: &[String], document_ids: &[String]) -> Vec<Vec<(usize, i32)>> {
    let rows = query_ids.iter().map(|q| {
        let grades: BTreeMap<String, i32> = serde_json::from_value(qrels[q].clone()).unwrap();
        let row = |id: &String| document_ids.iter().position(|d| d == id).unwrap();
        grades.iter().map(|(d, grade)| (row(d), *grade)).collect()
    });
    rows.collect()
}
