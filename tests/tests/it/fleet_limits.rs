//! Limits of a generator that hold over several processes, with a real NATS server and a stub that
//! counts. Each process is a transform service in its own runtime.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{
    Address, Dispatcher, Executed, Executor, FleetConfig, Kind as WorkKind, Lane, Queue, Unit,
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
};
use isomer_tests::fleet::Nats;
use isomer_transform::{
    GeneratorConfig, TransformConfig, TransformService,
    config::{FleetBudgetConfig, FleetLimitsConfig},
    services,
};
use parking_lot::Mutex;

fn fleet(nats: &Nats) -> FleetConfig {
    FleetConfig {
        engine: nats.url(),
        lease_seconds: 2,
        republish_seconds: 1,
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
        let fleet = fleet(nats);
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
    for (limit, most) in [(2, 2), (7, 7), (500, 48)] {
        let (nats, stub) = (Nats::start(), Stub::start(slow(100)).await);
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(Process::start(&nats, &stub, together(limit)).await);
        }
        let began = Instant::now();
        let texts = if limit == 500 { 64 } else { 20 };
        let working: Vec<_> = ["first", "second", "third"]
            .into_iter()
            .zip(&processes)
            .map(|(name, process)| process.transform(name, texts))
            .collect();
        for working in working {
            assert_eq!(ok(working.await.unwrap()), texts as u64);
        }
        assert_eq!(
            (stub.calls(), stub.most_in_flight()),
            (3 * texts, most),
            "limit {limit}"
        );
        println!("limit {limit}: {} calls in {:?}", stub.calls(), began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_gives_its_calls_to_the_others() {
    let (nats, stub) = (Nats::start(), Stub::start(Answer::Hang).await);
    let (dies, lives) = (
        Process::start(&nats, &stub, together(3)).await,
        Process::start(&nats, &stub, together(3)).await,
    );
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
    let (first, second) = (
        Process::start(&nats, &stub, together(2)).await,
        Process::start(&nats, &stub, together(2)).await,
    );
    let working = [first.transform("first", 30), second.transform("second", 30)];
    stub.wait_for_calls(8).await;
    nats.kill();
    // Until their leases expire they may continue.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    stub.wait_until_idle().await;
    let calls = stub.calls();
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
    let working = [first.transform("first", 8), second.transform("second", 8)];
    for working in working {
        assert_eq!(ok(working.await.unwrap()), 8);
    }
    let seen = stub.seen();
    let first = seen.iter().map(|seen| seen.at).min().unwrap();
    let last = seen.iter().map(|seen| seen.at).max().unwrap();
    // Five calls are made immediately, the other eleven at the rate.
    let took = last - first;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_a_pause_is_called_by_nobody_before_and_nothing_fails() {
    let nats = Nats::start();
    let (paused, other) = (Stub::start(slow(30)).await, Stub::start(slow(30)).await);
    let few = |config: &mut GeneratorConfig| config.concurrency = 2;
    let (first, second) = (
        Process::start(&nats, &paused, few).await,
        Process::start(&nats, &paused, few).await,
    );
    let beside = Process::start(&nats, &other, few).await;
    let working = [first.transform("first", 40), second.transform("second", 40)];
    paused.wait_for_calls(20).await;
    paused.script([Answer::Status(429, Some("2".to_owned()))]);
    let going_on = beside.transform("beside", 150);
    for working in working {
        assert_eq!(ok(working.await.unwrap()), 40);
    }
    assert_eq!(paused.calls(), 81, "one call was refused, and made again");
    let mut times: Vec<Instant> = paused.seen().iter().map(|seen| seen.at).collect();
    times.sort();
    let (gap, from) = times.windows(2).map(|pair| (pair[1] - pair[0], pair[0])).max().unwrap();
    // The last calls before the pause started while its announcement was being delivered.
    assert!(gap >= Duration::from_millis(1800), "{gap:?}");
    assert!(gap < Duration::from_secs(4), "{gap:?}");
    // The other server was called in the meantime.
    assert_eq!(ok(going_on.await.unwrap()), 150);
    let meanwhile = other
        .seen()
        .iter()
        .filter(|seen| seen.at > from && seen.at < from + gap)
        .count();
    assert!(meanwhile > 10, "{meanwhile}");
}

/// A worker whose units call a server within a limit.
struct Calling {
    asks: Limit,
    goes_on: Limit,
    /// Start times of units in the paused lane.
    begun: Arc<Mutex<Vec<Instant>>>,
}

impl Executor for Calling {
    fn class(&self) -> &str {
        "x"
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: WorkKind,
        request: bytes::Bytes,
        _dispatch: Option<uuid::Uuid>,
    ) -> BoxFuture<'_, Result<Executed, Fault>> {
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
            Ok(Executed {
                answer: request,
                cacheable: true,
            })
        }
        .boxed()
    }
}

/// Longer than the time for which a dispatcher leaves a lane closed.
const PAUSE: Duration = Duration::from_secs(4);

fn key(lane: &str) -> String {
    let digits = if lane == "asks" { "a" } else { "b" };
    digits.repeat(64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_lane_delivers_nothing_and_the_others_go_on() {
    let (nats, store) = (Nats::start(), tempfile::tempdir().unwrap());
    let config = fleet(&nats);
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
        let executor = Arc::new(Calling {
            asks: limits.open(&key("asks"), "asks", Terms::default()),
            goes_on: limits.open(&key("goes-on"), "goes-on", Terms::default()),
            begun: Arc::clone(&begun),
        });
        let kinds = BTreeMap::from([(WorkKind::Transform, 2)]);
        let working = worker::work(
            (queue, blobs.clone()),
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
    let dispatcher = Dispatcher::open(queue, Holds::new(blobs)).await.unwrap();
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
    while begun.lock().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let paused = Instant::now();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let waiting: Vec<_> = (0..10).map(|n| ask("asks", &n.to_string())).collect();
    // In the meantime dispatchers reopen the lane, which must not end the pause.
    let mut others = 0;
    while paused.elapsed() < PAUSE - Duration::from_millis(500) {
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
    assert!(
        next > PAUSE - Duration::from_millis(50),
        "a unit was begun after {next:?}"
    );
}
