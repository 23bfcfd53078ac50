//! Scores equal `sklearn.metrics`'.

use isomer_learn::{
    Vectors,
    metrics::{ClassificationScores, LabelMatrix, MultilabelScores, agreement},
    neighbours::predict_labels,
};

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

fn matrix(values: &serde_json::Value, width: usize) -> LabelMatrix {
    LabelMatrix {
        width,
        has: integers(values).into_iter().map(|v| v == 1).collect(),
    }
}

#[test]
fn scores_of_several_labels_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["multilabel_scores"]) {
        let width = integer(&case["width"]);
        let scores = MultilabelScores::new(&matrix(&case["truth"], width), &matrix(&case["predicted"], width));
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
    let labels = LabelMatrix {
        width: 3,
        has: y
            .iter()
            .flat_map(|y| [y.is_multiple_of(2), y.is_multiple_of(3), *y > 3])
            .collect(),
    };
    let positions: Vec<usize> = (0..150).collect();
    let found = predict_labels(
        Vectors::new("train vectors", &x, 150, 20).unwrap(),
        &positions,
        &labels,
        Vectors::new("test vectors", &t, 80, 20).unwrap(),
        5,
    )
    .unwrap();
    assert_eq!(found, matrix(&fixture("learn.json")["neighbours"]["predicted"], 3));
}
