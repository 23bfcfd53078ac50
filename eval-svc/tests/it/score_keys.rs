//! A stored score has the keys of the code that made it. So another set of keys requires another
//! version of stored scores, or a cached score lacks the new key.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_eval::{
    dataset::{Dataset, InlineFile, LoadOptions, Source, load},
    metric::vector_matrix,
    run::units::VERSION,
    task::{Profile, TaskType},
};
use ndarray::Array2;
use serde_json::{Value, json};

/// More candidates than the maximum cut-off, so that no score is the same for all queries.
const MANY: usize = 1200;

fn dataset(task: TaskType, files: &[(&str, Vec<Value>)]) -> Dataset {
    let file = |(path, rows): &(&str, Vec<Value>)| {
        let line = |row: &Value| row.as_str().map_or_else(|| row.to_string(), str::to_owned);
        let lines: Vec<String> = rows.iter().map(line).collect();
        InlineFile {
            path: (*path).to_owned(),
            content: (lines.join("\n") + "\n").into_bytes(),
        }
    };
    let options = LoadOptions {
        name: Some(task.name().to_owned()),
        ..LoadOptions::default()
    };
    load(task, &Source::Inline(files.iter().map(file).collect()), &options).unwrap()
}

/// Data of a task on which every score is defined.
fn sample(task: TaskType) -> Dataset {
    let rows = |count: usize, row: &dyn Fn(usize) -> Value| (0..count).map(row).collect::<Vec<_>>();
    let names = |what: &str, count: usize| (0..count).map(|i| format!("{what} {i}")).collect::<Vec<_>>();
    let test = |rows: Vec<Value>| dataset(task, &[("test.jsonl", rows)]);
    match task {
        TaskType::Sts => test(rows(
            30,
            &|i| json!({"sentence1": format!("a {i}"), "sentence2": format!("b {i}"), "score": i % 6}),
        )),
        TaskType::PairClassification => test(rows(
            30,
            &|i| json!({"sentence1": format!("a {i}"), "sentence2": format!("b {i}"), "label": i % 2}),
        )),
        TaskType::Bitext => test(rows(
            30,
            &|i| json!({"sentence1": format!("a {i}"), "sentence2": format!("b {i}")}),
        )),
        TaskType::Clustering => test(rows(
            60,
            &|i| json!({"text": format!("a {i}"), "label": format!("{}", i % 3)}),
        )),
        TaskType::Classification => {
            let row = |side: &str, i: usize| json!({"text": format!("{side} {i}"), "label": format!("{}", i % 2)});
            let files = [
                ("train.jsonl", rows(40, &|i| row("train", i))),
                ("test.jsonl", rows(40, &|i| row("test", i))),
            ];
            dataset(task, &files)
        }
        TaskType::Reranking => test(rows(
            12,
            &|i| json!({"query": format!("query {i}"), "positive": names(&format!("good {i}"), 3), "negative": names("bad", MANY)}),
        )),
        TaskType::Retrieval => {
            let mut qrels = vec![json!("query-id\tcorpus-id\tscore")];
            qrels.extend(rows(40, &|i| json!(format!("q{i}\td{}\t1", i * 29))));
            qrels.extend(rows(40, &|i| json!(format!("q{i}\td{}\t1", i * 29 + 1))));
            let files = [
                (
                    "corpus.jsonl",
                    rows(
                        MANY,
                        &|i| json!({"_id": format!("d{i}"), "text": format!("document {i}")}),
                    ),
                ),
                (
                    "queries.jsonl",
                    rows(40, &|i| json!({"_id": format!("q{i}"), "text": format!("query {i}")})),
                ),
                ("qrels/test.tsv", qrels),
            ];
            dataset(task, &files)
        }
        TaskType::Summarisation => test(rows(8, &|i| {
            json!({"text": format!("text {i}"), "human_summaries": names(&format!("human {i}"), 2),
                "machine_summaries": names(&format!("machine {i}"), 6), "relevance": [1, 2, 3, 4, 5, 2.5]})
        })),
        // Distractors that differ from the target in one word, a noun or a verb.
        TaskType::Clsd => test(rows(30, &|i| {
            json!({"source": format!("quelle {i}"), "target": format!("the dog {i} runs"),
                "distractors": [format!("the cat {i} runs"), format!("the dog {i} sleeps"), format!("no bird {i} flies")],
                "distractor_pos": ["NOUN", "VERB", null]})
        })),
        TaskType::GradedRanking => test(rows(
            20,
            &|i| json!({"anchor": format!("anchor {i}"), "candidates": names(&format!("candidate {i}"), 4)}),
        )),
    }
}

/// Values between -1 and 1 from a linear congruential generator.
fn vectors(rows: usize) -> Array2<f32> {
    const WIDTH: usize = 6;
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    vector_matrix(rows, WIDTH, (0..rows * WIDTH).map(|_| next()).collect()).unwrap()
}

/// A line for each task and profile.
fn keys() -> String {
    let mut text = String::new();
    for task in TaskType::ALL {
        let dataset = sample(task);
        let vectors = vectors(dataset.texts().len());
        for profile in Profile::ALL {
            let scores = dataset.score(vectors.view(), profile).unwrap();
            let keys: Vec<&str> = scores.all.keys().map(String::as_str).collect();
            text.push_str(&format!("{task}, {profile}: {}\n", keys.join(" ")));
        }
    }
    text
}

/// The keys of a version never change: increment the version in `run/units/mod.rs` and write its
/// own file with `ISOMER_BLESS=1`, which does not change the files of earlier versions.
#[test]
fn the_keys_of_scores_are_those_of_the_version_of_stored_scores() {
    let name = format!("score_keys/{}.txt", VERSION.replace('/', "-"));
    let (path, found) = (PathBuf::from("fixtures").join(name), keys());
    let file = Path::new(".").join(&path);
    if std::env::var_os("ISOMER_BLESS").is_some() && !file.exists() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &found).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    for (now, then) in found.lines().zip(committed.lines()) {
        assert_eq!(
            now,
            then,
            "left: the keys now; right: {}. Stored scores of {VERSION} lack the difference: raise VERSION in \
             src/run/units/mod.rs, then write the keys of the new version with ISOMER_BLESS=1",
            path.display()
        );
    }
    assert_eq!(
        found.lines().count(),
        committed.lines().count(),
        "{}: write the keys of a new version with ISOMER_BLESS=1",
        path.display()
    );
}
