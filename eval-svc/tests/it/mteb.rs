//! The task-result document, and mteb's own reader.

use std::{process::Command, time::Duration};

use isomer_eval::{
    dataset::{Dataset, LoadOptions, Source, load},
    metric::vector_matrix,
    mteb_result::document,
    task::{Profile, TaskType},
};
use ndarray::Array2;

use crate::{list_datasets, published::published};

/// Made-up vectors for every text; equal texts get equal ones.
fn vectors(dataset: &Dataset) -> Array2<f32> {
    let row = |text: &str| {
        let mut row = [0.1_f32; 24];
        for byte in text.bytes() {
            row[usize::from(byte) % 24] += 1.0;
        }
        row
    };
    let data = dataset.texts().iter().flat_map(|t| row(&t.text)).collect();
    vector_matrix(dataset.texts().len(), 24, data).unwrap()
}

fn documents() -> Vec<serde_json::Value> {
    let mut datasets: Vec<Dataset> = ["sts", "pair-classification", "retrieval"]
        .iter()
        .map(|task| {
            let source = Source::Builtin(format!("quick/{task}"));
            load(task.parse().unwrap(), &source, &LoadOptions::default()).unwrap()
        })
        .collect();
    let options = LoadOptions {
        language: Some("en-ar".into()),
        ..LoadOptions::default()
    };
    datasets.push(load(TaskType::Sts, &Source::Path(published("STS17")), &options).unwrap());
    datasets.extend(list_datasets::datasets());
    let scored = datasets.iter().map(|dataset| {
        let scores = dataset.score(vectors(dataset).view(), Profile::MtebV2).unwrap();
        document(dataset, &scores, Duration::from_millis(1500))
    });
    scored.collect()
}

#[test]
fn a_document_holds_what_mteb_asks_for() {
    for document in documents() {
        assert!(document["dataset_revision"].as_str().unwrap().starts_with("blake3:"));
        assert_eq!(document["mteb_version"], "2.20.0");
        assert_eq!(document["evaluation_time"], 1.5);
        assert!(document["kg_co2_emissions"].is_null());
        let entry = document["scores"]["test"][0].as_object().unwrap();
        let main = match document["task_name"].as_str().unwrap() {
            "quick/retrieval" => "ndcg_at_10",
            "quick/pair-classification" => "max_ap",
            "reranking" => "map_at_1000",
            "bitext" => "f1",
            "clsd" => "recall_at_1",
            "graded-ranking" => "spearman",
            _ => "cosine_spearman",
        };
        assert_eq!(entry["main_score"], entry[main]);
        assert!(entry["languages"].is_array() && entry["hf_subset"].is_string());
        for value in entry.values().filter_map(serde_json::Value::as_f64) {
            assert_eq!(format!("{value:.6}").parse::<f64>().unwrap(), value, "six decimals");
        }
    }
}

#[test]
#[ignore = "tests/more mteb: a Python with mteb takes several GB"]
fn mteb_reads_every_document() {
    let python = std::env::var_os("ISOMER_MTEB_PYTHON").expect("ISOMER_MTEB_PYTHON names a Python that has mteb");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg("../tests/python/check_mteb_result.py");
    for (i, document) in documents().iter().enumerate() {
        let path = folder.path().join(format!("{i}.json"));
        std::fs::write(&path, serde_json::to_vec(document).unwrap()).unwrap();
        command.arg(path);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}
