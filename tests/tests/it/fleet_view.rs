//! The view of a fleet over a real NATS server: its workers, its lanes, and the reason why the next
//! unit of a run waits; on the command line and on the gateway's page.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{
    Address, Dispatcher, Executor, FleetConfig, Kind, Lane, Overview, Queue, Unit, UnitOutput, Wait, limits::Limits,
    worker,
};
use isomer_outbound::shared_limits::{SharedLimit, Terms};
use isomer_proto::eval::v1::{
    CreateRunRequest, FleetWaitReason, GetFleetRequest, GetFleetResponse, GetRunRequest, RunSpec, RunState, SuiteRef,
    run_service_client::RunServiceClient, suite_ref,
};
use isomer_retention::{Holder, Holds};
use isomer_service_kit::Fault;
use isomer_stubs::{promise::promised, wait::found};
use isomer_tests::{
    fleet::{Nats, Worker},
    home::Home,
    process::{Server, finish, isomer},
};
use serde_json::Value;
use tonic::transport::Channel;

const MODEL: &str = "paraphrase-MiniLM-L3-v2";
/// The limit of the lane that hangs.
const KEY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Answers requests of the active lane; others hang.
struct HangingExecutor(&'static str);

impl Executor for HangingExecutor {
    fn class(&self) -> &str {
        self.0
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: Kind,
        request: bytes::Bytes,
        _dispatch: Option<uuid::Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        if request.starts_with(b"hangs") {
            return std::future::pending().boxed();
        }
        let answer = UnitOutput {
            answer: request,
            cacheable: true,
        };
        std::future::ready(Ok(answer)).boxed()
    }
}

fn lane(of: &str, class: &str) -> Lane {
    Lane {
        kind: Kind::Encode,
        of: of.to_owned(),
        class: class.to_owned(),
        max_in_flight: 0,
        limit: if of == "hangs" { KEY.to_owned() } else { String::new() },
    }
}

/// Polls the fleet until it is in the expected state.
async fn seen<T>(queue: &Queue, what: &str, find: impl Fn(&Overview) -> Option<T>) -> T {
    found(what, async || find(&queue.overview().await.unwrap())).await
}

fn waits(overview: &Overview) -> Option<&Wait> {
    overview.runs.first().map(|run| &run.why)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_what_its_next_unit_waits_for() {
    let (nats, store) = (Nats::start(), tempfile::tempdir().unwrap());
    let config = FleetConfig {
        engine: nats.url(),
        lease_seconds: 5,
        republish_seconds: 1,
        worker_wait_seconds: 600,
        // A paused machine loses leases.
        attempts: 1000,
        ..FleetConfig::default()
    };
    let blobs = BlobStore::open(&StoreConfig {
        url: store.path().display().to_string(),
        ..StoreConfig::default()
    })
    .unwrap()
    .unwrap();
    let start_worker = async |class: &'static str| {
        let (queue, blobs) = (Queue::connect(&config).await.unwrap(), blobs.clone());
        let kinds = BTreeMap::from([(Kind::Encode, 2)]);
        let never = std::future::pending();
        let working = worker::work(
            worker::UnitSource { queue, blobs },
            Arc::new(HangingExecutor(class)),
            kinds,
            never,
            Duration::ZERO,
        );
        tokio::spawn(working);
    };
    let queue = Queue::connect(&config).await.unwrap();
    let dispatcher = Dispatcher::open(queue.clone(), Holds::new(blobs.clone()))
        .await
        .unwrap();
    let run = dispatcher.for_holder(&Holder::run("run-1").unwrap());
    let ask = |dispatcher: &Dispatcher, lane: Lane, request: String| {
        let (dispatcher, unit) = (dispatcher.clone(), Unit::new(lane, &[], request.into()));
        tokio::spawn(async move { dispatcher.request(unit).await })
    };

    let asked: Vec<_> = (0..3)
        .map(|n| ask(&run, lane("hangs", "x"), format!("hangs {n}")))
        .collect();
    seen(&queue, "nobody takes the kind", |fleet| {
        (waits(fleet) == Some(&Wait::NoWorker)).then_some(())
    })
    .await;
    start_worker("y").await;
    seen(&queue, "only another class takes it", |fleet| {
        (waits(fleet)? == &Wait::OtherClass(vec!["y".to_owned()])).then_some(())
    })
    .await;

    // Requests of other runs, or of no run, are not among the waits of this run.
    ask(&dispatcher, lane("goes-on", ""), "one".to_owned())
        .await
        .unwrap()
        .unwrap();
    let (workers, rate) = seen(&queue, "a lane tells its rate", |fleet| {
        let lane = fleet.lanes.iter().find(|state| state.lane.of == "goes-on")?;
        (lane.finished_per_second > 0.0).then_some((lane.workers, lane.finished_per_second))
    })
    .await;
    assert!(workers == 1 && rate <= 1.0, "{workers} {rate}");

    start_worker("x").await;
    let (run_waits, lane_state) = seen(&queue, "two units of three are in work", |fleet| {
        (waits(fleet)? == &Wait::Busy(2)).then_some(())?;
        Some((
            fleet.runs[0].clone(),
            fleet.lanes.iter().find(|state| state.lane.of == "hangs")?.clone(),
        ))
    })
    .await;
    assert_eq!((run_waits.run.as_str(), run_waits.waits.units), ("run-1", 3));
    assert_eq!((lane_state.queued, lane_state.in_work, lane_state.workers), (1, 2, 1));
    let fleet = queue.overview().await.unwrap();
    assert_eq!((fleet.workers.len(), fleet.runs.len()), (2, 1));
    let worker = fleet.workers.iter().find(|worker| worker.info.class == "x").unwrap();
    assert_eq!((worker.info.lanes.len(), worker.info.lanes[0].units), (1, 2));
    assert!(worker.since <= worker.reported, "{worker:?}");

    // All calls that the lane's limit allows are in flight.
    let limits = Limits::connect(&Queue::connect(&config).await.unwrap()).await.unwrap();
    let terms = Terms {
        concurrency: 1,
        ..Terms::default()
    };
    let limit = limits.open(KEY, "hangs", terms);
    limit.report_waiting(2);
    seen(&queue, "its limit is reached", |fleet| {
        (waits(fleet)? == &Wait::Concurrency(1)).then_some(())
    })
    .await;

    // The generator asks for a pause, with a reason.
    limit.pause(Duration::from_secs(3600), "429 Too Many Requests");
    let (now, until, lane_until) = seen(&queue, "the lane is paused", |fleet| {
        let Wait::Paused { until, why } = waits(fleet)? else {
            return None;
        };
        (why == "429 Too Many Requests").then_some(())?;
        let lane = fleet.lanes.iter().find(|state| state.lane.of == "hangs")?;
        Some((fleet.now, *until, lane.paused_until?))
    })
    .await;
    for until in [until, lane_until] {
        assert!(until > now + 3_000_000 && until < now + 4_000_000, "{now} {until}");
    }

    // A run without requests waits for nothing.
    for asked in asked {
        asked.abort();
    }
    seen(&queue, "the run has left", |fleet| fleet.runs.is_empty().then_some(())).await;
}

/// A server whose runs go to workers.
fn server(home: &Home, nats: &Nats, shared: &Path) -> Server {
    let config = home.path().join("isomer.toml");
    let text = format!(
        "[eval]\ndata_roots = [{shared:?}]\n\n[fleet]\nengine = {:?}\nrepublish_seconds = 1\nworker_wait_seconds = 600\n\n[store]\nurl = {:?}\n",
        nats.url(),
        shared.join("store")
    );
    fs::write(&config, text).unwrap();
    Server::start(home, &["--config", config.to_str().unwrap()])
}

fn spec(folder: &Path) -> RunSpec {
    let rows: String = (0..12)
        .map(|i| {
            format!(
                "{{\"sentence1\": \"The old heron number {i} did not sleep beside the wooden fence.\", \
                 \"sentence2\": \"Beside the harbour a young goose was resting near gate {i} all day.\", \"score\": {}}}\n",
                (i * 7 % 11) as f64 / 2.0
            )
        })
        .collect();
    fs::write(folder.join("pairs.jsonl"), rows).unwrap();
    let suite = "name = \"view\"\nseeds = [1337]\ntransformations = [\"stopword_removal\"]\n\n\
                 [[dataset]]\ntask = \"sts\"\npath = \"pairs.jsonl\"\n";
    RunSpec {
        suite: Some(SuiteRef {
            source: Some(suite_ref::Source::Toml(suite.to_owned())),
            base_dir: folder.display().to_string(),
            file_name: "view.toml".to_owned(),
        }),
        encoder_ids: vec![MODEL.to_owned()],
        generator_id: "none".to_owned(),
        ..RunSpec::default()
    }
}

fn page(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Polls the server until the fleet is in the expected state.
async fn told(
    client: &mut RunServiceClient<Channel>,
    what: &str,
    holds: impl Fn(&GetFleetResponse) -> bool,
) -> GetFleetResponse {
    let look = async || {
        let fleet = client.get_fleet(GetFleetRequest {}).await.unwrap().into_inner();
        Some(fleet).filter(|fleet| holds(fleet))
    };
    found(what, look).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_its_page_and_the_command_line_show_what_a_run_waits_for_and_who_does_it() {
    let Some(home) = Home::with_models(&[MODEL]) else {
        return;
    };
    let (mut nats, shared) = (Nats::start(), tempfile::tempdir().unwrap());
    let server = server(&home, &nats, shared.path());
    let mut client = RunServiceClient::connect(format!("http://{}", server.address))
        .await
        .unwrap();
    let request = CreateRunRequest {
        spec: Some(spec(shared.path())),
        ..CreateRunRequest::default()
    };
    let id = client.create_run(request).await.unwrap().into_inner().run.unwrap().id;

    let fleet = told(&mut client, "the run waits for a worker", |fleet| {
        fleet
            .waits
            .iter()
            .any(|wait| wait.reason() == FleetWaitReason::NoWorker)
    })
    .await;
    assert!(fleet.has_workers && fleet.workers.is_empty(), "{fleet:?}");
    let wait = &fleet.waits[0];
    assert_eq!(
        (wait.run_id.as_str(), wait.kind.as_str(), wait.of.as_str()),
        (id.as_str(), "encode", MODEL)
    );
    let shown = page(server.address);
    for part in ["no worker takes", "Table of lanes", "isomer worker --lanes encode=1"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let address = server.address.to_string();
    let mut ask = isomer(&home);
    ask.args(["fleet", "--server", &address, "--format", "json"]);
    let (code, stdout, stderr) = finish(&mut ask);
    assert_eq!(code, 0, "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&document["waits"][0]["reason"], &document["waits"][0]["run"]),
        (&"no-worker".into(), &id.as_str().into())
    );

    let _worker = Worker::start(
        Home::with_models(&[MODEL]).unwrap(),
        &nats.url(),
        &shared.path().join("store"),
        &[],
    );
    let fleet = told(&mut client, "the worker has done the run's units", |fleet| {
        fleet.waits.is_empty() && fleet.lanes.iter().any(|lane| lane.finished_per_second > 0.0)
    })
    .await;
    assert_eq!((fleet.workers.len(), fleet.workers[0].max_units["encode"]), (1, 1));
    assert!(!fleet.workers[0].host.is_empty(), "without keys everybody sees all");
    assert!(page(server.address).contains(&fleet.workers[0].host));
    // The queue itself reports the same.
    let mut ask = isomer(&home);
    ask.args(["fleet", "--engine", &nats.url()]);
    let (code, stdout, stderr) = finish(&mut ask);
    assert!(code == 0 && stdout.contains(&fleet.workers[0].host), "{stdout}{stderr}");

    let succeeded = async || {
        let request = GetRunRequest { id: id.clone() };
        let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
        (run.state() == RunState::Succeeded).then_some(())
    };
    found("the run succeeds", succeeded).await;

    // The queue is gone: no fleet is reported, and the page gives the reason.
    nats.kill();
    let status = client.get_fleet(GetFleetRequest {}).await.unwrap_err();
    promised(
        "RunService.GetFleet UNAVAILABLE QUEUE_UNAVAILABLE",
        &Fault::from_status(&status),
    );
    let shown = page(server.address);
    assert!(!shown.contains("Table of lanes"), "{shown}");
    assert!(shown.contains("Table of runs"), "the rest is shown: {shown}");
}
