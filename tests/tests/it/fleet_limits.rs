//! Limits of a generator that hold over several processes, with a real NATS server and a stub that
//! counts. Each process is a transform service in its own runtime.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{
    Address, Dispatcher, Executor, FleetConfig, Kind as WorkKind, Lane, Queue, Unit, UnitOutput,
    limits::{Limit, Limits},
    worker,
};
use isomer_models::{ModelsConfig, Resolver};
use isomer_outbound::shared_limits::{PAUSED, SharedLimit, Terms};
use isomer_proto::transform::v1::{
    Paraphrase, TextItem, TransformRequest, TransformResponse, TransformSpec,
    transform_service_client::TransformServiceClient, transformation::Kind,
};
use isomer_retention::Holds;
use isomer_service_kit::{
    Fault, GrpcChannel,
    priority::{Priority, Urgency},
};
use isomer_stubs::{
    openai::{Answer, Stub},
    rpc::channel,
    wait::{found, until},
};
use isomer_tests::fleet::Nats;
use isomer_transform::{
    GeneratorConfig, TransformConfig, TransformService,
    config::{FleetBudgetConfig, FleetLimitsConfig},
    services,
};
use parking_lot::Mutex;

/// Seconds of a lease that a living process keeps on a busy machine. A new queue grants no calls
/// for this time.
const LONG: u64 = 6;
/// Seconds of a lease that soon ends without its process or its broker.
const SHORT: u64 = 2;

fn fleet(nats: &Nats, lease_seconds: u64) -> FleetConfig {
    FleetConfig {
        engine: nats.url(),
        lease_seconds,
        republish_seconds: 3,
        worker_wait_seconds: 30,
        ..FleetConfig::default()
    }
}

/// A simulated process: its runtime ends abruptly when it is dropped.
struct Process {
    client: TransformServiceClient<GrpcChannel>,
    runtime: Option<tokio::runtime::Runtime>,
    _home: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Process {
    async fn start(nats: &Nats, stub: &Stub, generator: impl FnOnce(&mut GeneratorConfig)) -> Self {
        Self::start_in(fleet(nats, LONG), stub, generator).await
    }

    async fn start_in(fleet: FleetConfig, stub: &Stub, generator: impl FnOnce(&mut GeneratorConfig)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut config = GeneratorConfig {
            model: "stub-model".into(),
            url: Some(stub.url()),
            retry_delay_seconds: 0.01,
            ..Default::default()
        };
        generator(&mut config);
        let config = TransformConfig {
            generators: [("stub".to_owned(), config)].into(),
            default_generator: "stub".into(),
            cache_dir: Some(home.path().join("cache")),
            ..Default::default()
        };
        let models = ModelsConfig {
            home: home.path().to_owned(),
            offline: true,
            ..ModelsConfig::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let starting = runtime.spawn(async move {
            let queue = Queue::connect(&fleet).await.unwrap();
            let limits = Limits::connect(&queue).await.unwrap();
            let resolver = Resolver::new(models).unwrap();
            let service = TransformService::with_shared(config, resolver, None, Some(Arc::new(limits))).unwrap();
            TransformServiceClient::new(channel(services(service)).await)
        });
        Self {
            client: starting.await.unwrap(),
            runtime: Some(runtime),
            _home: home,
        }
    }

    /// Transforms texts that are unique to this name.
    fn transform(&self, name: &str, count: usize) -> tokio::task::JoinHandle<Result<TransformResponse, Fault>> {
        let mut client = self.client.clone();
        let items = (0..count).map(|n| TextItem {
            id: format!("{name}-{n}"),
            text: format!("This is text number {n} of the {name} process in the whole fleet."),
            language: Some("en".into()),
        });
        let request = TransformRequest {
            spec: Some(TransformSpec {
                transformation: Some(Kind::Paraphrase(Paraphrase {}).into()),
                ..Default::default()
            }),
            items: items.collect(),
            ..Default::default()
        };
        self.runtime.as_ref().unwrap().spawn(async move {
            let answer = client
                .transform(request)
                .await
                .map_err(|status| Fault::from_status(&status));
            answer.map(tonic::Response::into_inner)
        })
    }
}

fn slow(milliseconds: u64) -> Answer {
    Answer::Slow(Duration::from_millis(milliseconds), Box::new(Answer::Good))
}

fn together(concurrency: usize) -> impl Fn(&mut GeneratorConfig) {
    move |config| config.fleet.concurrency = concurrency
}

fn ok(answer: Result<TransformResponse, Fault>) -> u64 {
    answer.unwrap().summary.unwrap().ok
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_of_three_processes_reach_the_limit_and_never_pass_it() {
    // The last limit exceeds the load: then the processes are as fast as without one.
    let nats = Nats::start();
    for (limit, most) in [(2, 2), (7, 7), (500, 48)] {
        let stub = Stub::start(Answer::Held(Box::new(slow(30)))).await;
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(Process::start(&nats, &stub, together(limit)).await);
        }
        let texts = if limit == 500 { 64 } else { 20 };
        let working: Vec<_> = ["first", "second", "third"]
            .into_iter()
            .zip(&processes)
            .map(|(name, process)| process.transform(name, texts))
            .collect();
        until("as many calls as allowed are in flight", || stub.in_flight() == most).await;
        stub.release();
        for working in working {
            assert_eq!(ok(working.await.unwrap()), texts as u64);
        }
        assert_eq!(
            (stub.calls(), stub.most_in_flight()),
            (3 * texts, most),
            "limit {limit}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_gives_its_calls_to_the_others() {
    let (nats, stub) = (Nats::start(), Stub::start(Answer::Hang).await);
    let start = || Process::start_in(fleet(&nats, SHORT), &stub, together(3));
    let (dies, lives) = (start().await, start().await);
    let _hanging = dies.transform("dying", 8);
    stub.wait_for_calls(3).await;
    stub.mark("living", [slow(10)]);
    let living = lives.transform("living", 6);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stub.calls(), 3, "the other has them all in flight");
    drop(dies);
    assert_eq!(ok(living.await.unwrap()), 6);
    assert_eq!((stub.calls(), stub.most_in_flight()), (9, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_broker_nothing_is_called_and_afterwards_all_of_it_is() {
    let (mut nats, stub) = (Nats::start(), Stub::start(slow(150)).await);
    let start = || Process::start_in(fleet(&nats, SHORT), &stub, together(2));
    let (first, second) = (start().await, start().await);
    let working = [first.transform("first", 30), second.transform("second", 30)];
    stub.wait_for_calls(8).await;
    nats.kill();
    // Until their leases expire they may continue.
    tokio::time::sleep(Duration::from_secs(SHORT)).await;
    let calls = found("calls end with their leases", async || {
        let calls = stub.calls();
        tokio::time::sleep(Duration::from_millis(500)).await;
        (stub.in_flight() == 0 && stub.calls() == calls).then_some(calls)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stub.calls(), calls, "calls without the broker");
    assert!(calls < 60, "it was not away long enough");
    // The server restarts with an empty state.
    nats.start_again(true);
    for working in working {
        assert_eq!(ok(working.await.unwrap()), 30);
    }
    assert_eq!(stub.most_in_flight(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_two_processes_come_at_one_rate() {
    let (nats, stub) = (Nats::start(), Stub::start(Answer::Good).await);
    let rate = |config: &mut GeneratorConfig| config.fleet.requests_per_second = 5.0;
    let (first, second) = (
        Process::start(&nats, &stub, rate).await,
        Process::start(&nats, &stub, rate).await,
    );
    let began = Instant::now();
    let working = [first.transform("first", 8), second.transform("second", 8)];
    for working in working {
        assert_eq!(ok(working.await.unwrap()), 8);
    }
    let last = stub.seen().iter().map(|seen| seen.at).max().unwrap();
    // Five calls are made immediately, the other eleven at the rate.
    let took = last - began;
    assert!(took >= Duration::from_millis(2100), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_holds_over_two_processes() {
    let (nats, stub) = (Nats::start(), Stub::start(Answer::Good).await);
    let budget = |requests| {
        move |config: &mut GeneratorConfig| {
            config.fleet = FleetLimitsConfig {
                budget: FleetBudgetConfig {
                    requests: Some(requests),
                    ..Default::default()
                },
                ..Default::default()
            };
        }
    };
    let (first, second) = (
        Process::start(&nats, &stub, budget(10)).await,
        Process::start(&nats, &stub, budget(10)).await,
    );
    let working = [first.transform("first", 8), second.transform("second", 8)];
    let mut done = 0;
    for working in working {
        let answer = working.await.unwrap().unwrap();
        done += answer.summary.unwrap().ok;
        for failed in answer.results.iter().filter(|result| !result.error.is_empty()) {
            assert!(failed.error.contains("fleet.budget.requests"), "{}", failed.error);
            assert!(failed.error.contains("10 of 10 requests"), "{}", failed.error);
        }
    }
    assert_eq!((done, stub.calls()), (10, 10));
    // With a larger budget the rest is completed: the amount spent is remembered.
    let third = Process::start(&nats, &stub, budget(12)).await;
    assert_eq!(ok(third.transform("third", 8).await.unwrap()), 2);
    assert_eq!(stub.calls(), 12);
}

/// A file with all that this process logs from now on.
fn log() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || File::options().append(true).open(&path).unwrap())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("each test has a process");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_pause_is_called_by_nobody_before_and_nothing_fails() {
    const PAUSE: Duration = Duration::from_secs(3);
    let (log, nats) = (log(), Nats::start());
    let (paused, other) = (Stub::start(slow(30)).await, Stub::start(slow(30)).await);
    let few = |config: &mut GeneratorConfig| config.concurrency = 2;
    let (first, second) = (
        Process::start(&nats, &paused, few).await,
        Process::start(&nats, &paused, few).await,
    );
    let beside = Process::start(&nats, &other, few).await;
    // Both have called, so both know the limit.
    for (name, process) in [("one", &first), ("two", &second)] {
        assert_eq!(ok(process.transform(name, 1).await.unwrap()), 1);
    }
    let asked = Instant::now();
    paused.script([Answer::Status(429, Some(PAUSE.as_secs().to_string()))]);
    let working = [first.transform("first", 40), second.transform("second", 40)];
    let going_on = beside.transform("beside", 200);
    until("the other process knows of the pause", || {
        let log = fs::read_to_string(log.path()).unwrap();
        log.contains("has asked another process for a pause")
    })
    .await;
    let known = Instant::now();
    for working in working {
        assert_eq!(ok(working.await.unwrap()), 40);
    }
    assert_eq!(paused.calls(), 83, "one call was refused, and made again");
    let in_the_pause = |stub: &Stub, from| {
        let seen = stub.seen();
        seen.iter()
            .filter(|seen| from < seen.at && seen.at < asked + PAUSE)
            .count()
    };
    assert_eq!(in_the_pause(&paused, known), 0);
    // The other server was called in the meantime.
    assert_eq!(ok(going_on.await.unwrap()), 200);
    assert!(in_the_pause(&other, asked) > 0);
}

/// A worker whose units call a server within a limit.
struct LimitedExecutor {
    asks: Limit,
    goes_on: Limit,
    /// Start times of units in the paused lane.
    begun: Arc<Mutex<Vec<Instant>>>,
}

impl Executor for LimitedExecutor {
    fn class(&self) -> &str {
        "x"
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: WorkKind,
        request: bytes::Bytes,
        _dispatch: Option<uuid::Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        async move {
            let text = String::from_utf8(request.to_vec()).unwrap();
            let (lane, _) = text.split_once(' ').unwrap();
            let limit = if lane == "asks" { &self.asks } else { &self.goes_on };
            if lane == "asks" {
                let mut begun = self.begun.lock();
                begun.push(Instant::now());
                if text.ends_with("pause") && begun.len() == 2 {
                    limit.pause(PAUSE, "429");
                }
            }
            let turn = limit.turn(1, &Urgency::new(Priority::Batch), Duration::ZERO).await;
            turn.map_err(|refused| Fault::unavailable(PAUSED, format!("{refused:?}")))?;
            Ok(UnitOutput {
                answer: request,
                cacheable: true,
            })
        }
        .boxed()
    }
}

/// Longer than the time for which a dispatcher leaves a lane closed.
const PAUSE: Duration = Duration::from_secs(5);

fn key(lane: &str) -> String {
    let digits = if lane == "asks" { "a" } else { "b" };
    digits.repeat(64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_lane_delivers_nothing_and_the_others_go_on() {
    let (nats, store) = (Nats::start(), tempfile::tempdir().unwrap());
    let config = fleet(&nats, LONG);
    let blobs = BlobStore::open(&StoreConfig {
        url: store.path().display().to_string(),
        ..StoreConfig::default()
    })
    .unwrap()
    .unwrap();
    let begun = Arc::<Mutex<Vec<Instant>>>::default();
    for _ in 0..2 {
        let queue = Queue::connect(&config).await.unwrap();
        let limits = Limits::connect(&queue).await.unwrap();
        let executor = Arc::new(LimitedExecutor {
            asks: limits.open(&key("asks"), "asks", Terms::default()),
            goes_on: limits.open(&key("goes-on"), "goes-on", Terms::default()),
            begun: Arc::clone(&begun),
        });
        let kinds = BTreeMap::from([(WorkKind::Transform, 2)]);
        let working = worker::work(
            worker::UnitSource {
                queue,
                blobs: blobs.clone(),
            },
            executor,
            kinds,
            std::future::pending(),
            Duration::ZERO,
        );
        tokio::spawn(async move {
            let _open = limits;
            working.await
        });
    }
    let queue = Queue::connect(&config).await.unwrap();
    let dispatcher = Dispatcher::open(queue.clone(), Holds::new(blobs)).await.unwrap();
    let ask = |lane: &'static str, what: &str| {
        let lane = Lane {
            kind: WorkKind::Transform,
            of: lane.to_owned(),
            class: String::new(),
            max_in_flight: 0,
            limit: key(lane),
        };
        let request = format!("{} {what}", lane.of);
        let (dispatcher, unit) = (dispatcher.clone(), Unit::new(lane, &[], request.into()));
        tokio::spawn(async move { dispatcher.request(unit).await })
    };
    // Both lanes are known to the workers.
    ask("asks", "first").await.unwrap().unwrap();
    ask("goes-on", "first").await.unwrap().unwrap();
    let pausing = ask("asks", "for a pause");
    found("the lane is paused", async || {
        let overview = queue.overview().await.unwrap();
        let mut lanes = overview.lanes.iter();
        let asks = lanes.find(|state| state.lane.of == "asks").unwrap();
        asks.paused_until
    })
    .await;
    let paused = begun.lock()[1];
    let waiting: Vec<_> = (0..10).map(|n| ask("asks", &n.to_string())).collect();
    // In the meantime dispatchers reopen the lane, which must not end the pause.
    let mut others = 0;
    while paused.elapsed() < PAUSE - Duration::from_millis(500) || others == 0 {
        ask("goes-on", &others.to_string()).await.unwrap().unwrap();
        others += 1;
    }
    assert!(others > 3, "units of other lanes go on: {others}");
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    // The unit that requested the pause was handed back and completed afterwards.
    pausing.await.unwrap().unwrap();
    let begun = begun.lock();
    assert_eq!(begun.len(), 13);
    let next = begun[2] - begun[1];
    // The clock of the broker is read over the network.
    assert!(
        next > PAUSE - Duration::from_millis(500),
        "a unit was begun after {next:?}"
    );
}
