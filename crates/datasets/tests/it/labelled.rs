//! Files of classification and clustering.

use isomer_datasets::{Dataset, DatasetError, InlineFile, LoadOptions, Source, load};
use isomer_scoring::{
    metric::vector_matrix,
    task::{Profile, TaskType},
};
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
    let vectors = vector_matrix(4, 2, vec![1.0, 0.0, 0.0, 1.0, 0.1, 0.9, 0.9, 0.1]).unwrap();
    for profile in Profile::ALL {
        assert_eq!(dataset.score(vectors.view(), profile).unwrap().main, 1.0);
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
    let vectors = vector_matrix(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.1, 0.5, 0.5]).unwrap();
    let scores = dataset.score(vectors.view(), Profile::MtebV2).unwrap();
    // A set with a single label scores 1.
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
            .contains("there is nothing to separate")
    );
}
