//! Units without work: what scheduling itself costs. One process requests many units, others answer
//! each at once; `tests/fleet/speed` starts them and measures.
//!
//! `schedule lead ENGINE STORE UNITS IN_FLIGHT`, `schedule work ENGINE STORE AT_ONCE`
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_fleet::{Address, Dispatcher, Executor, FleetConfig, Kind, Lane, Queue, Unit, UnitOutput, worker};
use isomer_retention::{Holder, Holds};
use isomer_service_kit::Fault;
use isomer_usage::Claimant;
use uuid::Uuid;

/// Bytes of a request, about those of 32 short texts by their keys.
const REQUEST: usize = 1024;

/// Answers with the first bytes of a request.
struct Echo;

impl Executor for Echo {
    fn class(&self) -> &'static str {
        "any"
    }

    fn execute(
        &self,
        _unit: &Address,
        _kind: Kind,
        request: Bytes,
        _dispatch: Option<Uuid>,
    ) -> BoxFuture<'_, Result<UnitOutput, Fault>> {
        async move {
            Ok(UnitOutput {
                answer: request.slice(..16),
                cacheable: true,
            })
        }
        .boxed()
    }
}

/// The content of a unit: its number, then zeros.
fn request(number: u64) -> Bytes {
    let mut content = vec![0; REQUEST];
    content[..8].copy_from_slice(&number.to_le_bytes());
    content.into()
}

/// Current and peak memory of this process, in MiB.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kibibytes.unwrap_or_default() / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

async fn lead(queue: Queue, blobs: BlobStore, units: u64) {
    let in_flight = queue.config().units_in_flight;
    let dispatcher = Dispatcher::open(queue, Holds::new(blobs)).await.expect("a dispatcher");
    // The second time is that of a leader that starts anew: every answer is there.
    for turn in ["done", "reconciled"] {
        let run = Uuid::now_v7().to_string();
        let holder = Holder::run(&run).expect("a holder");
        let (dispatcher, claimant) = (dispatcher.for_holder(&holder), Claimant::new(&run));
        let began = Instant::now();
        let asked = stream::iter(0..units).map(|number| {
            let lane = Lane {
                kind: Kind::Transform,
                of: "nothing".to_owned(),
                class: String::new(),
                max_in_flight: 0,
                limit: String::new(),
            };
            let unit = Unit::new(lane, &[], request(number));
            let (dispatcher, claimant) = (&dispatcher, &claimant);
            async move {
                let answer = dispatcher.request_for(Some(claimant), unit).await.expect("an answer");
                assert_eq!(
                    answer.content,
                    request(number).slice(..16),
                    "the answer of another unit"
                );
            }
        });
        let mut answers = asked.buffer_unordered(in_flight);
        let mut count = 0;
        while answers.next().await.is_some() {
            count += 1;
            if count % (units / 20).max(1) == 0 || count == units {
                let (now, peak) = memory();
                println!("{turn} {count} {:.1} {now} {peak}", began.elapsed().as_secs_f64());
            }
        }
        assert_eq!(count, units, "units were lost");
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, engine, store, rest @ ..] = &arguments[..] else {
        panic!("give lead or work, the address of NATS, a folder, and numbers");
    };
    let number = |at: usize| {
        rest.get(at)
            .and_then(|text| text.parse::<u64>().ok())
            .expect("a number")
    };
    let (units, at_once) = (number(0), usize::try_from(number(rest.len() - 1)).expect("a number"));
    let config = FleetConfig {
        engine: engine.clone(),
        units_in_flight: at_once,
        ..FleetConfig::default()
    };
    let store = StoreConfig {
        url: store.clone(),
        ..StoreConfig::default()
    };
    let blobs = BlobStore::open(&store).expect("a store").expect("a store");
    let queue = Queue::connect(&config).await.expect("a NATS server");
    if what == "lead" {
        return lead(queue, blobs, units).await;
    }
    println!("ready");
    let kinds = BTreeMap::from([(Kind::Transform, at_once)]);
    let never = std::future::pending();
    let ended = worker::work(
        worker::UnitSource { queue, blobs },
        Arc::new(Echo),
        kinds,
        never,
        Duration::ZERO,
    )
    .await;
    ended.expect("a worker");
}
