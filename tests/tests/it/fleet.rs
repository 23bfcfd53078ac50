//! A check over several workers: its report equals that of one process, whichever part is killed.
//!
//! It uses a real NATS server and a folder as the store; the generator is a stub that counts its
//! requests.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::TryStreamExt;
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_retention::{Policy, Sweep, release, sweep};
use isomer_stubs::{
    openai::{Answer, Stub},
    wait,
};
use isomer_tests::{
    fleet::{Nats, Worker, assert_equal, free_address, until},
    home::Home,
    process::{check_into_report, finish},
};
use serde_json::Value;

const FIRST: &str = "all-MiniLM-L6-v2";
const SECOND: &str = "paraphrase-MiniLM-L3-v2";
const PAIRS: usize = 36;
const SETS: [&str; 6] = ["fence", "harbour", "garden", "bridge", "market", "station"];
/// Distinct texts and their seeds.
const TEXTS: usize = 2 * PAIRS * 2;

const SETTINGS: [(&str, &str); 2] = [
    ("ISOMER_FLEET__REPUBLISH_SECONDS", "1"),
    ("ISOMER_FLEET__WORKER_WAIT_SECONDS", "60"),
];
const LEASE: &str = "ISOMER_FLEET__LEASE_SECONDS";
/// A worker that lives keeps its units, however busy the machine is.
const LONG: &str = "60";
/// A lost worker is noticed soon.
const SHORT: &str = "3";
/// Number of texts that are generated before the test interferes.
const SOME: usize = TEXTS / 8;

/// Keys of a gate that looks at the results several times, and of one that looks once.
const SEQUENTIAL: &str = "sequential = \"obrien-fleming\"\n";
const IN_ONE_ROUND: &str = "";

/// A suite of data sets of our own with separation and a gate, some of whose keys are given.
fn suite(folder: &Path, gate: &str) -> String {
    let animals = ["cat", "dog", "horse", "sheep", "goose", "heron"];
    let mut text = format!(
        "name = \"fleet\"\nseeds = [1337, 7]\ntransformations = [\"paraphrase\"]\nattempts = 2\n\n\
         [gate]\nmax_at_chance = 1.0\nmin_items = 1\nmax_guarded = 1.0\nmax_same_rewrites = 1.0\n{gate}\n\
         [[gate.rule]]\nmax_drop = 60\nbasis = \"signed-rank\"\n"
    );
    for place in SETS {
        let data = folder.join(place);
        fs::create_dir_all(&data).unwrap();
        let rows: String = (0..PAIRS / SETS.len())
            .map(|i| {
                let animal = animals[i % animals.len()];
                format!(
                    "{{\"sentence1\": \"The old {animal} number {i} did not sleep beside the wooden {place}.\", \
                     \"sentence2\": \"Beside the {place} a young {animal} was resting near gate {i} all day.\", \"score\": {}}}\n",
                    (i * 7 % 11) as f64 / 2.0
                )
            })
            .collect();
        fs::write(data.join("test.jsonl"), rows).unwrap();
        text.push_str(&format!(
            "\n[[dataset]]\ntask = \"sts\"\npath = \"{place}\"\nname = \"{place}\"\n"
        ));
    }
    let suite = folder.join("suite.toml");
    fs::write(&suite, text).unwrap();
    suite.display().to_string()
}

/// Shared by the tests of this file: a suite, a queue, a store.
struct Fleet {
    nats: Nats,
    _folder: tempfile::TempDir,
    suite: String,
    store: PathBuf,
    stub: Stub,
    judge: Stub,
    /// The seconds of a unit's lease.
    lease: &'static str,
}

impl Fleet {
    /// `None` if a model is missing.
    async fn new(answer: Answer) -> Option<Self> {
        Self::of(answer, SEQUENTIAL).await
    }

    /// As [`Fleet::new`], with keys of the gate.
    async fn of(answer: Answer, gate: &str) -> Option<Self> {
        home()?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            suite: suite(folder.path(), gate),
            nats: Nats::start(),
            stub: Stub::start(answer).await,
            judge: Stub::start(Answer::Text("4".to_owned())).await,
            store: folder.path().join("store"),
            lease: LONG,
            _folder: folder,
        })
    }

    /// As [`Fleet::new`] with a generator whose answers the test holds, and short leases.
    async fn held() -> Option<Self> {
        let fleet = Self::new(Answer::Held(Box::new(Answer::Good))).await?;
        fleet.stub.release();
        Some(Self { lease: SHORT, ..fleet })
    }

    /// Holds the answers after those to the next [`SOME`] calls.
    fn hold_after_some(&self) {
        self.stub.hold();
        self.stub.script(vec![Answer::Good; SOME]);
    }

    /// Waits until answers are held, and no more calls come.
    async fn all_held(&self) {
        wait::found("answers are held", async || {
            let calls = self.stub.calls();
            tokio::time::sleep(Duration::from_millis(500)).await;
            (self.stub.in_flight() > 0 && self.stub.calls() == calls).then_some(())
        })
        .await;
    }

    fn generator(&self) -> String {
        format!("openai:stub@{}", self.stub.url())
    }

    /// A check in this process alone.
    fn check(&self, home: &Arc<Home>) -> Check {
        let mut command = check_into_report(home, &self.suite, &self.generator());
        let judge = format!("openai:judge@{}", self.judge.url());
        command.args([
            "--model",
            FIRST,
            "--model",
            SECOND,
            "--judge",
            &judge,
            "--undecided",
            "warn",
        ]);
        Check {
            command,
            _home: Arc::clone(home),
        }
    }

    fn check_by_workers(&self, home: &Arc<Home>) -> Check {
        let mut check = self.check(home);
        check
            .command
            .args(["--engine", &self.nats.url(), "--store"])
            .arg(&self.store);
        check.command.envs(SETTINGS).env(LEASE, self.lease);
        check
    }

    fn worker(&self) -> Worker {
        self.worker_with(&[])
    }

    /// A worker with more settings.
    fn worker_with(&self, more: &[(&str, &str)]) -> Worker {
        self.worker_in("transform=2,encode=1,judge=2,score=1", more)
    }

    /// A worker in some lanes, with more settings.
    fn worker_in(&self, lanes: &str, more: &[(&str, &str)]) -> Worker {
        Worker::start_in(
            lanes,
            Home::with_models(&[FIRST, SECOND]).unwrap(),
            &self.nats.url(),
            &self.store,
            &[&SETTINGS[..], &[(LEASE, self.lease)], more].concat(),
        )
    }
}

/// A check that has not started, with its home.
struct Check {
    command: Command,
    _home: Arc<Home>,
}

fn home() -> Option<Arc<Home>> {
    Home::with_models(&[FIRST, SECOND]).map(Arc::new)
}

/// Runs a check to its end, off the runtime that serves the stub.
async fn finished(check: Check) -> Value {
    report(begun(check)).await
}

/// Starts a check that runs concurrently with the test.
fn begun(check: Check) -> tokio::task::JoinHandle<(i32, String, String)> {
    tokio::task::spawn_blocking(move || {
        // Moves the whole check, so that its home is kept.
        let mut check = check;
        finish(&mut check.command)
    })
}

async fn report(check: tokio::task::JoinHandle<(i32, String, String)>) -> Value {
    let (code, stdout, stderr) = check.await.unwrap();
    assert!(code == 0 || code == 1, "{code}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Waits until the generator has received `calls` requests.
async fn calls(stub: &Stub, calls: usize) {
    wait::until("the calls have come", || stub.calls() >= calls).await;
}

/// The number of calls for a text and seed that had been called for, after the first `from` calls.
fn repeated(stub: &Stub, from: usize) -> usize {
    let seen = &stub.seen()[from..];
    let distinct: BTreeSet<(&str, u64)> = seen.iter().map(|seen| (seen.user(), seen.seed())).collect();
    seen.len() - distinct.len()
}

/// The number of calls in a report.
fn paid(report: &Value) -> u64 {
    let counters = &report["counters"];
    let judged = counters["judge"]["calls"].as_u64().unwrap();
    counters["generator_calls"].as_u64().unwrap() + judged
}

#[tokio::test(flavor = "multi_thread")]
async fn one_two_and_five_workers_write_the_report_of_one_process() {
    let Some(mut fleet) = Fleet::new(Answer::Good).await else {
        return;
    };
    let alone = finished(fleet.check(&home().unwrap())).await;
    assert_eq!(alone["counters"]["texts_generated"], TEXTS);
    let calls = fleet.stub.calls();
    for count in [1, 2, 5] {
        // Units that killed workers have not acknowledged would wait for the end of their leases.
        fleet.nats = Nats::start();
        fleet.store = fleet.store.with_file_name(format!("store-{count}"));
        let before = fleet.stub.calls();
        let workers: Vec<Worker> = (0..count).map(|_| fleet.worker()).collect();
        let by_workers = finished(fleet.check_by_workers(&home().unwrap())).await;
        assert_equal(&alone, &by_workers, &format!("{count} workers"), false);
        assert_eq!(fleet.stub.calls() - before, calls, "{count} workers");
        let worked = workers
            .iter()
            .filter(|worker| worker.log().contains("encoder loaded"))
            .count();
        assert!(worked > 0, "no worker encoded anything");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_machine_finds_everything_and_asks_for_nothing() {
    let Some(fleet) = Fleet::new(Answer::Good).await else {
        return;
    };
    let mut worker = fleet.worker();
    let first = finished(fleet.check_by_workers(&home().unwrap())).await;
    assert_eq!(worker.end(), Some(0), "{}", worker.log());
    assert!(worker.log().contains("drained and stopped"), "{}", worker.log());
    let (calls, rated) = (fleet.stub.calls(), fleet.judge.calls());
    // No worker is left, and none is needed.
    let second = finished(fleet.check_by_workers(&home().unwrap())).await;
    assert_eq!(second["counters"]["texts_generated"], 0);
    assert_eq!(second["counters"]["generator_calls"], 0);
    assert_eq!(fleet.stub.calls(), calls);
    assert_eq!(
        fleet.judge.calls(),
        rated + 1,
        "the judge is tried before every run, and nothing else is requested"
    );

    let scores = |report: &Value| report["profile"].clone();
    assert_eq!(scores(&first), scores(&second));
    // One process with the same store finds the texts too.
    let third = finished({
        let mut check = fleet.check(&home().unwrap());
        check.command.arg("--store").arg(&fleet.store);
        check
    })
    .await;
    assert_eq!(third["counters"]["texts_generated"], 0);
    assert_eq!(scores(&first), scores(&third));
}

/// Removes unreferenced entries from a store, and returns their number.
async fn swept(store: &Path) -> u64 {
    let config = StoreConfig {
        url: store.display().to_string(),
        ..StoreConfig::default()
    };
    let policy = Policy {
        older_than: Duration::ZERO,
        forget_runs: None,
        settle: Duration::ZERO,
    };
    let blobs = BlobStore::open(&config).unwrap().unwrap();
    let swept = sweep(&blobs, policy, Sweep::Remove, &|_| ()).await.unwrap();
    swept.total().objects
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_takes_nothing_from_runs_by_workers_and_everything_once_they_are_deleted() {
    let slow = Answer::Slow(Duration::from_millis(100), Box::new(Answer::Good));
    let Some(fleet) = Fleet::new(Answer::Held(Box::new(slow))).await else {
        return;
    };
    fleet.stub.script(vec![Answer::Good; SOME]);
    let _worker = fleet.worker();
    let check = begun(fleet.check_by_workers(&home().unwrap()));
    // Sweeps continue while the run is active, at least four of them in the middle of it.
    fleet.all_held().await;
    let mut sweeps = 0;
    while !check.is_finished() {
        assert_eq!(swept(&fleet.store).await, 0);
        sweeps += 1;
        if sweeps == 4 {
            fleet.stub.release();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(sweeps >= 4, "{sweeps}");
    let first = report(check).await;
    let calls = fleet.stub.calls();
    let second = finished(fleet.check_by_workers(&home().unwrap())).await;
    assert_eq!(second["profile"], first["profile"]);
    assert_eq!(fleet.stub.calls(), calls);
    let config = StoreConfig {
        url: fleet.store.display().to_string(),
        ..StoreConfig::default()
    };
    let blobs = BlobStore::open(&config).unwrap().unwrap();
    assert_eq!(swept(&fleet.store).await, 0);
    // The entries of the first run's encodings are removed with it, because the second found the
    // scores. Entries that the second relies on are kept.
    release(&blobs, first["run"]["id"].as_str().unwrap()).await.unwrap();
    assert!(swept(&fleet.store).await > 0);
    let third = finished(fleet.check_by_workers(&home().unwrap())).await;
    assert_eq!(third["profile"], first["profile"]);
    assert_eq!(third["counters"]["scores_computed"], 0);
    assert_eq!(fleet.stub.calls(), calls);
    for report in [&second, &third] {
        assert_eq!(swept(&fleet.store).await, 0);
        release(&blobs, report["run"]["id"].as_str().unwrap()).await.unwrap();
    }
    // Units first, then the texts that they relied on.
    assert!(swept(&fleet.store).await > 0);
    assert!(swept(&fleet.store).await >= TEXTS as u64);
    // A worker writes vectors in the background, perhaps after the run has ended.
    wait::found("nothing is left", async || {
        let left = blobs.list("").try_collect::<Vec<_>>().await.unwrap();
        swept(&fleet.store).await;
        left.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_costs_at_most_its_calls_in_flight() {
    let Some(fleet) = Fleet::held().await else { return };
    let alone = finished(fleet.check(&home().unwrap())).await;
    let least = fleet.stub.calls();
    let (mut first, _second) = (fleet.worker(), fleet.worker());
    fleet.hold_after_some();
    let check = begun(fleet.check_by_workers(&home().unwrap()));
    fleet.all_held().await;
    first.kill();
    // Of both workers; the stub may have noticed already that the first is gone.
    let in_flight = fleet.stub.in_flight() + fleet.stub.left();
    fleet.stub.release();
    let report = report(check).await;
    assert_equal(&alone, &report, "a killed worker", true);
    let again = fleet.stub.calls() - least - least;
    assert!(
        again <= in_flight,
        "{again} calls were repeated, {in_flight} were in flight"
    );
    // The run pays for the work that the dead worker had finished.
    let (paid, least) = (paid(&report), paid(&alone));
    assert!(
        (least..=least + again as u64).contains(&paid),
        "{paid} calls are counted, {least} without the fault, {again} were repeated"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_generator_that_answers_differently_each_time_everybody_sees_one_text() {
    let Some(mut fleet) = Fleet::new(Answer::Varied(Duration::from_millis(200))).await else {
        return;
    };
    fleet.lease = SHORT;
    let (mut first, _second) = (fleet.worker(), fleet.worker());
    let check = begun(fleet.check_by_workers(&home().unwrap()));
    calls(&fleet.stub, SOME).await;
    first.kill();
    let before = report(check).await;
    let calls = fleet.stub.calls();
    // Scores from texts alone: a home without cached scores, and a separate run for each encoder.
    for encoders in [&[FIRST, SECOND][..], &[SECOND]] {
        fs::remove_dir_all(fleet.store.join("scores")).unwrap();
        let home = home().unwrap();
        let mut command = check_into_report(&home, &fleet.suite, &fleet.generator());
        for encoder in encoders {
            command.args(["--model", encoder]);
        }
        command.args(["--undecided", "warn", "--store"]).arg(&fleet.store);
        let again = finished(Check { command, _home: home }).await;
        for scores in again["scores"].as_array().unwrap() {
            let same = before["scores"].as_array().unwrap().iter().any(|other| other == scores);
            assert!(same, "{scores}");
        }
    }
    assert_eq!(fleet.stub.calls(), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_loses_its_units_and_may_wake_up_late() {
    let Some(fleet) = Fleet::held().await else { return };
    let alone = finished(fleet.check(&home().unwrap())).await;
    let least = fleet.stub.calls();
    // One after the other, so that the first has a unit whose answers are held.
    let first = fleet.worker();
    fleet.hold_after_some();
    let check = begun(fleet.check_by_workers(&home().unwrap()));
    fleet.all_held().await;
    first.signal("STOP");
    let _second = fleet.worker();
    fleet.stub.release();
    wait::until("its unit is begun again", || repeated(&fleet.stub, least) > 0).await;
    first.signal("CONT");
    assert_equal(&alone, &report(check).await, "a worker that hung", true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_wiped_costs_nothing_but_time() {
    let Some(fleet) = Fleet::held().await else { return };
    let mut fleet = Fleet { lease: LONG, ..fleet };
    let alone = finished(fleet.check(&home().unwrap())).await;
    let least = fleet.stub.calls();
    let _workers = [fleet.worker(), fleet.worker()];
    fleet.hold_after_some();
    let check = begun(fleet.check_by_workers(&home().unwrap()));
    fleet.all_held().await;
    fleet.nats.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let in_flight = fleet.stub.in_flight();
    fleet.nats.start_again(true);
    fleet.stub.release();
    assert_equal(&alone, &report(check).await, "a wiped broker", true);
    // A second worker may start a unit while the first worker is still working on it.
    let again = fleet.stub.calls() - least - least;
    assert!(again <= in_flight.max(64), "{again} calls were repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_may_be_killed_and_the_same_command_goes_on() {
    let Some(fleet) = Fleet::held().await else { return };
    let fleet = Fleet { lease: LONG, ..fleet };
    let alone = finished(fleet.check(&home().unwrap())).await;
    let least = fleet.stub.calls();
    let _worker = fleet.worker();
    fleet.hold_after_some();
    let leaders_home = home().unwrap();
    let mut leader = fleet
        .check_by_workers(&leaders_home)
        .command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    fleet.all_held().await;
    leader.kill().unwrap();
    leader.wait().unwrap();
    fleet.stub.release();
    // From another machine that shares only the queue and the store.
    let report = finished(fleet.check_by_workers(&home().unwrap())).await;
    let profile = |report: &Value| report["profile"].clone();
    assert_eq!(profile(&alone), profile(&report));
    assert_eq!(fleet.stub.calls() - least, least, "texts were generated again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_stops_its_workers() {
    let Some(fleet) = Fleet::held().await else { return };
    let _worker = fleet.worker();
    fleet.hold_after_some();
    let home = home().unwrap();
    let mut leader = fleet
        .check_by_workers(&home)
        .command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    fleet.all_held().await;
    let id = leader.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    // Nothing answers them, so its calls end because the worker gives them up.
    fleet.stub.wait_until_idle().await;
    fleet.stub.release();
    let calls = fleet.stub.calls();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.stub.calls(), calls, "calls after the cancellation");
    leader.wait().unwrap();
    // The positive control: the same run is repeated and completes.
    finished(fleet.check_by_workers(&home)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_ends_without_its_broker_and_at_once_at_a_second_signal() {
    let hangs = Answer::Slow(Duration::from_secs(3600), Box::new(Answer::Good));
    let Some(mut fleet) = Fleet::new(hangs).await else {
        return;
    };
    let mut idle = Worker::start_in("score=1", Home::empty(), &fleet.nats.url(), &fleet.store, &SETTINGS);
    let mut busy = fleet.worker_with(&[("ISOMER_GRACE", "3600")]);
    let leaders_home = home().unwrap();
    let mut leader = fleet
        .check_by_workers(&leaders_home)
        .command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    calls(&fleet.stub, 1).await;
    busy.signal("TERM");
    until("it drains", || busy.log().contains("draining"));
    assert_eq!(busy.end(), Some(3));
    assert!(busy.log().contains("second signal"), "{}", busy.log());
    fleet.nats.kill();
    assert_eq!(idle.end(), Some(0));
    assert!(idle.log().contains("the queue does not answer"), "{}", idle.log());
    leader.kill().unwrap();
    leader.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_no_worker_takes_says_so_and_fails() {
    let Some(fleet) = Fleet::new(Answer::Good).await else {
        return;
    };
    let home = home().unwrap();
    let mut check = fleet.check_by_workers(&home);
    check.command.env("ISOMER_FLEET__WORKER_WAIT_SECONDS", "2");
    let (code, _, stderr) = begun(check).await.unwrap();
    assert_eq!(code, 3, "{stderr}");
    assert!(
        stderr.contains("no worker takes units of `transform`") && stderr.contains("isomer worker --engine"),
        "{stderr}"
    );
    let _worker = fleet.worker();
    finished(fleet.check_by_workers(&home)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_a_store_and_a_broker_that_is_not_there_are_refused() {
    let Some(home) = home() else { return };
    let folder = tempfile::tempdir().unwrap();
    let suite = suite(folder.path(), SEQUENTIAL);
    let mut without = check_into_report(&home, &suite, "none");
    without.args(["--engine", "nats://127.0.0.1:1"]);
    let (code, _, stderr) = begun(Check {
        command: without,
        _home: Arc::clone(&home),
    })
    .await
    .unwrap();
    assert!(code == 2 && stderr.contains("store.url"), "{code}: {stderr}");
    let mut away = check_into_report(&home, &suite, "none");
    away.args(["--engine", "nats://127.0.0.1:1", "--store"])
        .arg(folder.path().join("store"));
    let (code, _, stderr) = begun(Check {
        command: away,
        _home: home,
    })
    .await
    .unwrap();
    assert!(code == 3 && stderr.contains("nats://127.0.0.1:1"), "{code}: {stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_before_its_brokers_have_a_leader_waits_for_one() {
    let Some(home) = Home::with_models(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (clients, cluster) = (
        std::array::from_fn(|_| free_address()),
        std::array::from_fn(|_| free_address()),
    );
    let first = Nats::start_member(0, &clients, &cluster);
    let mut worker = Worker::begin("score=1", home, &first.url(), folder.path(), &SETTINGS);
    worker.until_logged("no leader yet");
    assert!(!worker.log().contains("taking units of work"));
    let _others = [1, 2].map(|number| Nats::start_member(number, &clients, &cluster));
    worker.until_logged("taking units of work");
}

/// The content of a worker's `/metrics`.
fn metrics(worker: &Worker) -> String {
    until("it serves its metrics", || worker.log().contains("serving /metrics"));
    let log = worker.log();
    let line = log.lines().find(|line| line.contains("serving /metrics")).unwrap();
    let address = line.rsplit("127.0.0.1:").next().unwrap();
    let port: String = address.chars().take_while(char::is_ascii_digit).collect();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The sum of a metric's values with a label.
fn sum(metrics: &str, name: &str, label: &str) -> u64 {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    let values = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    values.sum::<f64>() as u64
}

/// Whether the worker's log says that it obeys a pause.
fn pauses(worker: &Worker) -> bool {
    let log = worker.log();
    log.contains("asks for a pause") || log.contains("has asked another process for a pause")
}

/// A pause that calls wait for, and a longer one, so that units are handed back.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_and_a_pause_hold_over_workers_and_change_nothing_of_the_report() {
    const PAUSE: Duration = Duration::from_secs(3);
    let slow = Answer::Slow(Duration::from_millis(30), Box::new(Answer::Good));
    let Some(mut fleet) = Fleet::of(Answer::Held(Box::new(slow)), IN_ONE_ROUND).await else {
        return;
    };
    // A new queue grants no calls for the time of a lease.
    fleet.lease = "8";
    let mut reports = Vec::new();
    for longest in ["60", "1"] {
        fleet.store = fleet.store.with_file_name(format!("store-{longest}"));
        let before = fleet.stub.calls();
        let settings = [
            ("ISOMER_TRANSFORM__SPEC_DEFAULTS__FLEET__CONCURRENCY", "4"),
            ("ISOMER_TRANSFORM__SPEC_DEFAULTS__MAX_RETRY_AFTER_SECONDS", longest),
            ("ISOMER_METRICS_LISTEN", "127.0.0.1:0"),
        ];
        fleet.stub.hold();
        let lanes = "transform=1,encode=1,judge=2,score=1";
        let mut workers: Vec<Worker> = (0..3).map(|_| fleet.worker_in(lanes, &settings)).collect();
        let mut check = fleet.check_by_workers(&home().unwrap());
        check.command.envs(settings);
        let check = begun(check);
        // The texts of a seed are three units, and a worker takes one: each of the three waits for
        // calls.
        wait::until("every worker shares the limit", || {
            let generator = format!("generator=\"{}\"", fleet.generator());
            let shares = |worker| {
                metrics(worker)
                    .lines()
                    .any(|line| line.starts_with("isomer_fleet_leased_calls{") && line.contains(&generator))
            };
            workers.iter().all(shares)
        })
        .await;
        wait::until("the limit is reached", || fleet.stub.in_flight() == 4).await;
        let asked = Instant::now();
        fleet
            .stub
            .script([Answer::Status(429, Some(PAUSE.as_secs().to_string()))]);
        fleet.stub.release();
        wait::until("every worker obeys the pause", || workers.iter().all(pauses)).await;
        let known = Instant::now();
        let report = report(check).await;
        assert_eq!(report["counters"]["texts_generated"], TEXTS);
        let early = fleet.stub.seen()[before..]
            .iter()
            .filter(|seen| known < seen.at && seen.at < asked + PAUSE)
            .count();
        assert_eq!(early, 0, "calls in the pause");
        // One worker received the pause; each worker's metrics are at its address.
        let said: Vec<String> = workers.iter().map(metrics).collect();
        let of_all = |name, label| said.iter().map(|said| sum(said, name, label)).sum::<u64>();
        assert_eq!(of_all("isomer_fleet_pauses_total", ""), 1);
        let handed_back = of_all("isomer_fleet_units_total", "end=\"paused\"");
        assert_eq!(handed_back > 0, longest == "1", "{handed_back}");
        // One call was refused. Of each unit that is handed back, up to four were in flight.
        let again = (fleet.stub.calls() - before - TEXTS) as u64;
        assert!(
            (1..=1 + 4 * handed_back).contains(&again),
            "{again} calls were made again"
        );
        // The stub may notice later that the client of a unit that was handed back has left.
        let most = fleet.stub.most_in_flight();
        assert!((4..=4 + fleet.stub.left()).contains(&most), "{most} calls in flight");
        reports.push(report);
        for worker in &mut workers {
            assert_eq!(worker.end(), Some(0));
        }
    }
    fleet.stub.hold();
    let alone = begun(fleet.check(&home().unwrap()));
    wait::until("more calls are in flight without a limit", || {
        fleet.stub.in_flight() > 4
    })
    .await;
    fleet.stub.release();
    let alone = report(alone).await;
    for report in reports {
        assert_equal(&alone, &report, "a pause", true);
    }
}
