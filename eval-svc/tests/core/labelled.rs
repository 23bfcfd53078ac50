//! Classification and clustering: the shared reference numbers through our own types, and their
//! files.

use isomer_eval::{
    dataset::{Dataset, DatasetError, InlineFile, LoadOptions, Source, load},
    metric::VectorMatrix,
    task::{
        ClassificationInput, ClusteringInput, EXPERIMENTS, Profile, SAMPLES_PER_LABEL, ScoreError, TaskType,
        score_classification, score_clustering,
    },
};
use serde_json::Value;

use crate::support::{close, floats, matrix, shared};

fn golden() -> Option<Value> {
    let path = shared("goldens/golden-sklearn1.8.0.json")?;
    Some(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

fn labels(value: &Value) -> Vec<String> {
    floats(value).iter().map(|label| format!("{label}")).collect()
}

#[test]
fn golden_classification_and_legacy_clustering() {
    let Some(golden) = golden() else { return };
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
    // So many fits are the first of ten.
    let three = ClassificationInput {
        experiments: 3,
        ..input
    };
    let three = score_classification(&three, Profile::MtebV2).unwrap();
    let each: Vec<f64> = (0..3)
        .map(|i| set["expected_per_experiment"][i]["accuracy"].as_f64().unwrap())
        .collect();
    close(three.main, each.iter().sum::<f64>() / 3.0, 1e-12, "three fits");
    // The share of fits that were right, averaged over rows, is the accuracy.
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

fn of(task: TaskType, files: &[(&str, &str)]) -> Result<Dataset, DatasetError> {
    let file = |(path, content): &(&str, &str)| InlineFile {
        path: (*path).to_owned(),
        content: content.as_bytes().to_vec(),
    };
    load(
        task,
        &Source::Inline(files.iter().map(file).collect()),
        &LoadOptions::default(),
    )
}

const TRAIN: &str = "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":\"y\"}\n";

#[test]
fn classification_fits_on_the_train_file_and_names_what_is_wrong() {
    let test = "{\"text\":\"c\",\"label\":\"y\"}\n{\"text\":\"d\",\"label\":\"x\"}\n";
    let dataset = of(
        TaskType::Classification,
        &[("train.jsonl", TRAIN), ("test.jsonl", test)],
    )
    .unwrap();
    assert_eq!((dataset.items(), dataset.texts().len()), (2, 4));
    let vectors = VectorMatrix::new(4, 2, vec![1.0, 0.0, 0.0, 1.0, 0.1, 0.9, 0.9, 0.1]).unwrap();
    for profile in Profile::ALL {
        assert_eq!(dataset.score(&vectors, profile).unwrap().main, 1.0);
    }
    let fault = |files: &[(&str, &str)]| of(TaskType::Classification, files).unwrap_err().to_string();
    assert!(fault(&[("train.jsonl", TRAIN), ("other.jsonl", test)]).contains("test.jsonl is missing"));
    assert!(fault(&[("test.jsonl", test), ("dev.jsonl", test)]).contains("train.jsonl is missing"));
    let strange = "{\"text\":\"c\",\"label\":\"z\"}\n";
    assert!(fault(&[("train.jsonl", TRAIN), ("test.jsonl", strange)]).contains("label `z`, which no row"));
    let one = "{\"text\":\"c\",\"label\":1}\n";
    assert!(fault(&[("train.jsonl", one), ("test.jsonl", one)]).contains("at least two classes"));
    let half = "{\"text\":\"c\",\"label\":1.5}\n";
    assert!(fault(&[("train.jsonl", half), ("test.jsonl", one)]).contains("line 1, field `label`"));
}

#[test]
fn clustering_takes_documents_or_sets_but_not_both() {
    let sets = "{\"sentences\":[\"a\",\"b\",\"c\"],\"labels\":[\"x\",\"y\",\"x\"]}\n{\"sentences\":[\"d\"],\"labels\":[\"x\"]}\n";
    let dataset = of(TaskType::Clustering, &[("test.jsonl", sets)]).unwrap();
    let vectors = VectorMatrix::new(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.1, 0.5, 0.5]).unwrap();
    let scores = dataset.score(&vectors, Profile::MtebV2).unwrap();
    // A set of one label scores 1.
    assert_eq!((scores.items, scores.per_item["v_measure"][1]), (2, 1.0));
    let mixed = format!("{sets}{{\"text\":\"e\",\"label\":\"x\"}}\n");
    let error = of(TaskType::Clustering, &[("test.jsonl", &mixed)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 3") && error.contains("some rows are sets"),
        "{error}"
    );
    let one = "{\"text\":\"e\",\"label\":\"x\"}\n";
    assert!(
        of(TaskType::Clustering, &[("test.jsonl", one)])
            .unwrap_err()
            .to_string()
            .contains("nothing can be told apart")
    );
}

#[test]
fn one_class_and_unequal_widths_are_errors() {
    let (narrow, wide) = (
        VectorMatrix::new(2, 2, vec![1.0; 4]).unwrap(),
        VectorMatrix::new(2, 3, vec![1.0; 6]).unwrap(),
    );
    let scored = |test: &VectorMatrix, train_labels: &[String]| {
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
    let vectors = VectorMatrix::new(6, 2, (0..12).map(|v| v as f32).collect()).unwrap();
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
