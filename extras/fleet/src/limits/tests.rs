//! Tests processes that share counters in memory, in paused time.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use isomer_outbound::shared_limits::{Budget, Denial, Per, SharedLimit, Spending, Terms};
use isomer_service_kit::priority::{Priority, Urgency};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    Limit, agent,
    limit::Inner,
    store::{CounterStore, Entry},
};
use crate::queue::FleetError;

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const LEASE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
/// 2026-11-24T00:00:00Z.
const DAY: u64 = 1_795_478_400_000;

/// Counters in this process, which can be disconnected and wiped.
#[derive(Debug)]
struct Memory {
    entries: Mutex<HashMap<String, Entry>>,
    limits: Mutex<Vec<Weak<Inner>>>,
    created: Mutex<u64>,
    began: Instant,
    away: AtomicBool,
    swaps: AtomicUsize,
}

impl Memory {
    /// A bucket that has existed for a long time.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::default(),
            limits: Mutex::default(),
            created: Mutex::new(DAY - 1_000_000),
            began: Instant::now(),
            away: AtomicBool::new(false),
            swaps: AtomicUsize::new(0),
        })
    }

    fn time(&self) -> u64 {
        DAY + u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    fn there(&self) -> Result<(), FleetError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(FleetError::Broker {
                engine: "memory".into(),
                what: "cannot be reached",
                message: "it is away".into(),
            });
        }
        Ok(())
    }

    fn wipe(&self) {
        self.entries.lock().clear();
        *self.created.lock() = self.time();
    }

    fn process(self: &Arc<Self>, terms: Terms) -> Process {
        let store: Arc<dyn CounterStore> = Arc::<Self>::clone(self);
        let inner = Inner::new(KEY, "stub", terms, store);
        self.limits.lock().push(Arc::downgrade(&inner));
        let agent = tokio::spawn(agent::run(Arc::downgrade(&inner), LEASE));
        Process {
            inner: Arc::clone(&inner),
            limit: Arc::new(Limit::new(inner)),
            agent,
        }
    }
}

impl CounterStore for Memory {
    fn now(&self) -> BoxFuture<'_, Result<u64, FleetError>> {
        async { self.there().map(|()| self.time()) }.boxed()
    }

    fn created(&self) -> BoxFuture<'_, Result<u64, FleetError>> {
        async { self.there().map(|()| *self.created.lock()) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, FleetError>> {
        async move {
            sleep(Duration::from_millis(1)).await;
            self.there()?;
            Ok(self.entries.lock().get(key).cloned().unwrap_or_default())
        }
        .boxed()
    }

    fn swap<'a>(&'a self, key: &'a str, revision: u64, content: Bytes) -> BoxFuture<'a, Result<bool, FleetError>> {
        async move {
            sleep(Duration::from_millis(1)).await;
            self.there()?;
            let mut entries = self.entries.lock();
            let entry = entries.entry(key.to_owned()).or_default();
            let latest = entry.0 == revision;
            if latest {
                *entry = (revision + 1, content);
                self.swaps.fetch_add(1, Ordering::Relaxed);
            }
            Ok(latest)
        }
        .boxed()
    }

    fn announce<'a>(
        &'a self,
        topic: &'static str,
        _key: &'a str,
        what: Bytes,
    ) -> BoxFuture<'a, Result<(), FleetError>> {
        async move {
            self.there()?;
            for limit in self.limits.lock().iter().filter_map(Weak::upgrade) {
                match topic {
                    "paused" => {
                        limit.pause_here(Duration::from_millis(serde_json::from_slice(&what).unwrap()));
                    }
                    "waits" => limit.wanted(),
                    _ => limit.freed(),
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn pause_lanes<'a>(&'a self, _key: &'a str, _pause: Duration) -> BoxFuture<'a, Result<(), FleetError>> {
        async { Ok(()) }.boxed()
    }
}

struct Process {
    inner: Arc<Inner>,
    limit: Arc<Limit>,
    agent: tokio::task::JoinHandle<()>,
}

impl Process {
    /// Simulates a kill: its holdings are not returned.
    fn kill(self) {
        self.agent.abort();
    }

    /// Makes calls of a duration, as many at once as permitted, up to `at_once`. `calls` counts
    /// those of all processes.
    fn calls(&self, calls: &Calls, count: usize, at_once: usize, takes: Duration) -> tokio::task::JoinHandle<()> {
        let (limit, calls, inner) = (Arc::clone(&self.limit), calls.clone(), Arc::clone(&self.inner));
        tokio::spawn(async move {
            let mut more = limit.more();
            let mut running = tokio::task::JoinSet::new();
            let mut begun = 0;
            while begun < count {
                limit.report_waiting((count - begun).min(at_once - running.len().min(at_once)));
                while begun < count && running.len() < at_once && limit.try_begin() {
                    begun += 1;
                    let (limit, calls, inner) = (Arc::clone(&limit), calls.clone(), Arc::clone(&inner));
                    running.spawn(async move {
                        let mut lost = inner.lost.subscribe();
                        calls.begin();
                        tokio::select! {
                            () = sleep(takes) => {
                                calls.done.fetch_add(1, Ordering::Relaxed);
                            }
                            _ = lost.changed() => {}
                        }
                        calls.end();
                        limit.end();
                    });
                }
                tokio::select! {
                    _ = more.changed() => {}
                    Some(_) = running.join_next(), if !running.is_empty() => {}
                }
            }
            limit.report_waiting(0);
            while running.join_next().await.is_some() {}
        })
    }
}

/// Calls in flight of all processes.
#[derive(Clone, Default)]
struct Calls {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
}

impl Calls {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.most.swap(self.now.load(Ordering::SeqCst), Ordering::SeqCst)
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

fn concurrency(concurrency: usize) -> Terms {
    Terms {
        concurrency,
        ..Terms::default()
    }
}

const TAKES: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn calls_of_all_processes_reach_the_limit_and_never_pass_it() {
    for most in [1, 2, 5, 40] {
        let store = Memory::new();
        let processes: Vec<Process> = (0..3).map(|_| store.process(concurrency(most))).collect();
        let calls = Calls::default();
        let began = Instant::now();
        let working: Vec<_> = processes
            .iter()
            .map(|process| process.calls(&calls, 100, 16, TAKES))
            .collect();
        for working in working {
            working.await.unwrap();
        }
        assert_eq!(calls.done(), 300);
        assert_eq!(calls.most(), most, "calls in flight");
        // Little time is lost when a call's place passes to another process.
        let ideal = TAKES * u32::try_from(300usize.div_ceil(most)).unwrap();
        assert!(
            began.elapsed() < ideal * 3 / 2 + Duration::from_secs(1),
            "{most}: {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_high_limit_costs_no_exchange_for_each_call() {
    let store = Memory::new();
    let processes: Vec<Process> = (0..3).map(|_| store.process(concurrency(1000))).collect();
    let calls = Calls::default();
    let began = Instant::now();
    let working: Vec<_> = processes
        .iter()
        .map(|process| process.calls(&calls, 2000, 16, TAKES))
        .collect();
    for working in working {
        working.await.unwrap();
    }
    assert_eq!((calls.done(), calls.most()), (6000, 48));
    let ideal = TAKES * 125;
    assert!(
        began.elapsed() < ideal + Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    let swaps = store.swaps.load(Ordering::Relaxed);
    assert!(swaps < 100, "{swaps} exchanges for 6,000 calls");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_process_that_dies_come_back_with_its_lease() {
    let store = Memory::new();
    let (dies, lives) = (store.process(concurrency(4)), store.process(concurrency(4)));
    let (dead, calls) = (Calls::default(), Calls::default());
    let hanging = dies.calls(&dead, 4, 4, Duration::from_secs(1000));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(dead.most(), 4);
    let working = lives.calls(&calls, 20, 16, TAKES);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.most(), 0, "the other process has them all in flight");
    dies.kill();
    hanging.abort();
    sleep(LEASE / 2).await;
    assert_eq!(calls.done(), 0);
    sleep(LEASE).await;
    working.await.unwrap();
    assert_eq!((calls.done(), calls.most()), (20, 4));
}

#[tokio::test(start_paused = true)]
async fn without_the_broker_no_call_begins_and_those_in_flight_end_with_the_lease() {
    let store = Memory::new();
    let process = store.process(concurrency(2));
    let calls = Calls::default();
    let hanging = process.calls(&calls, 3, 16, Duration::from_secs(30));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(calls.now.load(Ordering::SeqCst), 2);
    store.away.store(true, Ordering::Relaxed);
    let cut = Instant::now();
    let lost = async {
        let mut lost = process.inner.lost.subscribe();
        lost.changed().await.unwrap();
    };
    lost.await;
    assert!(
        cut.elapsed() < LEASE,
        "before others may be granted them: {:?}",
        cut.elapsed()
    );
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (calls.now.load(Ordering::SeqCst), calls.done()),
        (0, 0),
        "nothing is called meanwhile"
    );
    store.away.store(false, Ordering::Relaxed);
    hanging.await.unwrap();
    assert_eq!(calls.done(), 1, "the call that had not begun is made");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_lost_everything_grants_nothing_until_calls_in_flight_are_registered() {
    let store = Memory::new();
    let (first, second) = (store.process(concurrency(3)), store.process(concurrency(3)));
    let calls = Calls::default();
    let long = first.calls(&calls, 3, 3, Duration::from_secs(5));
    sleep(Duration::from_millis(500)).await;
    store.wipe();
    let short = second.calls(&calls, 30, 16, TAKES);
    for end in [long, short] {
        end.await.unwrap();
    }
    assert_eq!((calls.done(), calls.most()), (33, 3));
}

#[tokio::test(start_paused = true)]
async fn requests_of_all_processes_come_at_the_rate() {
    let store = Memory::new();
    let terms = Terms {
        requests_per_second: 10.0,
        ..Terms::default()
    };
    let processes: Vec<Process> = (0..3).map(|_| store.process(terms)).collect();
    let began = Instant::now();
    let turns = processes.iter().flat_map(|process| {
        (0..20).map(|_| {
            let limit = Arc::clone(&process.limit);
            tokio::spawn(async move {
                limit.turn(1, &Urgency::new(Priority::Batch), PATIENCE).await.unwrap();
                began.elapsed()
            })
        })
    });
    let mut times = Vec::new();
    for turn in turns.collect::<Vec<_>>() {
        times.push(turn.await.unwrap());
    }
    times.sort();
    // One second's worth is sent at once, the other fifty at the rate.
    assert!(times[9] < Duration::from_millis(200), "{:?}", times[9]);
    for (number, at) in times.iter().enumerate().skip(10) {
        let earliest = Duration::from_millis(100 * (number as u64 - 9));
        assert!(
            *at + Duration::from_millis(10) >= earliest,
            "number {number} after {at:?}"
        );
    }
    assert!(times[59] < Duration::from_secs(7), "{:?}", times[59]);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_saved_up_for_a_large_request_and_an_interactive_one_overtakes() {
    let store = Memory::new();
    let terms = Terms {
        tokens_per_second: 100.0,
        ..Terms::default()
    };
    let process = store.process(terms);
    let began = Instant::now();
    let turn = |priority, tokens| {
        let limit = Arc::clone(&process.limit);
        tokio::spawn(async move {
            limit.turn(tokens, &Urgency::new(priority), PATIENCE).await.unwrap();
            began.elapsed().as_secs_f64()
        })
    };
    let batch: Vec<_> = (0..4).map(|_| turn(Priority::Batch, 200)).collect();
    sleep(Duration::from_millis(100)).await;
    let interactive = turn(Priority::Interactive, 100).await.unwrap();
    assert!((0.0..1.2).contains(&interactive), "{interactive}");
    let mut last = 0.0_f64;
    for one in batch {
        last = last.max(one.await.unwrap());
    }
    // 900 tokens, of which 100 are available at the beginning.
    assert!((7.9..9.5).contains(&last), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_for_every_process_and_then_ends() {
    let store = Memory::new();
    let (first, second) = (store.process(Terms::default()), store.process(Terms::default()));
    let turn = async |process: &Process, patience: u64| {
        let urgency = Urgency::new(Priority::Interactive);
        process.limit.turn(1, &urgency, Duration::from_secs(patience)).await
    };
    turn(&first, 60).await.unwrap();
    turn(&second, 60).await.unwrap();
    let began = Instant::now();
    first.limit.pause(Duration::from_secs(2), "429");
    sleep(Duration::from_millis(10)).await;
    // A process that begins later reads it from the counters.
    let third = store.process(Terms::default());
    let refused = turn(&second, 1).await.unwrap_err();
    assert!(matches!(refused, Denial::Paused(left) if left > Duration::from_millis(1900)));
    for process in [&first, &second, &third] {
        turn(process, 60).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(1990), "{:?}", began.elapsed());
    }
    assert!(began.elapsed() < Duration::from_millis(2200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_over_all_processes_and_survives_a_wiped_broker() {
    let store = Memory::new();
    let terms = |budget| Terms {
        budget,
        ..Terms::default()
    };
    let requests = terms(Budget {
        requests: Some(5),
        ..Budget::default()
    });
    let urgency = Urgency::new(Priority::Batch);
    let processes: Vec<Process> = (0..3).map(|_| store.process(requests)).collect();
    let mut went = 0;
    for round in 0..3 {
        for process in &processes {
            match process.limit.turn(1, &urgency, PATIENCE).await {
                Ok(()) => went += 1,
                Err(Denial::Spent(reached)) => {
                    assert_eq!((reached.field, &*reached.what), ("requests", "5 of 5 requests"));
                }
                Err(paused) => panic!("{paused:?}"),
            }
        }
        if round == 1 {
            store.wipe();
        }
    }
    assert_eq!(went, 5);

    // The simulated day ends.
    let store = Memory::new();
    let tokens = terms(Budget {
        tokens: Some(100),
        per: Per::Day,
        ..Budget::default()
    });
    let (first, second) = (store.process(tokens), store.process(tokens));
    first.limit.turn(1, &urgency, PATIENCE).await.unwrap();
    first.limit.pay(&Spending {
        requests: 1,
        prompt_tokens: 60,
        generated_tokens: 40,
    });
    sleep(Duration::from_secs(11)).await;
    for process in [&first, &second] {
        let spent = process.limit.turn(1, &urgency, PATIENCE).await.unwrap_err();
        assert!(matches!(spent, Denial::Spent(reached) if reached.field == "tokens"));
    }
    sleep(Duration::from_secs(86_400)).await;
    for process in [&first, &second] {
        process.limit.turn(1, &urgency, PATIENCE).await.unwrap();
    }
}
