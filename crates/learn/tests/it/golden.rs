//! The golden numbers of scikit-learn 1.8 that concern this crate.

use isomer_learn::{
    metrics::{agreement, average_precision},
    protocol::{FastClustering, FewShot, legacy_set_score},
    random::PythonRandom,
};

use ndarray::Axis;

use crate::common::{assert_close, golden, integer, integers, list, matrix, numbers};

#[test]
fn classification_selects_and_scores_alike() {
    let golden = golden();
    let case = &golden["classification"];
    let (train, test) = (matrix(&case["train"]), matrix(&case["test"]));
    let few_shot = FewShot {
        samples_per_label: integer(&case["samples_per_label"]),
        seed: integer(&case["seed"]) as u32,
        ..FewShot::default()
    };
    let y = integers(&case["train_y"]);
    let selected: Vec<Vec<usize>> = list(&case["selected_idx_per_experiment"])
        .iter()
        .map(integers)
        .collect();
    assert_eq!(few_shot.selections(&y).experiments, selected);
    let report = few_shot
        .score(train.view(), &y, test.view(), &integers(&case["test_y"]))
        .unwrap();
    for (done, expected) in report.experiments.iter().zip(list(&case["expected_per_experiment"])) {
        for (key, got) in done.scores.named() {
            if let Some(expected) = expected[key].as_f64() {
                assert_close(key, got, expected, 1e-9);
            }
        }
    }
    for key in ["accuracy", "f1", "f1_weighted"] {
        let got = report.mean.named().into_iter().find(|n| n.0 == key).unwrap().1;
        assert_close(key, got, case["expected"][key].as_f64().unwrap(), 1e-9);
    }
}

#[test]
fn clusterings_draw_and_score_alike() {
    let golden = golden();
    let vectors = matrix(&golden["classification"]["train"]);
    let y = integers(&golden["classification"]["train_y"]);
    let case = &golden["clustering_fast"];
    let fast = FastClustering {
        max_fraction: None,
        max_documents: Some(100),
        documents_per_clustering: 256,
        ..FastClustering::default()
    };
    let mut random = PythonRandom::new(42);
    let documents = fast.documents(&mut random, vectors.nrows()).unwrap();
    assert_eq!(documents, integers(&case["sample_idx"]));
    let chosen = vectors.select(Axis(0), &documents);
    let labels: Vec<Vec<i64>> = documents.iter().map(|d| vec![y[*d] as i64]).collect();
    let report = fast.score(&mut random, chosen.view(), &labels).unwrap();
    let draws: Vec<Vec<usize>> = list(&case["choices_idx"]).iter().map(integers).collect();
    assert_eq!(
        report.levels[0]
            .assignments
            .iter()
            .map(|a| a.0.clone())
            .collect::<Vec<_>>(),
        draws
    );
    for (got, expected) in report.levels[0].v_measures.iter().zip(numbers(&case["v_measures"])) {
        assert_close("v_measure", *got, expected, 1e-9);
    }
    assert_close("mean", report.v_measure, case["v_measure"].as_f64().unwrap(), 1e-9);
    assert_close(
        "std",
        report.v_measure_std,
        case["v_measure_std"].as_f64().unwrap(),
        1e-9,
    );

    let legacy = legacy_set_score(vectors.view(), &y, 42).unwrap();
    assert_close(
        "legacy",
        legacy,
        golden["clustering_legacy"]["v_measure"].as_f64().unwrap(),
        1e-9,
    );
}

#[test]
fn scores_are_alike() {
    let golden = golden();
    let case = &golden["v_measure_unit"];
    let found = agreement(&integers(&case["true"]), &integers(&case["pred"]));
    assert_close("v_measure", found.v_measure, case["expected"].as_f64().unwrap(), 1e-12);
    assert_close("ami", found.ami, case["ami"].as_f64().unwrap(), 1e-12);
    let case = &golden["average_precision_ties"];
    let positive: Vec<bool> = integers(&case["labels"]).into_iter().map(|l| l == 1).collect();
    let ap = average_precision(&positive, &numbers(&case["scores"]));
    assert_close("ap", ap, case["sklearn_ap"].as_f64().unwrap(), 1e-12);
}
