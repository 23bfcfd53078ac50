//! Scores equal `sklearn.metrics`'.

use isomer_learn::{
    metrics::{ClassificationScores, MultilabelScores, agreement},
    neighbours::predict_labels,
};
use ndarray::Array2;

use crate::common::{assert_close, clusters, fixture, integer, integers, list};

#[test]
fn scores_of_classes_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["scores"]) {
        let (truth, predicted) = (integers(&case["truth"]), integers(&case["predicted"]));
        let scores = ClassificationScores::new(&truth, &predicted, integer(&case["classes"]));
        assert_eq!(scores.ap.is_some(), !case["ap"].is_null());
        for (key, got) in scores.named() {
            let expected = if key == "ap_weighted" { "ap" } else { key };
            assert_close(key, got, case[expected].as_f64().unwrap(), 1e-12);
        }
        let found = agreement(&truth, &predicted);
        assert_close("v_measure", found.v_measure, case["v_measure"].as_f64().unwrap(), 1e-10);
        assert_close("ami", found.ami, case["ami"].as_f64().unwrap(), 1e-10);
    }
}

fn matrix(values: &serde_json::Value, width: usize) -> Array2<bool> {
    let has: Vec<bool> = integers(values).into_iter().map(|v| v == 1).collect();
    Array2::from_shape_vec((has.len() / width, width), has).unwrap()
}

#[test]
fn scores_of_several_labels_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["multilabel_scores"]) {
        let width = integer(&case["width"]);
        let scores = MultilabelScores::new(
            matrix(&case["truth"], width).view(),
            matrix(&case["predicted"], width).view(),
        );
        for (key, got) in scores.named() {
            assert_close(key, got, case[key].as_f64().unwrap(), 1e-12);
        }
    }
}

#[test]
fn neighbours_vote_as_in_scikit_learn() {
    let (x, y) = clusters(21, 150, 20, 6, 3.0, false);
    let (mut t, _) = clusters(22, 80, 20, 6, 3.0, false);
    t.iter_mut().zip(&x).for_each(|(t, x)| *t = *t * 0.2 + x);
    let labels = Array2::from_shape_fn((150, 3), |(row, label)| match label {
        0 => y[row].is_multiple_of(2),
        1 => y[row].is_multiple_of(3),
        _ => y[row] > 3,
    });
    let positions: Vec<usize> = (0..150).collect();
    let found = predict_labels(x.view(), &positions, labels.view(), t.view(), 5).unwrap();
    assert_eq!(found, matrix(&fixture("learn.json")["neighbours"]["predicted"], 3));
}
