//! Replicas that share a PostgreSQL ledger of runs form one service: each serves every run, and a
//! run survives the replica that executes it.

use std::{sync::atomic::Ordering, time::Duration};

use isomer_eval::{EvalService, Ledger, Shared, config::LedgerConfig};
use isomer_proto::eval::v1::{
    CancelRunRequest, CreateRunRequest, DeleteRunRequest, Gate, GateBasis, GateRule, GateSequential, GetReportRequest,
    GetRunRequest, ListRunsRequest, ReportFormat, Run, RunSpec, RunState, WatchRunResponse, gate_rule::Limit,
    run_service_client::RunServiceClient, watch_run_response::Event,
};
use isomer_service_kit::GrpcChannel;
use isomer_stubs::{postgres::empty_schema, wait};
use serde_json::Value;
use sqlx::{AnyPool, Row};
use tokio::runtime::Runtime;
use tonic::Code;

use crate::run_stubs::{
    DISTINCT, Harness, create, ended,
    many::{scores, suite},
    report_json, run_to_end, spec, watch,
};

type Client = RunServiceClient<GrpcChannel>;

async fn ledger(url: &str) -> Ledger {
    let config = serde_json::json!({ "url": url, "lease_seconds": 2 });
    let config: LedgerConfig = serde_json::from_value(config).unwrap();
    Ledger::open(&config).await.unwrap()
}

fn shared(ledger: Ledger) -> Shared {
    Shared {
        ledger: Some(ledger),
        ..Shared::default()
    }
}

/// A replica whose own folders are inaccessible to the others.
async fn replica(harness: &Harness, url: &str) -> (EvalService, Client) {
    harness.open_with(shared(ledger(url).await), |_| ()).await
}

/// From now on the leader writes nothing to the ledger, as after SIGKILL: errors of tasks in a
/// runtime that is shutting down must not end the run.
async fn cut_off(url: &str) {
    let pool = AnyPool::connect(url).await.unwrap();
    let done = sqlx::query("UPDATE eval_runs SET fence = fence + 1")
        .execute(&pool)
        .await;
    assert_eq!(done.unwrap().rows_affected(), 1);
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

async fn get(client: &mut Client, id: &str) -> Run {
    let request = GetRunRequest { id: id.to_owned() };
    client.get_run(request).await.unwrap().into_inner().run.unwrap()
}

async fn until(client: &mut Client, id: &str, what: &str, reached: impl Fn(&Run) -> bool) -> Run {
    let look = async || Some(get(client, id).await).filter(|run| reached(run));
    wait::found(what, look).await
}

fn told(events: &[WatchRunResponse]) -> Vec<(u64, String)> {
    let kinds = events.iter().map(|event| {
        let kind = match event.event.as_ref().unwrap() {
            Event::Message(text) => text.clone(),
            Event::Progress(progress) => format!("{:?} {} of {}", progress.stage(), progress.done, progress.total),
            Event::Ended(run) => format!("{:?}", run.state()),
        };
        (event.sequence, kind)
    });
    kinds.collect()
}

const ONE: &str = "seeds = [1]\ntransformations = [\"paraphrase\"]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_replica_answers_for_every_run() {
    let Some(url) = empty_schema("ledger_every").await else {
        return;
    };
    let harness = Harness::new();
    let (_a, mut first) = replica(&harness, &url).await;
    let (_b, mut second) = replica(&harness, &url).await;
    let request = || CreateRunRequest {
        spec: Some(spec(harness.suite(ONE), &["stub-a"])),
        request_id: "nightly".to_owned(),
    };
    // The same request at both at once is one run.
    let (mut left, mut right) = (first.clone(), second.clone());
    let (one, other) = tokio::join!(left.create_run(request()), right.create_run(request()));
    let id = one.unwrap().into_inner().run.unwrap().id;
    assert_eq!(other.unwrap().into_inner().run.unwrap().id, id);

    let here = watch(&mut first, &id, 0).await;
    let there = watch(&mut second, &id, 0).await;
    assert_eq!(ended(&here).state(), RunState::Succeeded, "{}", ended(&here).error);
    assert_eq!(
        told(&here),
        told(&there),
        "events and their numbers are the same everywhere"
    );
    let rest = watch(&mut second, &id, there[2].sequence).await;
    assert_eq!(told(&rest), told(&there[3..]));
    assert_eq!(get(&mut first, &id).await, get(&mut second, &id).await);
    for client in [&mut first, &mut second] {
        let listed = client
            .list_runs(ListRunsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .runs;
        assert_eq!(
            listed.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(),
            [id.as_str()]
        );
    }
    for format in [
        ReportFormat::Json,
        ReportFormat::Html,
        ReportFormat::Markdown,
        ReportFormat::Junit,
        ReportFormat::Items,
    ] {
        let request = GetReportRequest {
            id: id.clone(),
            format: format.into(),
        };
        let (one, other) = (
            first.get_report(request.clone()).await,
            second.get_report(request).await,
        );
        let (one, other) = (one.unwrap().into_inner(), other.unwrap().into_inner());
        assert!(!one.content.is_empty());
        assert_eq!(one, other);
    }
    second.delete_run(DeleteRunRequest { id: id.clone() }).await.unwrap();
    let gone = second.get_run(GetRunRequest { id }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_and_watched_at_a_replica_that_does_not_lead_it() {
    let Some(url) = empty_schema("ledger_cancel").await else {
        return;
    };
    let harness = Harness::new();
    *harness.transform.pause.lock() = Duration::from_secs(3600);
    let (_a, mut first) = replica(&harness, &url).await;
    let (_b, mut second) = replica(&harness, &url).await;
    let run = create(&mut first, spec(harness.suite(ONE), &["stub-a"])).await.unwrap();
    until(&mut second, &run.id, "it runs", |run| run.state() == RunState::Running).await;
    let watched = {
        let (mut client, id) = (second.clone(), run.id.clone());
        tokio::spawn(async move { watch(&mut client, &id, 0).await })
    };
    let request = CancelRunRequest {
        id: run.id.clone(),
        reason: "enough".to_owned(),
    };
    let cancelled = second.cancel_run(request).await.unwrap().into_inner().run.unwrap();
    assert_eq!(cancelled.state(), RunState::Cancelled);
    assert!(cancelled.error.contains("enough"), "{}", cancelled.error);
    let events = watched.await.unwrap();
    assert_eq!(ended(&events).state(), RunState::Cancelled);
    assert!(told(&events).iter().any(|(_, text)| text == "cancelled: enough"));
    assert_eq!(get(&mut first, &run.id).await.state(), RunState::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_claim_was_not_answered_is_continued_by_the_replica_that_it_names() {
    let Some(url) = empty_schema("ledger_unanswered").await else {
        return;
    };
    let harness = Harness::new();
    *harness.transform.pause.lock() = Duration::from_secs(3600);
    let (_a, mut first) = replica(&harness, &url).await;
    let run = create(&mut first, spec(harness.suite(ONE), &["stub-a"])).await.unwrap();
    until(&mut first, &run.id, "it runs", |run| run.state() == RunState::Running).await;
    let pool = AnyPool::connect(&url).await.unwrap();
    let leader = async || {
        let row = sqlx::query("SELECT leader, fence FROM eval_runs")
            .fetch_one(&pool)
            .await;
        let row = row.unwrap();
        (row.get::<String, _>(0), row.get::<i64, _>(1))
    };
    let (before, _) = leader().await;
    let (_b, mut second) = replica(&harness, &url).await;
    // A replica does not take over a run that it is itself executing, however long the run takes.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (now, fence) = leader().await;
    assert!(now != before || fence == 1, "{now} took its own run over");
    // The second replica claims the run, but the reply is lost.
    *harness.transform.pause.lock() = Duration::ZERO;
    let claimed = "UPDATE eval_runs SET fence = fence + 1, leader = (SELECT id FROM eval_replicas WHERE id <> $1)";
    let claimed = sqlx::query(claimed).bind(&before).execute(&pool).await.unwrap();
    assert_eq!(claimed.rows_affected(), 1);
    let run = until(&mut second, &run.id, "it ends", |run| run.end_time.is_some()).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert!(leader().await.1 >= fence + 2, "it was claimed once more");
}

/// One rule that the first look decides and one that needs all looks, because its floor is close to
/// the score.
pub(crate) fn asked(harness: &Harness, floor: f64) -> RunSpec {
    *harness.transform.sampled.lock() = true;
    let mut asked = spec(suite(harness, 16, ""), &["stub-a"]);
    asked.seeds = vec![1, 2, 3];
    let rule = |limit| GateRule {
        limit: Some(limit),
        basis: GateBasis::SignedRank.into(),
        ..GateRule::default()
    };
    asked.gate = Some(Gate {
        rules: vec![rule(Limit::MaxDrop(199.0)), rule(Limit::MinScore(floor))],
        sequential: GateSequential::Pocock.into(),
        ..Gate::default()
    });
    asked
}

/// An uninterrupted run in its own harness.
async fn unbroken(floor: f64) -> (Harness, Run, Value) {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let run = run_to_end(&mut client, asked(&harness, floor)).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let json = report_json(&mut client, &run.id).await;
    (harness, run, json)
}

/// The result of half of the data sets under one seed, as a floor that is too close for any look
/// but the last.
fn close_floor() -> f64 {
    let (_harness, _, json) = runtime().block_on(unbroken(0.0));
    json["gate"]["encoders"][0]["rules"][1]["estimate"].as_f64().unwrap()
}

/// The leader is killed in its second round; a replica continues. `between` changes the ledger
/// after the kill.
fn killed_in_a_round(schema: &str, floor: f64, between: impl Fn(&AnyPool, &Runtime)) -> Option<(Harness, Run, Value)> {
    let outer = runtime();
    let url = outer.block_on(empty_schema(schema))?;
    let harness = Harness::new();
    // The first round has 8 data sets under one seed.
    let in_the_second = (8 * 5 + 5) * 2 + 20;
    harness.transform.quota.stop_after(in_the_second);
    let first = runtime();
    let id = first.block_on(async {
        let (service, mut client) = replica(&harness, &url).await;
        let run = create(&mut client, asked(&harness, floor)).await.unwrap();
        wait::until("the second round has begun", || {
            harness.transform.generated.load(Ordering::SeqCst) == in_the_second
        })
        .await;
        cut_off(&url).await;
        std::mem::forget(service);
        run.id
    });
    // As with SIGKILL, no task can clean up.
    first.shutdown_timeout(Duration::from_millis(50));
    harness.transform.quota.lift();
    let pool = outer.block_on(AnyPool::connect(&url)).unwrap();
    between(&pool, &outer);
    let (run, json) = outer.block_on(async {
        let (_service, mut client) = replica(&harness, &url).await;
        let events = watch(&mut client, &id, 0).await;
        let mut sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
        let all = sequences.clone();
        sequences.dedup();
        assert_eq!(sequences, all, "no number twice");
        let run = ended(&events);
        let json = match run.state() {
            RunState::Succeeded => report_json(&mut client, &id).await,
            _ => Value::Null,
        };
        (run, json)
    });
    Some((harness, run, json))
}

#[test]
fn a_run_whose_leader_is_killed_comes_to_the_same_report_with_nothing_paid_twice() {
    let floor = close_floor();
    let (fresh, whole, expected) = runtime().block_on(unbroken(floor));
    assert_eq!(expected["gate"]["sequential"]["taken"], 4, "{}", expected["gate"]);
    let Some((harness, run, json)) = killed_in_a_round("ledger_killed", floor, |_, _| ()) else {
        return;
    };
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(json["gate"], expected["gate"]);
    assert_eq!(scores(&json), scores(&expected));
    for part in ["profile", "checks", "drift"] {
        assert_eq!(json[part], expected[part], "{part}");
    }
    let generated = harness.transform.generated.load(Ordering::SeqCst);
    assert_eq!(
        generated,
        fresh.transform.generated.load(Ordering::SeqCst),
        "no text is made twice"
    );
    let (counters, whole) = (run.counters.unwrap(), whole.counters.unwrap());
    // The new leader counts the texts that the dead leader generated.
    assert_eq!(counters.texts_generated, whole.texts_generated);
    assert_eq!(counters.generator_calls, whole.generator_calls);
    assert_eq!(counters.generator_tokens, whole.generator_tokens);
    assert_eq!(counters.texts_planned, whole.texts_planned);
}

#[test]
fn a_look_is_made_once_and_its_record_decides() {
    let floor = close_floor();
    // The recorded first look is used unchanged: its content is in the report.
    let marked = |pool: &AnyPool, runtime: &Runtime| {
        runtime.block_on(async {
            let row = sqlx::query("SELECT look FROM eval_run_looks WHERE number = 1")
                .fetch_one(pool)
                .await
                .unwrap();
            let mut look: Value = serde_json::from_str(row.get(0)).unwrap();
            let first = &mut look["report"]["encoders"][0]["rules"][0];
            assert_eq!(first["verdict"], "pass", "the first look decides the first rule");
            first["verdict"] = "fail".into();
            sqlx::query("UPDATE eval_run_looks SET look = $1 WHERE number = 1")
                .bind(look.to_string())
                .execute(pool)
                .await
                .unwrap();
        });
    };
    let Some((_harness, run, json)) = killed_in_a_round("ledger_look", floor, marked) else {
        return;
    };
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(json["gate"]["encoders"][0]["rules"][0]["verdict"], "fail");

    // A look at other scores does not replace it.
    let other = |pool: &AnyPool, runtime: &Runtime| {
        runtime.block_on(async {
            let row = sqlx::query("SELECT look FROM eval_run_looks WHERE number = 1")
                .fetch_one(pool)
                .await
                .unwrap();
            let mut look: Value = serde_json::from_str(row.get(0)).unwrap();
            look["inputs"] = "other".into();
            sqlx::query("UPDATE eval_run_looks SET look = $1 WHERE number = 1")
                .bind(look.to_string())
                .execute(pool)
                .await
                .unwrap();
        });
    };
    let (_harness, run, _) = killed_in_a_round("ledger_look_other", floor, other).unwrap();
    assert_eq!(run.state(), RunState::Failed);
    assert!(
        run.error.contains("look 1 of the gate is in the ledger already"),
        "{}",
        run.error
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_shuts_down_hands_its_runs_back_and_another_goes_on_at_once() {
    let Some(url) = empty_schema("ledger_handed").await else {
        return;
    };
    let harness = Harness::new();
    harness.transform.quota.stop_after(5);
    let (leaving, mut first) = replica(&harness, &url).await;
    let (_b, mut second) = replica(&harness, &url).await;
    let run = create(&mut first, spec(harness.suite(ONE), &["stub-a"])).await.unwrap();
    let watched = {
        let (mut client, id) = (first.clone(), run.id.clone());
        tokio::spawn(async move { watch(&mut client, &id, 0).await })
    };
    wait::until("it has begun", || {
        harness.transform.generated.load(Ordering::SeqCst) == 5
    })
    .await;
    leaving.runs().interrupt().await;
    harness.transform.quota.lift();
    let done = ended(&watch(&mut second, &run.id, 0).await);
    assert_eq!(done.state(), RunState::Succeeded, "{}", done.error);
    assert_eq!(
        harness.transform.generated.load(Ordering::SeqCst),
        DISTINCT,
        "no text is made twice"
    );
    // A watcher at the replica that left also receives the end, while its connection lives.
    let events = watched.await.unwrap();
    assert_eq!(ended(&events).state(), RunState::Succeeded);
    assert!(
        told(&events)
            .iter()
            .any(|(_, text)| text.contains("another replica continues this run"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_at_a_busy_replica_is_taken_by_an_idle_one() {
    let Some(url) = empty_schema("ledger_waits").await else {
        return;
    };
    let harness = Harness::new();
    *harness.transform.pause.lock() = Duration::from_secs(3600);
    let busy = ledger(&url).await;
    let (_a, mut first) = harness
        .open_with(shared(busy), |config| config.max_active_runs = 1)
        .await;
    let suites = ["seeds = [1]", "seeds = [2]"].map(|seeds| format!("{seeds}\ntransformations = [\"paraphrase\"]"));
    let blocking = create(&mut first, spec(harness.suite(&suites[0]), &["stub-a"]))
        .await
        .unwrap();
    until(&mut first, &blocking.id, "it runs", |run| {
        run.state() == RunState::Running
    })
    .await;
    let waits = create(&mut first, spec(harness.suite(&suites[1]), &["stub-b"]))
        .await
        .unwrap();
    assert_eq!(get(&mut first, &waits.id).await.state(), RunState::Pending);
    let (_b, mut second) = replica(&harness, &url).await;
    until(&mut first, &waits.id, "the idle replica runs it", |run| {
        run.state() == RunState::Running
    })
    .await;
    assert_eq!(
        get(&mut first, &blocking.id).await.state(),
        RunState::Running,
        "a run that works stays"
    );
    for run in [&blocking, &waits] {
        let request = CancelRunRequest {
            id: run.id.clone(),
            ..CancelRunRequest::default()
        };
        second.cancel_run(request).await.unwrap();
    }
}

#[test]
fn the_only_replica_of_a_sqlite_ledger_continues_its_runs_after_a_restart() {
    let harness = Harness::new();
    harness.transform.quota.stop_after(5);
    let url = harness.home.path().join("runs.sqlite").display().to_string();
    let first = runtime();
    let id = first.block_on(async {
        let (service, mut client) = replica(&harness, &url).await;
        let run = create(&mut client, spec(harness.suite(ONE), &["stub-a"]))
            .await
            .unwrap();
        wait::until("it has begun", || {
            harness.transform.generated.load(Ordering::SeqCst) == 5
        })
        .await;
        cut_off(&format!("sqlite://{url}")).await;
        drop(service);
        run.id
    });
    first.shutdown_timeout(Duration::from_millis(50));
    harness.transform.quota.lift();
    runtime().block_on(async {
        let (_service, mut client) = replica(&harness, &url).await;
        let run = ended(&watch(&mut client, &id, 0).await);
        assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
        assert_eq!(harness.transform.generated.load(Ordering::SeqCst), DISTINCT);
        assert_eq!(run.counters.unwrap().texts_generated, DISTINCT);
    });
}
