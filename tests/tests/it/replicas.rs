//! Two `isomer serve` that share a PostgreSQL ledger of runs: the leader of a run is killed, and
//! the other completes the run with the same report as an uninterrupted one.

use std::{fs, path::Path, time::Duration};

use futures::StreamExt;
use isomer_proto::eval::v1::{
    CreateRunRequest, GetReportRequest, GetRunRequest, ReportFormat, Run, RunSpec, RunState, SuiteRef, WatchRunRequest,
    run_service_client::RunServiceClient, suite_ref, watch_run_response::Event,
};
use isomer_stubs::{
    openai::{Answer, Stub},
    postgres::empty_schema,
};
use isomer_tests::{home::Home, process::Server};
use serde_json::Value;
use tonic::transport::Channel;

const MODEL: &str = "all-MiniLM-L6-v2";
/// Distinct texts of the suite.
const TEXTS: usize = 60;
/// Time that the generator takes per text.
const PAUSE: Duration = Duration::from_millis(150);

/// A server with its own empty caches and the shared ledger and store.
fn replica(ledger: &str, shared: &Path) -> Option<(Home, Server)> {
    let home = Home::with_models(&[MODEL])?;
    let config = home.path().join("isomer.toml");
    let text = format!(
        "[eval]\ndata_roots = [{shared:?}]\n\n[eval.ledger]\nurl = {ledger:?}\nlease_seconds = 3\n\n\
         [store]\nurl = {:?}\n\n[transform]\nallow_specs = true\n\n[addresses]\nallow = [\"127.0.0.1\"]\n",
        shared.join("store")
    );
    fs::write(&config, text).unwrap();
    let server = Server::start(&home, &["--config", config.to_str().unwrap()]);
    Some((home, server))
}

async fn client(server: &Server) -> RunServiceClient<Channel> {
    let client = RunServiceClient::connect(format!("http://{}", server.address))
        .await
        .unwrap();
    client.max_decoding_message_size(64 << 20)
}

fn spec(folder: &Path, stub: &Stub) -> RunSpec {
    let rows: String = (0..TEXTS / 2)
        .map(|i| {
            format!(
                "{{\"sentence1\": \"The old heron number {i} did not sleep beside the wooden fence.\", \
                 \"sentence2\": \"Beside the harbour a young goose was resting near gate {i} all day.\", \"score\": {}}}\n",
                (i * 7 % 11) as f64 / 2.0
            )
        })
        .collect();
    fs::write(folder.join("pairs.jsonl"), rows).unwrap();
    let suite = "name = \"replicas\"\nseeds = [1337]\ntransformations = [\"paraphrase\"]\n\n[gate]\nmax_at_chance = 1.0\n\n[[gate.rule]]\nmax_drop = 200.0\n\n\
                 [[dataset]]\ntask = \"sts\"\npath = \"pairs.jsonl\"\n";
    RunSpec {
        suite: Some(SuiteRef {
            source: Some(suite_ref::Source::Toml(suite.to_owned())),
            base_dir: folder.display().to_string(),
            file_name: "replicas.toml".to_owned(),
        }),
        encoder_ids: vec![MODEL.to_owned()],
        generator_id: format!("openai:stub@{}", stub.url()),
        ..RunSpec::default()
    }
}

async fn create(client: &mut RunServiceClient<Channel>, spec: RunSpec) -> String {
    let request = CreateRunRequest {
        spec: Some(spec),
        ..CreateRunRequest::default()
    };
    client.create_run(request).await.unwrap().into_inner().run.unwrap().id
}

async fn ended(client: &mut RunServiceClient<Channel>, id: &str) -> Run {
    let request = WatchRunRequest {
        id: id.to_owned(),
        after_sequence: 0,
    };
    let events = client.watch_run(request).await.unwrap().into_inner();
    let events = tokio::time::timeout(Duration::from_secs(120), events.collect::<Vec<_>>()).await;
    let last = events.expect("the run ends").pop().expect("events").unwrap();
    match last.event.unwrap() {
        Event::Ended(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn report(client: &mut RunServiceClient<Channel>, id: &str) -> Value {
    let request = GetReportRequest {
        id: id.to_owned(),
        format: ReportFormat::Json.into(),
    };
    let answer = client.get_report(request).await.unwrap().into_inner();
    serde_json::from_slice(&answer.content).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_killed_leaves_its_run_to_the_other_and_the_report_is_the_same() {
    let (Some(whole), Some(shared)) = (
        empty_schema("replicas_whole").await,
        empty_schema("replicas_shared").await,
    ) else {
        return;
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stub = Stub::start(Answer::Slow(PAUSE, Box::new(Answer::Good))).await;

    let Some((_home, alone)) = replica(&whole, folders[0].path()) else {
        return;
    };
    let mut unbroken = client(&alone).await;
    let id = create(&mut unbroken, spec(folders[0].path(), &stub)).await;
    let expected = ended(&mut unbroken, &id).await;
    assert_eq!(expected.state(), RunState::Succeeded, "{}", expected.error);
    let expected_report = report(&mut unbroken, &id).await;
    let least = stub.calls();

    let (_first_home, mut first) = replica(&shared, folders[1].path()).unwrap();
    let (_second_home, second) = replica(&shared, folders[1].path()).unwrap();
    let (mut leader, mut other) = (client(&first).await, client(&second).await);
    let id = create(&mut leader, spec(folders[1].path(), &stub)).await;
    stub.wait_for_calls(least + TEXTS / 3).await;
    first.kill();
    // A call in flight, or answered and not yet stored, uses one of the permits.
    let permits = stub.most_in_flight();
    let found = other
        .get_run(GetRunRequest { id: id.clone() })
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(found.state(), RunState::Running, "the other replica knows the run");
    let run = ended(&mut other, &id).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);

    let json = report(&mut other, &id).await;
    for part in ["scores", "profile", "gate", "checks", "drift", "generators"] {
        assert_eq!(json[part], expected_report[part], "{part}");
    }
    let again = stub.calls() - least - least;
    println!("{again} of {least} calls were made again, {permits} at most in flight");
    assert!(
        again <= permits,
        "only calls in flight are made again: {again} of {permits}"
    );
    assert!(
        permits < TEXTS / 3,
        "some calls had ended before the kill: {permits} in flight"
    );
    let (counted, whole) = (run.counters.unwrap(), expected.counters.unwrap());
    // The other replica counts the texts that the killed one generated.
    assert_eq!(counted.texts_generated, whole.texts_generated);
    assert_eq!(counted.generator_calls, whole.generator_calls);
}
