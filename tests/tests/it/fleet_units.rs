//! Units of work over a real NATS server, with workers in this process: each is executed once, paid
//! for once, and abandoned with its reason.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, TryStreamExt, future::BoxFuture};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{
    Address, Dispatcher, Executor, FleetConfig, Kind, Lane, Queue, Unit, UnitOutput,
    worker::{self, Summary},
};
use isomer_retention::{
    Holder, Holds,
    erasure::{Mode, Texts, erase},
};
use isomer_service_kit::Fault;
use isomer_stubs::wait::{found, until};
use isomer_tests::fleet::Nats;
use tokio::{
    runtime::Runtime,
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The action of a test's worker on a request, given the number of earlier executions.
type Act = Box<dyn Fn(&[u8], usize) -> BoxFuture<'static, Result<UnitOutput, Fault>> + Send + Sync>;

struct ScriptedExecutor {
    class: &'static str,
    begun: Arc<AtomicUsize>,
    act: Act,
}

impl Executor for ScriptedExecutor {
    fn class(&self) -> &str {
        self.class
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: Kind,
        request: bytes::Bytes,
        _dispatch: Option<uuid::Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        let before = self.begun.fetch_add(1, Ordering::SeqCst);
        (self.act)(&request, before)
    }
}

fn answer(text: impl Into<Vec<u8>>, cacheable: bool) -> Result<UnitOutput, Fault> {
    Ok(UnitOutput {
        answer: text.into().into(),
        cacheable,
    })
}

/// Returns the request reversed, after a pause.
fn reversed(request: &[u8], _before: usize) -> BoxFuture<'static, Result<UnitOutput, Fault>> {
    let text: Vec<u8> = request.iter().rev().copied().collect();
    async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer(text, true)
    }
    .boxed()
}

struct Scene {
    nats: Nats,
    store: tempfile::TempDir,
    /// The seconds of a unit's lease.
    lease: u64,
}

impl Scene {
    /// A worker that lives keeps its units, however busy the machine is.
    fn new() -> Self {
        Self {
            nats: Nats::start(),
            store: tempfile::tempdir().unwrap(),
            lease: 60,
        }
    }

    fn config(&self) -> FleetConfig {
        FleetConfig {
            engine: self.nats.url(),
            lease_seconds: self.lease,
            republish_seconds: 1,
            attempts: 2,
            worker_wait_seconds: 30,
            ..FleetConfig::default()
        }
    }

    async fn dispatcher(&self) -> Dispatcher {
        let queue = Queue::connect(&self.config()).await.unwrap();
        Dispatcher::open(queue, Holds::new(blobs(self.store.path())))
            .await
            .unwrap()
    }

    /// A worker in its own runtime.
    async fn worker(&self, class: &'static str, act: Act) -> (Arc<AtomicUsize>, Worker) {
        let begun = Arc::<AtomicUsize>::default();
        let performer = Arc::new(ScriptedExecutor {
            class,
            begun: Arc::clone(&begun),
            act,
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (config, blobs) = (self.config(), blobs(self.store.path()));
        let (ready, connected) = oneshot::channel();
        let (stop, stopping) = oneshot::channel();
        let working = runtime.spawn(async move {
            let queue = Queue::connect(&config).await.unwrap();
            ready.send(()).unwrap();
            let kinds = BTreeMap::from([(Kind::Transform, 2)]);
            let stopping = stopping.map(|_| ());
            worker::work(
                worker::UnitSource { queue, blobs },
                performer,
                kinds,
                stopping,
                Duration::ZERO,
            )
            .await
            .unwrap()
        });
        connected.await.unwrap();
        let worker = Worker {
            runtime: Some(runtime),
            stop: Some(stop),
            working,
        };
        (begun, worker)
    }
}

/// A worker that ends abruptly when it is dropped, like a killed process.
struct Worker {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    working: JoinHandle<Summary>,
}

impl Worker {
    /// Stops the worker, and waits for its end.
    async fn end(&mut self) -> Summary {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.working).await.unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

fn blobs(folder: &Path) -> BlobStore {
    let config = StoreConfig {
        url: folder.display().to_string(),
        ..StoreConfig::default()
    };
    BlobStore::open(&config).unwrap().unwrap()
}

fn unit(request: &str, class: &str) -> Unit {
    let lane = Lane {
        kind: Kind::Transform,
        of: "a generator".to_owned(),
        class: class.to_owned(),
        max_in_flight: 0,
        limit: String::new(),
    };
    Unit::new(lane, &["weights"], request.to_owned().into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_two_runs_want_at_once_is_done_once_and_paid_once() {
    let scene = Scene::new();
    let (begun, _worker) = scene.worker("x", Box::new(reversed)).await;
    let (one, other) = (scene.dispatcher().await, scene.dispatcher().await);
    let (first, second) = tokio::join!(one.request(unit("abc", "")), other.request(unit("abc", "")));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((&first.content[..], &second.content[..]), (&b"cba"[..], &b"cba"[..]));
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    assert!(first.counted != second.counted, "exactly one of them counts its use");
    // Later the answer exists, and no requester counts it.
    let third = other.request(unit("abc", "")).await.unwrap();
    assert!(third.counted && third.content == first.content);
    // Another request is another unit.
    assert_eq!(one.request(unit("abcd", "")).await.unwrap().content, &b"dcba"[..]);
    assert_eq!(begun.load(Ordering::SeqCst), 2);
}

/// Files of units that remain in the store.
async fn left(scene: &Scene) -> Vec<String> {
    let listed: Vec<_> = blobs(scene.store.path()).list("").try_collect().await.unwrap();
    listed.into_iter().map(|one| one.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_of_a_unit_that_is_asked_for_once_and_others_still_get_their_answer() {
    let scene = Scene::new();
    let (begun, _worker) = scene.worker("x", Box::new(reversed)).await;
    let (one, other) = (scene.dispatcher().await, scene.dispatcher().await);
    assert_eq!(one.request_once(unit("abc", "")).await.unwrap(), &b"cba"[..]);
    assert_eq!(left(&scene).await, Vec::<String>::new());
    // A repeated request is executed again.
    assert_eq!(one.request_once(unit("abc", "")).await.unwrap(), &b"cba"[..]);
    assert_eq!(begun.swap(0, Ordering::SeqCst), 2);
    // Many requesters want equal units at once, some of which are kept: the first removal does not
    // affect the others.
    let once = |dispatcher: &Dispatcher| {
        let dispatcher = dispatcher.clone();
        tokio::spawn(async move { dispatcher.request_once(unit("same", "")).await })
    };
    let asked: Vec<_> = (0..6).map(|n| once([&one, &other][n % 2])).collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap().unwrap(), &b"emas"[..]);
    }
    // The positive control: an answer that is kept is not removed, and neither is its request.
    one.request(unit("kept", "")).await.unwrap();
    let kept = left(&scene).await;
    assert!(kept.iter().any(|name| name.starts_with("units/")), "{kept:?}");
    assert!(kept.iter().any(|name| name.starts_with("answers/")), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_an_answer_with_failures_of_a_unit_that_is_asked_for_once() {
    let scene = Scene::new();
    let acts = |_: &[u8], before: usize| std::future::ready(answer(format!("answer {before}"), false)).boxed();
    let (_, _worker) = scene.worker("x", Box::new(acts)).await;
    let dispatcher = scene.dispatcher().await;
    assert_eq!(
        dispatcher.request_once(unit("parts", "")).await.unwrap(),
        &b"answer 1"[..]
    );
    assert_eq!(left(&scene).await, Vec::<String>::new());
    dispatcher.request(unit("parts", "")).await.unwrap();
    assert!(!left(&scene).await.is_empty(), "an answer that is not asked for once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_ends_every_worker_is_given_up_with_its_reason() {
    let scene = Scene {
        lease: 1,
        ..Scene::new()
    };
    let dispatcher = scene.dispatcher().await;
    let asked = tokio::spawn({
        let dispatcher = dispatcher.clone();
        async move { dispatcher.request(unit("poison", "")).await }
    });
    let mut begun = 0;
    while !asked.is_finished() {
        let hangs = |request: &[u8], before| match request {
            b"poison" => std::future::pending().boxed(),
            good => reversed(good, before),
        };
        let (times, worker) = scene.worker("x", Box::new(hangs)).await;
        until("it is begun, or given up", || {
            times.load(Ordering::SeqCst) > 0 || asked.is_finished()
        })
        .await;
        // The unit kills its worker; the next worker still executes the other units.
        drop(worker);
        begun += times.load(Ordering::SeqCst);
        assert!(begun <= 2, "it was begun more often than allowed");
    }
    let fault = asked.await.unwrap().unwrap_err();
    assert!(fault.message.contains("begun 2 times"), "{fault}");
    assert_eq!(begun, 2);
    let (_, _worker) = scene.worker("x", Box::new(reversed)).await;
    assert_eq!(
        dispatcher.request(unit("good", "")).await.unwrap().content,
        &b"doog"[..]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    let scene = Scene::new();
    let acts = |request: &[u8], before: usize| {
        let done = match request {
            b"away once" if before == 0 => Err(Fault::unavailable("AWAY", "the generator is away")),
            b"refused" => Err(Fault::invalid("spec", "is wrong")),
            b"panics" => panic!("a unit that panics"),
            _ => answer("done", true),
        };
        std::future::ready(done).boxed()
    };
    let (begun, _worker) = scene.worker("x", Box::new(acts)).await;
    let dispatcher = scene.dispatcher().await;
    assert_eq!(
        dispatcher.request(unit("away once", "")).await.unwrap().content,
        &b"done"[..]
    );
    assert_eq!(begun.swap(0, Ordering::SeqCst), 2);
    let fault = dispatcher.request(unit("refused", "")).await.unwrap_err();
    assert_eq!((fault.field.as_deref(), &fault.message[..]), (Some("spec"), "is wrong"));
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    let fault = dispatcher.request(unit("panics", "")).await.unwrap_err();
    assert!(fault.message.contains("panicked"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_failures_that_may_pass_is_told_and_kept_for_nobody() {
    let scene = Scene::new();
    let acts = |_: &[u8], before: usize| {
        // The first three times, a part of it fails.
        std::future::ready(answer(format!("answer {before}"), before >= 3)).boxed()
    };
    let (begun, _worker) = scene.worker("x", Box::new(acts)).await;
    let dispatcher = scene.dispatcher().await;
    let first = dispatcher.request(unit("parts", "")).await.unwrap();
    // It is started twice, and then the answer is returned unchanged.
    assert_eq!(
        (&first.content[..], begun.load(Ordering::SeqCst)),
        (&b"answer 1"[..], 2)
    );
    let second = dispatcher.request(unit("parts", "")).await.unwrap();
    assert_eq!(second.content, &b"answer 3"[..]);
    let third = dispatcher.request(unit("parts", "")).await.unwrap();
    assert_eq!(third.content, &b"answer 3"[..]);
    assert_eq!(begun.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_another_class_takes_no_unit_of_this_one() {
    let scene = Scene::new();
    let dispatcher = scene.dispatcher().await;
    let (other, _other) = scene.worker("avx512", Box::new(reversed)).await;
    let asked = tokio::spawn({
        let dispatcher = dispatcher.clone();
        async move { dispatcher.request(unit("abc", "avx2")).await }
    });
    // The worker takes units without a class.
    assert_eq!(dispatcher.request(unit("any", "")).await.unwrap().content, &b"yna"[..]);
    assert_eq!(other.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!asked.is_finished());
    let (own, _own) = scene.worker("avx2", Box::new(reversed)).await;
    assert_eq!(asked.await.unwrap().unwrap().content, &b"cba"[..]);
    assert_eq!((own.load(Ordering::SeqCst), other.load(Ordering::SeqCst)), (1, 1));
    let classes: Vec<String> = dispatcher
        .queue()
        .workers()
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.class)
        .collect();
    assert_eq!(classes.len(), 2, "{classes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_nobody_wants_any_more_leaves_the_queue_unless_somebody_does() {
    let scene = Scene::new();
    let (one, other) = (scene.dispatcher().await, scene.dispatcher().await);
    let ask = |dispatcher: &Dispatcher| {
        let dispatcher = dispatcher.clone();
        tokio::spawn(async move { dispatcher.request(unit("abc", "")).await })
    };
    // Two requesters want the unit and one of them leaves: the unit is kept.
    let staying = ask(&other);
    found("the unit is queued", async || {
        (queued(one.queue()).await == 1).then_some(())
    })
    .await;
    let leaving = ask(&one.for_holder(&Holder::run("leaves").unwrap()));
    found("the other waits too", async || {
        let runs = one.queue().overview().await.unwrap().runs;
        (!runs.is_empty()).then_some(())
    })
    .await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    one.wait_for_cancellations().await;
    let (begun, worker) = scene.worker("x", Box::new(reversed)).await;
    assert_eq!(staying.await.unwrap().unwrap().content, &b"cba"[..]);
    drop(worker);
    // One requester wants the unit and leaves: a later worker finds nothing.
    let alone = {
        let dispatcher = one.clone();
        tokio::spawn(async move { dispatcher.request(unit("xyz", "")).await })
    };
    found("it is queued", async || (queued(one.queue()).await == 1).then_some(())).await;
    alone.abort();
    assert!(alone.await.unwrap_err().is_cancelled());
    one.wait_for_cancellations().await;
    let (later, _worker) = scene.worker("x", Box::new(reversed)).await;
    assert_eq!(other.request(unit("other", "")).await.unwrap().content, &b"rehto"[..]);
    assert_eq!((begun.load(Ordering::SeqCst), later.load(Ordering::SeqCst)), (1, 1));
}

/// Far longer than any expected wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the pause of an idle worker before it asks for a unit again.
const ASKS_AGAIN: Duration = Duration::from_secs(1);

/// A worker that has done one unit, and has requested the next from a broker that no longer
/// responds.
async fn waiting_for_a_silent_broker(scene: &Scene) -> Worker {
    let (_, worker) = scene.worker("x", Box::new(reversed)).await;
    scene.dispatcher().await.request(unit("abc", "")).await.unwrap();
    scene.nats.signal("STOP");
    sleep(ASKS_AGAIN).await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stopped_after_its_broker_is_gone_ends() {
    let mut scene = Scene::new();
    let mut worker = waiting_for_a_silent_broker(&scene).await;
    scene.nats.kill();
    let summary = timeout(PATIENCE, worker.end()).await.expect("it ends");
    assert_eq!(summary.done, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_broker_ended_before_it_answered_takes_units_of_the_next() {
    let mut scene = Scene::new();
    let _worker = waiting_for_a_silent_broker(&scene).await;
    scene.nats.kill();
    scene.nats.start_again(false);
    let dispatcher = scene.dispatcher().await;
    let asked = timeout(PATIENCE, dispatcher.request(unit("xyz", ""))).await;
    assert_eq!(asked.expect("a worker takes it").unwrap().content, &b"zyx"[..]);
}

/// Waiting requests of a killed process.
fn left_by_a_killed_process(scene: &Scene, requests: [&'static str; 2]) {
    let (config, store) = (scene.config(), scene.store.path().to_owned());
    let killed = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let queue = Queue::connect(&config).await.unwrap();
            let dispatcher = Dispatcher::open(queue.clone(), Holds::new(blobs(&store)))
                .await
                .unwrap();
            for request in requests {
                let dispatcher = dispatcher.clone();
                tokio::spawn(async move { dispatcher.request(unit(request, "x")).await });
            }
            found("both wait", async || (queued(&queue).await == 2).then_some(())).await;
        });
        // Without the cancellations that the tasks would start.
        runtime.shutdown_background();
    });
    killed.join().unwrap();
}

async fn queued(queue: &Queue) -> u64 {
    let overview = queue.overview().await.unwrap();
    overview.lanes.iter().map(|lane| lane.queued).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_holds_a_forgotten_text_leaves_the_queue_and_the_store_and_others_stay() {
    let scene = Scene::new();
    left_by_a_killed_process(&scene, ["a letter of Anna Example", "another text"]);
    let queue = Queue::connect(&scene.config()).await.unwrap();
    let store = blobs(scene.store.path());
    let texts = Texts::new(["Anna Example".to_owned()]).unwrap();
    let planned = erase(&store, &texts, Mode::Plan).await.unwrap();
    assert_eq!((queued(&queue).await, planned.addresses.len()), (2, 1));
    let removed = erase(&store, &texts, Mode::Remove).await.unwrap();
    assert_eq!(removed.addresses, planned.addresses);
    queue.remove(&removed.addresses).await.unwrap();
    assert_eq!(queued(&queue).await, 1);
    assert!(erase(&store, &texts, Mode::Plan).await.unwrap().addresses.is_empty());
    let other = Texts::new(["another text".to_owned()]).unwrap();
    assert_eq!(erase(&store, &other, Mode::Plan).await.unwrap().addresses.len(), 1);
}
