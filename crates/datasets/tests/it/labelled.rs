//! Files of classification and clustering.

use isomer_datasets::{Dataset, DatasetError, InlineFile, LoadOptions, Source, load};
use isomer_scoring::{
    metric::vector_matrix,
    task::{Profile, TaskType},
};

use crate::key::key;

fn of(task: TaskType, files: &[(&str, &str)]) -> Result<Dataset, DatasetError> {
    with(task, files, &LoadOptions::default())
}

fn with(task: TaskType, files: &[(&str, &str)], options: &LoadOptions) -> Result<Dataset, DatasetError> {
    let file = |(path, content): &(&str, &str)| InlineFile {
        path: (*path).to_owned(),
        content: content.as_bytes().to_vec(),
    };
    load(task, &Source::Inline(files.iter().map(file).collect()), options)
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
    let vectors = vector_matrix(4, 2, vec![1.0, 0.0, 0.0, 1.0, 0.1, 0.9, 0.9, 0.1]).unwrap();
    for profile in Profile::ALL {
        assert_eq!(dataset.score(vectors.view(), profile).unwrap().main, 1.0);
    }
    let strange = "{\"text\":\"c\",\"label\":\"z\"}\n";
    let one = "{\"text\":\"c\",\"label\":1}\n";
    let other_one = "{\"text\":\"d\",\"label\":1}\n";
    let half = "{\"text\":\"c\",\"label\":1.5}\n";
    for (files, expected, part) in [
        (
            [("train.jsonl", TRAIN), ("other.jsonl", test)],
            "MissingFile test.jsonl",
            "",
        ),
        (
            [("test.jsonl", test), ("dev.jsonl", test)],
            "MissingFile train.jsonl",
            "",
        ),
        (
            [("train.jsonl", TRAIN), ("test.jsonl", strange)],
            "Undefined",
            "label `z`",
        ),
        (
            [("train.jsonl", one), ("test.jsonl", other_one)],
            "Undefined",
            "classes",
        ),
        ([("train.jsonl", TRAIN), ("test.jsonl", TRAIN)], "TrainIsTest", ""),
        ([("train.jsonl", half), ("test.jsonl", one)], "Row line 1 label", ""),
    ] {
        let error = of(TaskType::Classification, &files).unwrap_err();
        assert_eq!(key(&error), expected, "{error}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn clustering_takes_documents_or_sets_but_not_both() {
    let sets = "{\"sentences\":[\"a\",\"b\",\"c\"],\"labels\":[\"x\",\"y\",\"x\"]}\n{\"sentences\":[\"d\"],\"labels\":[\"x\"]}\n";
    let dataset = of(TaskType::Clustering, &[("test.jsonl", sets)]).unwrap();
    let vectors = vector_matrix(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.1, 0.5, 0.5]).unwrap();
    let scores = dataset.score(vectors.view(), Profile::MtebV2).unwrap();
    // A set with a single label scores 1.
    assert_eq!((scores.items, scores.per_item["v_measure"][1]), (2, 1.0));
    let mixed = format!("{sets}{{\"text\":\"e\",\"label\":\"x\"}}\n");
    let error = of(TaskType::Clustering, &[("test.jsonl", &mixed)]).unwrap_err();
    assert_eq!(key(&error), "Row line 3 sentences");
    let one = "{\"text\":\"e\",\"label\":\"x\"}\n";
    assert_eq!(
        key(&of(TaskType::Clustering, &[("test.jsonl", one)]).unwrap_err()),
        "Undefined"
    );
}

#[test]
fn a_classification_is_not_scored_on_the_split_that_it_is_fitted_on() {
    let options = LoadOptions {
        split: "train".to_owned(),
        ..LoadOptions::default()
    };
    let error = with(
        TaskType::Classification,
        &[("train.jsonl", TRAIN), ("test.jsonl", TRAIN)],
        &options,
    );
    assert_eq!(key(&error.unwrap_err()), "TrainIsTest");
    let packed = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(TRAIN.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let files = [("train.jsonl", TRAIN.as_bytes().to_vec()), ("test.jsonl.gz", packed)];
    let files = files.map(|(path, content)| InlineFile {
        path: path.to_owned(),
        content,
    });
    let error = load(
        TaskType::Classification,
        &Source::Inline(files.to_vec()),
        &LoadOptions::default(),
    );
    assert_eq!(key(&error.unwrap_err()), "TrainIsTest");
}

#[test]
fn documents_are_cut_in_order_into_sets_and_their_scores_averaged() {
    let rows: String = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"), ("e", "y")]
        .map(|(text, label)| format!("{{\"text\":\"{text}\",\"label\":\"{label}\"}}\n"))
        .concat();
    let cut = |sets: usize, limit: Option<usize>| {
        let options = LoadOptions {
            sets: Some(sets),
            limit,
            ..LoadOptions::default()
        };
        with(TaskType::Clustering, &[("test.jsonl", &rows)], &options)
    };
    let vectors = vector_matrix(5, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.1, 0.5, 0.5, 0.4, 0.6]).unwrap();
    let dataset = cut(2, None).unwrap();
    assert_eq!((dataset.items(), dataset.rows()), (5, 5));
    for profile in Profile::ALL {
        let scores = dataset.score(vectors.view(), profile).unwrap();
        // The first set is a, b, c; the second has a single label.
        assert_eq!(scores.per_item["v_measure"], [1.0, 1.0], "{profile:?}");
    }
    let one = cut(1, None).unwrap();
    assert_eq!(one.score(vectors.view(), Profile::MtebV1).unwrap().items, 1);
    assert_ne!(one.digest(), dataset.digest());
    assert_eq!(key(&cut(6, None).unwrap_err()), "Undefined");
    assert_eq!(key(&cut(4, Some(3)).unwrap_err()), "Undefined");
    let sets = "{\"sentences\":[\"a\",\"b\"],\"labels\":[\"x\",\"y\"]}\n";
    let options = LoadOptions {
        sets: Some(5),
        ..LoadOptions::default()
    };
    let kept = with(TaskType::Clustering, &[("test.jsonl", sets)], &options).unwrap();
    assert_eq!((kept.items(), kept.rows()), (2, 1));
}
