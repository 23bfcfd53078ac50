//! A check whose scores are computed by workers, and one over a retrieval corpus that workers
//! encode and search in shards: their reports equal those of one process, whichever worker is
//! killed.
//!
//! It uses a real NATS server, a folder as the store, and a rule-based transformation.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use isomer_tests::{
    fleet::{Nats, Worker, assert_equal, until},
    home::Home,
    process::{finish, isomer},
};
use serde_json::{Value, json};

const MODEL: &str = "paraphrase-MiniLM-L3-v2";
const DOCUMENTS: usize = 60;
const QUERIES: usize = 8;
/// Documents per shard, and number of shards.
const SHARD: &str = "7";
const SHARDS: usize = 9;

/// Settings for quick detection of a lost worker.
const SETTINGS: [(&str, &str); 4] = [
    ("ISOMER_FLEET__LEASE_SECONDS", "3"),
    ("ISOMER_FLEET__REPUBLISH_SECONDS", "1"),
    ("ISOMER_FLEET__WORKER_WAIT_SECONDS", "60"),
    ("ISOMER_EVAL__SHARD_DOCUMENTS", SHARD),
];

/// A suite of one retrieval data set, with unordered ids and with documents that tie within a
/// shard.
fn suite(folder: &Path) -> String {
    let data = folder.join("find");
    fs::create_dir_all(data.join("qrels")).unwrap();
    let animals = ["cat", "dog", "horse", "sheep", "goose", "heron"];
    let places = ["fence", "harbour", "garden", "bridge", "market"];
    let text = |i: usize| {
        // Each sixth document equals the one before it, which is in the same shard.
        let i = if i % 7 == 5 { i - 1 } else { i };
        format!(
            "The {} of row {i} was resting beside the {}.",
            animals[i % 6],
            places[i % 5]
        )
    };
    let id = |i: usize| format!("d{}", i * 37 % 61);
    let corpus: String = (0..DOCUMENTS)
        .map(|i| format!("{}\n", json!({"_id": id(i), "title": "", "text": text(i)})))
        .collect();
    let queries: String = (0..QUERIES)
        .map(|i| {
            let about = format!(
                "Which {} is beside the {} in the row {}?",
                animals[i % 6],
                places[i % 5],
                i * 7
            );
            format!("{}\n", json!({"_id": format!("q{i}"), "text": about}))
        })
        .collect();
    let qrels: String = (0..QUERIES)
        .map(|i| format!("q{i}\t{}\t1\nq{i}\t{}\t2\n", id(i * 7), id(DOCUMENTS - 1 - i)))
        .collect();
    fs::write(data.join("corpus.jsonl"), corpus).unwrap();
    fs::write(data.join("queries.jsonl"), queries).unwrap();
    fs::write(
        data.join("qrels/test.tsv"),
        format!("query-id\tcorpus-id\tscore\n{qrels}"),
    )
    .unwrap();
    let suite = folder.join("suite.toml");
    let text = "name = \"corpus\"\nseeds = [1]\ntransformations = [\"stopword_removal\"]\n\n\
                [[dataset]]\ntask = \"retrieval\"\nname = \"find\"\npath = \"find\"\n";
    fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

/// A suite with a data set of nearly every kind of task.
fn suite_of_tasks(folder: &Path) -> (String, usize) {
    suite(folder);
    let animals = ["cat", "dog", "horse", "sheep", "goose", "heron"];
    let places = ["fence", "harbour", "garden", "bridge", "market"];
    let text = |i: usize| {
        format!(
            "The {} number {i} sleeps near the old {}.",
            animals[i % 6],
            places[i % 5]
        )
    };
    let other = |i: usize| {
        format!(
            "Near the {} an animal of the kind {} is asleep.",
            places[i % 5],
            animals[i % 6]
        )
    };
    let write = |name: &str, file: &str, rows: Vec<Value>| {
        fs::create_dir_all(folder.join(name)).unwrap();
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(folder.join(name).join(file), lines).unwrap();
    };
    let labelled = |from: usize, to: usize| {
        (from..to)
            .map(|i| json!({"text": text(i), "label": places[i % 2]}))
            .collect()
    };
    write("classes", "train.jsonl", labelled(0, 24));
    write("classes", "test.jsonl", labelled(24, 40));
    let clusters = (0..24)
        .map(|i| json!({"text": text(i), "label": animals[i % 3]}))
        .collect();
    write("clusters", "test.jsonl", clusters);
    let pairs = |label: fn(usize) -> Value, key: &str| -> Vec<Value> {
        (0..18)
            .map(|i| json!({"sentence1": text(i), "sentence2": other(i * (1 + i % 2)), key: label(i)}))
            .collect()
    };
    write("pairs", "test.jsonl", pairs(|i| json!(i % 2), "label"));
    write(
        "graded",
        "test.jsonl",
        pairs(|i| json!((i * 7 % 11) as f64 / 2.0), "score"),
    );
    write(
        "bitext",
        "test.jsonl",
        (0..12)
            .map(|i| json!({"sentence1": text(i), "sentence2": other(i)}))
            .collect(),
    );
    let ranked =
        (0..8).map(|i| json!({"query": text(i), "positive": [other(i)], "negative": [other(i + 1), other(i + 2)]}));
    write("ranked", "test.jsonl", ranked.collect());
    let tasks = [
        ("retrieval", "find", ""),
        ("classification", "classes", ""),
        ("clustering", "clusters", "legacy_clustering = true\n"),
        ("pair-classification", "pairs", ""),
        ("sts", "graded", ""),
        ("bitext", "bitext", ""),
        ("reranking", "ranked", ""),
    ];
    let mut all = "name = \"tasks\"\nseeds = [1]\ntransformations = [\"stopword_removal\"]\n".to_owned();
    for (task, name, more) in tasks {
        all += &format!("\n[[dataset]]\ntask = \"{task}\"\nname = \"{name}\"\npath = \"{name}\"\n{more}");
    }
    let file = folder.join("tasks.toml");
    fs::write(&file, all).unwrap();
    (file.display().to_string(), tasks.len())
}

/// Shared by the tests of this file: a suite, a queue, a store.
struct Fleet {
    nats: Nats,
    folder: tempfile::TempDir,
    suite: String,
}

impl Fleet {
    /// `None` if the model is missing.
    fn new() -> Option<Self> {
        Home::with_models(&[MODEL])?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            nats: Nats::start(),
            suite: suite(folder.path()),
            folder,
        })
    }

    /// A fleet with a suite of nearly every kind of task instead, and its number of data sets.
    fn of_tasks() -> Option<(Self, usize)> {
        let fleet = Self::new()?;
        let (suite, tasks) = suite_of_tasks(fleet.folder.path());
        Some((Self { suite, ..fleet }, tasks))
    }

    fn check(&self, home: &Home, settings: &[(&str, &str)]) -> Command {
        let mut command = isomer(home);
        command
            .args([
                "check",
                "--format",
                "json",
                "--suite",
                &self.suite,
                "--model",
                MODEL,
                "--out",
            ])
            .arg(home.path().join("report"))
            .envs(settings.iter().copied());
        command
    }

    fn check_by_workers(&self, home: &Home, store: &Path) -> Command {
        let mut command = self.check(home, &SETTINGS);
        command.args(["--engine", &self.nats.url(), "--store"]).arg(store);
        command
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn worker(&self, store: &Path) -> Worker {
        Worker::start(home(), &self.nats.url(), store, &SETTINGS)
    }
}

fn home() -> Home {
    Home::with_models(&[MODEL]).unwrap()
}

fn finished(mut check: Command) -> Value {
    let (code, stdout, stderr) = finish(&mut check);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Files below a folder of the store.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let read = fs::read_dir(folder).into_iter().flatten();
        read.map(|one| one.unwrap().path()).collect()
    };
    below(folder).iter().flat_map(|shard| below(shard)).collect()
}

#[test]
fn one_two_and_five_workers_write_the_report_of_one_process_over_a_corpus_in_shards() {
    let Some(fleet) = Fleet::new() else { return };
    let alone = finished(fleet.check(&home(), &SETTINGS));
    let score = alone["scores"][0]["main_score"].as_f64().unwrap();
    assert!(score > 0.0 && score < 1.0, "{score}");
    // No text is in two shards, so the counters are equal too.
    let whole = finished(fleet.check(&home(), &[]));
    assert_equal(&whole, &alone, "shards in one process", false);
    for count in [1, 2, 5] {
        let store = fleet.store(&format!("store-{count}"));
        let workers: Vec<Worker> = (0..count).map(|_| fleet.worker(&store)).collect();
        let by_workers = finished(fleet.check_by_workers(&home(), &store));
        assert_equal(&alone, &by_workers, &format!("{count} workers"), false);
        assert!(workers.iter().any(|worker| worker.log().contains("encoder loaded")));
        // Each shard, and the vectors of the queries.
        assert_eq!(files(&store.join("inputs")).len(), SHARDS + 1);
    }
}

#[test]
fn a_worker_that_is_killed_in_a_shard_changes_nothing() {
    let Some(fleet) = Fleet::new() else { return };
    let alone = finished(fleet.check(&home(), &SETTINGS));
    let store = fleet.store("store");
    let mut first = fleet.worker(&store);
    let home = home();
    let mut check = fleet.check_by_workers(&home, &store);
    let running = std::thread::spawn(move || finish(&mut check));
    // The answers of the units that encode the queries, then of the first shards.
    let encoded = |store: &Path| files(&store.join("answers")).len();
    until("the first shard is searched", || {
        !files(&store.join("inputs")).is_empty()
    });
    let before = encoded(&store);
    until("a shard is searched", || encoded(&store) > before);
    first.kill();
    let left = encoded(&store);
    let _second = fleet.worker(&store);
    let (code, stdout, stderr) = running.join().unwrap();
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_equal(&alone, &report, "a worker killed", true);
    assert!(encoded(&store) > left, "the second worker had nothing left to do");
}

#[test]
fn a_shard_that_the_store_has_lost_is_put_there_again() {
    let Some(fleet) = Fleet::new() else { return };
    let store = fleet.store("store");
    let home = home();
    let mut check = fleet.check_by_workers(&home, &store);
    let running = std::thread::spawn(move || finish(&mut check));
    // The queries are encoded; the shards wait for a worker.
    let _encodes = Worker::start_in("encode=1", self::home(), &fleet.nats.url(), &store, &SETTINGS);
    until("shards wait", || files(&store.join("inputs")).len() == SHARDS + 1);
    for file in files(&store.join("inputs")) {
        fs::write(file, b"damaged").unwrap();
    }
    let _worker = fleet.worker(&store);
    let (code, stdout, stderr) = running.join().unwrap();
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let alone = finished(fleet.check(&self::home(), &SETTINGS));
    assert_equal(&alone, &report, "inputs lost", false);
}

#[test]
fn scores_by_workers_are_those_of_one_process() {
    let Some((fleet, tasks)) = Fleet::of_tasks() else {
        return;
    };
    let alone = finished(fleet.check(&home(), &[]));
    assert_eq!(alone["scores"].as_array().unwrap().len(), 2 * tasks);
    for count in [1, 2, 5] {
        let store = fleet.store(&format!("store-{count}"));
        let _workers: Vec<Worker> = (0..count).map(|_| fleet.worker(&store)).collect();
        let home = home();
        let mut check = fleet.check(&home, &SETTINGS[..3]);
        check.env("ISOMER_EVAL__SCORE_UNIT_OPERATIONS", "0");
        check.args(["--engine", &fleet.nats.url(), "--store"]).arg(&store);
        assert_equal(&alone, &finished(check), &format!("{count} workers"), false);
        // The labels of each data set; vectors are removed once they are scored.
        assert_eq!(files(&store.join("inputs")).len(), tasks, "{count} workers");
    }
    // Scores that take less time to compute than their vectors to transfer stay in the leading
    // process.
    let store = fleet.store("store-default");
    let _worker = fleet.worker(&store);
    let home = home();
    let mut check = fleet.check(&home, &SETTINGS[..3]);
    check.args(["--engine", &fleet.nats.url(), "--store"]).arg(&store);
    assert_equal(&alone, &finished(check), "by default", false);
    assert_eq!(files(&store.join("inputs")).len(), 0);
}
