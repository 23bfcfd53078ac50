//! Classification and clustering: scores of scikit-learn, and inputs that have no score.

use isomer_scoring::{
    metric::vector_matrix,
    task::{
        ClassificationInput, ClusteringInput, EXPERIMENTS, Profile, SAMPLES_PER_LABEL, ScoreError,
        score_classification, score_clustering,
    },
};
use ndarray::Array2;
use serde_json::Value;

use crate::support::{close, floats, golden, matrix};

fn labels(value: &Value) -> Vec<String> {
    floats(value).iter().map(|label| format!("{label}")).collect()
}

#[test]
fn golden_classification_and_legacy_clustering() {
    let golden = golden();
    let set = &golden["classification"];
    let (train, test) = (matrix(&set["train"]), matrix(&set["test"]));
    let (train_labels, test_labels) = (labels(&set["train_y"]), labels(&set["test_y"]));
    let input = ClassificationInput {
        train: train.view(),
        train_labels: &train_labels,
        test: test.view(),
        test_labels: &test_labels,
        samples_per_label: SAMPLES_PER_LABEL,
        experiments: EXPERIMENTS,
    };
    let found = score_classification(&input, Profile::MtebV2).unwrap();
    for (key, value) in set["expected"].as_object().unwrap() {
        close(found.all[key], value.as_f64().unwrap(), 1e-6, key);
    }
    // These fits are the first of the ten.
    let three = ClassificationInput {
        experiments: 3,
        ..input
    };
    let three = score_classification(&three, Profile::MtebV2).unwrap();
    let each: Vec<f64> = (0..3)
        .map(|i| set["expected_per_experiment"][i]["accuracy"].as_f64().unwrap())
        .collect();
    close(three.main, each.iter().sum::<f64>() / 3.0, 1e-12, "three fits");
    // The share of correct fits, averaged over rows, is the accuracy.
    let shares = &found.per_item["correct"];
    close(
        shares.iter().sum::<f64>() / shares.len() as f64,
        found.main,
        1e-12,
        "correct",
    );
    let clustering = ClusteringInput {
        vectors: train.view(),
        labels: &train_labels,
        sets: &[],
        legacy: true,
        max_fraction: None,
    };
    let expected = golden["clustering_legacy"]["v_measure"].as_f64().unwrap();
    for profile in [Profile::MtebV2, Profile::MtebV1] {
        close(
            score_clustering(&clustering, profile).unwrap().main,
            expected,
            1e-6,
            "v_measure",
        );
    }
    assert!(
        score_clustering(&clustering, Profile::Hteb)
            .unwrap()
            .all
            .contains_key("v_measure_std")
    );
}

#[test]
fn one_class_and_unequal_widths_are_errors() {
    let (narrow, wide) = (
        vector_matrix(2, 2, vec![1.0; 4]).unwrap(),
        vector_matrix(2, 3, vec![1.0; 6]).unwrap(),
    );
    let scored = |test: &Array2<f32>, train_labels: &[String]| {
        let test_labels = ["x".to_owned(), "x".to_owned()];
        let input = ClassificationInput {
            train: narrow.view(),
            train_labels,
            test: test.view(),
            test_labels: &test_labels,
            samples_per_label: 8,
            experiments: EXPERIMENTS,
        };
        score_classification(&input, Profile::MtebV2).unwrap_err()
    };
    let two = ["x".to_owned(), "y".to_owned()];
    assert!(matches!(scored(&wide, &two), ScoreError::Learn(_)));
    assert!(matches!(
        scored(&narrow, &["x".to_owned(), "x".to_owned()]),
        ScoreError::Learn(_)
    ));
}

#[test]
fn a_share_of_no_documents_says_how_to_get_some() {
    let vectors = vector_matrix(6, 2, (0..12).map(|v| v as f32).collect()).unwrap();
    let labels: Vec<String> = (0..6).map(|i| format!("{}", i % 2)).collect();
    let input = ClusteringInput {
        vectors: vectors.view(),
        labels: &labels,
        sets: &[],
        legacy: false,
        max_fraction: None,
    };
    let error = score_clustering(&input, Profile::MtebV2).unwrap_err().to_string();
    assert!(
        error.contains("0.04 of 6 documents") && error.contains("max_fraction"),
        "{error}"
    );
}
