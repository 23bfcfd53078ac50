//! `isomer index run` with texts encoded by workers: the collection is bit for bit that of one
//! process, whichever part is killed.
//!
//! It uses a real NATS server, a folder as the store, Parquet files as the collection, and a stub
//! of a generator that counts its requests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use isomer_stubs::openai::{Answer, Stub};
use isomer_tests::{
    fleet::{Nats, Worker, until},
    home::Home,
    process::{finish, isomer},
};
use serde_json::{Value, json};

const MODEL: &str = "paraphrase-MiniLM-L3-v2";
/// Settings for quick detection of a lost worker.
const SETTINGS: [(&str, &str); 3] = [
    ("ISOMER_FLEET__LEASE_SECONDS", "3"),
    ("ISOMER_FLEET__REPUBLISH_SECONDS", "1"),
    ("ISOMER_FLEET__WORKER_WAIT_SECONDS", "60"),
];
const LANES: &str = "transform=2,encode=1";

fn home() -> Option<Home> {
    Home::with_models(&[MODEL])
}

/// Shared by the tests of this file: documents, a queue, a store.
struct Fleet {
    nats: Nats,
    folder: tempfile::TempDir,
    documents: usize,
}

impl Fleet {
    /// `None` if the model is missing.
    fn new(documents: usize) -> Option<Self> {
        home()?;
        let folder = tempfile::tempdir().unwrap();
        let animals = ["cat", "dog", "horse", "sheep", "goose", "heron"];
        let row = |i: usize| {
            let text = format!(
                "The old {} number {i} did not sleep beside the wooden fence.",
                animals[i % 6]
            );
            format!("{}\n", json!({"id": format!("d{i}"), "text": text}))
        };
        fs::write(
            folder.path().join("docs.jsonl"),
            (0..documents).map(row).collect::<String>(),
        )
        .unwrap();
        Some(Self {
            nats: Nats::start(),
            folder,
            documents,
        })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn worker(&self, more: &[(&str, &str)]) -> Worker {
        let settings = [&SETTINGS, more].concat();
        Worker::start_in(
            LANES,
            home().unwrap(),
            &self.nats.url(),
            &self.place("store"),
            &settings,
        )
    }

    /// `isomer index …` of the documents and a collection.
    fn index(&self, home: &Home, what: &str, sink: &str, more: &[&str]) -> Command {
        let mut command = isomer(home);
        command
            .args(["index", what, "--format", "json", "--model", MODEL, "--source"])
            .arg(self.place("docs.jsonl"))
            .arg("--sink")
            .arg(self.place(sink))
            .args(more);
        command
    }

    /// `isomer index run` by workers, in batches of sixteen.
    fn run(&self, home: &Home, sink: &str, more: &[&str]) -> Command {
        let mut command = self.index(home, "run", sink, more);
        command
            .args(["--batch", "16", "--engine", &self.nats.url(), "--store"])
            .arg(self.place("store"))
            .envs(SETTINGS);
        command
    }

    /// Asserts that every row is present once, with bit for bit the vector computed by a process
    /// without workers.
    fn assert_whole(&self, sink: &str, more: &[&str]) {
        let all = [&["--share", "1", "--tolerance", "0"], more].concat();
        let (code, stdout, stderr) = finish(&mut self.index(&home().unwrap(), "verify", sink, &all));
        assert_eq!(code, 0, "{stdout} {stderr}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (&found["rows"], &found["sampled"]),
            (&json!(self.documents), &json!(self.documents)),
            "{found}"
        );
    }

    /// Files of units that remain in the store.
    fn left(&self) -> Vec<PathBuf> {
        let kinds = ["units", "answers", "claims", "partial"];
        kinds
            .iter()
            .flat_map(|kind| files(&self.place("store").join(kind)))
            .collect()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn outcome((code, stdout, stderr): (i32, String, String)) -> Value {
    assert_eq!(code, 0, "{stdout} {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Number of units whose answer a worker has written, according to its log.
fn done(worker: &mut Worker) -> u64 {
    assert_eq!(worker.end(), Some(0), "{}", worker.log());
    let log = worker.log();
    let end = log
        .lines()
        .find(|line| line.contains("drained and stopped"))
        .expect("its end");
    let number = end.split("done").nth(1).unwrap();
    let digits: String = number
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or_else(|_| panic!("{end}"))
}

#[test]
fn workers_fill_a_collection_as_one_process_does_and_leave_nothing_of_the_texts() {
    let Some(fleet) = Fleet::new(200) else { return };
    let (mut first, mut second) = (fleet.worker(&[]), fleet.worker(&[]));
    let (code, stdout, stderr) = finish(&mut fleet.run(&home().unwrap(), "sink", &[]));
    assert!(stderr.contains("encoded by workers: 2 workers"), "{stderr}");
    let told = outcome((code, stdout, stderr));
    assert_eq!((&told["written"], &told["unchanged"]), (&json!(200), &json!(0)));
    // Thirteen batches of sixteen documents, none of them encoded by the writing process.
    assert_eq!(done(&mut first) + done(&mut second), 13);
    assert_eq!(fleet.left(), Vec::<PathBuf>::new());
    fleet.assert_whole("sink", &[]);
    // No worker is needed if nothing has changed.
    let again = outcome(finish(&mut fleet.run(&home().unwrap(), "sink", &[])));
    assert_eq!((&again["written"], &again["unchanged"]), (&json!(0), &json!(200)));
}

#[test]
fn a_killed_worker_and_a_killed_run_lose_no_row_and_write_none_twice() {
    let Some(fleet) = Fleet::new(600) else { return };
    let (mut first, mut second) = (fleet.worker(&[]), fleet.worker(&[]));
    // Slow enough to be killed in the middle.
    let slow = ["--rows-per-second", "150"];
    // The first worker works alone. Once it is stopped, nothing goes on.
    second.signal("STOP");
    let own = home().unwrap();
    let mut run = fleet
        .run(&own, "sink", &slow)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("units are in work", || !fleet.left().is_empty());
    first.signal("STOP");
    std::thread::sleep(Duration::from_millis(700));
    first.kill();
    assert!(run.try_wait().unwrap().is_none(), "the run had ended already");
    run.kill().unwrap();
    run.wait().unwrap();
    // The second worker is killed while the next run waits for it, and a third one is started.
    second.signal("CONT");
    let before = fleet.left();
    let mut third = None;
    let rest = std::thread::scope(|scope| {
        let mut run = fleet.run(&own, "sink", &slow);
        let running = scope.spawn(move || finish(&mut run));
        until("units are in work again", || fleet.left() != before);
        second.kill();
        assert!(!running.is_finished(), "the run had ended already");
        third = Some(fleet.worker(&[]));
        outcome(running.join().unwrap())
    });
    assert!(
        third.as_mut().is_some_and(|third| done(third) > 0),
        "the third worker did nothing"
    );
    // Parquet has only complete files, so the kill lost everything written.
    assert_eq!(
        (&rest["written"], &rest["unchanged"]),
        (&json!(600), &json!(0)),
        "{rest}"
    );
    fleet.assert_whole("sink", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn variants_are_made_by_workers_once_for_each_text() {
    let Some(fleet) = Fleet::new(96) else { return };
    let stub = Stub::start(Answer::Held(Box::new(Answer::Good))).await;
    stub.script(vec![Answer::Good; 30]);
    let generator = format!("openai:stub@{}", stub.url());
    let augment = ["--augment", "paraphrase", "--generator", &generator];
    tokio::task::block_in_place(|| {
        let (mut first, mut second) = (fleet.worker(&[]), fleet.worker(&[]));
        let own = home().unwrap();
        let mut run = fleet.run(&own, "sink", &augment);
        let running = std::thread::spawn(move || finish(&mut run));
        // Each of the two holds some.
        until("calls are held", || stub.calls() > 30 && stub.in_flight() > 0);
        first.kill();
        // The stub may have noticed already that the first worker is gone.
        let in_flight = stub.in_flight() + stub.left();
        stub.release();
        let told = outcome(running.join().unwrap());
        assert_eq!((&told["written"], &told["partial"]), (&json!(96), &json!(0)), "{told}");
        // One for the text that determines the space; texts of a killed worker are in the store.
        let calls = stub.calls();
        assert!(
            calls <= 97 + in_flight,
            "{calls} calls, {in_flight} in flight at the kill"
        );
        assert!(calls >= 97 && done(&mut second) > 0, "{calls} calls");
        assert_eq!(fleet.left(), Vec::<PathBuf>::new());
        fleet.assert_whole("sink", &augment);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_lack_variants_are_marked_and_made_again() {
    let Some(fleet) = Fleet::new(4) else { return };
    let stub = Stub::start(Answer::Good).await;
    let generator = format!("openai:stub@{}", stub.url());
    let augment = ["--augment", "paraphrase", "--generator", &generator];
    // It fails in both executions of the unit, and then no more.
    let fails = || Answer::Status(400, None);
    stub.mark("number 2 did", [fails(), fails(), Answer::Good]);
    tokio::task::block_in_place(|| {
        let _worker = fleet.worker(&[]);
        let own = home().unwrap();
        let told = outcome(finish(&mut fleet.run(&own, "sink", &augment)));
        assert_eq!((&told["written"], &told["partial"]), (&json!(4), &json!(1)), "{told}");
        assert_eq!(fleet.left(), Vec::<PathBuf>::new());
        let again = outcome(finish(&mut fleet.run(&own, "sink", &augment)));
        assert_eq!(
            (&again["written"], &again["unchanged"], &again["partial"]),
            (&json!(1), &json!(3), &json!(0)),
            "{again}"
        );
        fleet.assert_whole("sink", &augment);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_vectors_are_others_is_refused_and_no_row_is_written() {
    let Some(fleet) = Fleet::new(20) else { return };
    let stub = Stub::start(Answer::Good).await;
    let generator = format!("openai:stub@{}", stub.url());
    let augment = ["--augment", "paraphrase", "--generator", &generator];
    tokio::task::block_in_place(|| {
        let own = home().unwrap();
        {
            let _other = fleet.worker(&[("ISOMER_EMBED__PRECISION", "int8")]);
            for (sink, more) in [("plain", &[][..]), ("augmented", &augment)] {
                let (code, stdout, stderr) = finish(&mut fleet.run(&own, sink, more));
                assert_eq!(code, 3, "{stdout}");
                assert!(stderr.contains("makes vectors of the space"), "{stderr}");
                let more = [&["--share", "0"], more].concat();
                let rows = finish(&mut fleet.index(&own, "verify", sink, &more));
                let found: Value = serde_json::from_str(&rows.1).unwrap_or_else(|_| panic!("{rows:?}"));
                assert_eq!((rows.0, &found["rows"]), (1, &json!(0)), "{found}");
            }
        }
        // The same harness with a worker that gives the same vectors.
        let _same = fleet.worker(&[]);
        let told = outcome(finish(&mut fleet.run(&own, "sink", &augment)));
        assert_eq!(told["written"], json!(20));
    });
}

#[test]
fn without_a_worker_a_run_ends_with_the_command_that_starts_one() {
    let Some(fleet) = Fleet::new(3) else { return };
    let own = home().unwrap();
    let mut run = fleet.run(&own, "sink", &[]);
    let (code, _, stderr) = finish(run.env("ISOMER_FLEET__WORKER_WAIT_SECONDS", "1"));
    assert_eq!(code, 3, "{stderr}");
    for says in ["no worker takes units of `encode`", "isomer worker --engine"] {
        assert!(stderr.contains(says), "{stderr}");
    }
}
