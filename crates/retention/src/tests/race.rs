//! Runs and sweeps at the same time, in many orders: held blobs are kept, others are removed.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use isomer_blobs::BlobStore;
use uuid::Uuid;

use super::{AT_ONCE, digest, jittery::Jittery, name, names, run, silent};
use crate::{Holder, Holds, Kind, Sweep, release, segment::Segment, sweep};

const DIGESTS: u8 = 8;
const RUNS: usize = 3;
const SWEEPS: usize = 2;
const KINDS: [Kind; 3] = [Kind::Answers, Kind::Claims, Kind::Texts];

/// The order in which a run uses the store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    /// The required order.
    HoldThenRead,
    /// The run reads before it holds.
    ReadThenHold,
    /// The run does not check for announcements.
    HoldBlindly,
}

/// The result of one order of events.
#[derive(Debug, Default)]
struct Outcome {
    /// Number of names that a run held and lost, or found changed.
    lost: usize,
    /// Numbers of names that runs found, and of those that they created.
    found: usize,
    made: usize,
    /// Number of blobs that a sweep had announced and spared.
    spared: u64,
    removed: u64,
}

/// A run of a test reads a name, or creates it if it does not exist.
async fn use_name(blobs: &BlobStore, name: &str, own: &[u8], outcome: &mut Outcome) -> Bytes {
    loop {
        if let Some(found) = blobs.get(name).await.unwrap() {
            outcome.found += 1;
            return found;
        }
        blobs.put_new(name, own).await.unwrap();
        outcome.made += 1;
    }
}

async fn one_run(store: Jittery, holds: Holds, id: String, order: Order) -> Outcome {
    let blobs = holds.blobs().clone();
    let hold = run(&holds, &id);
    let mut outcome = Outcome::default();
    let mut relied: BTreeMap<String, Bytes> = BTreeMap::new();
    for _ in 0..DIGESTS / 2 {
        for _ in 0..store.draw(600) {
            tokio::task::yield_now().await;
        }
        let n = u8::try_from(store.draw(DIGESTS.into())).unwrap();
        let of_digest = KINDS.map(|kind| name(kind, n));
        if order == Order::ReadThenHold {
            for name in &of_digest {
                let bytes = use_name(&blobs, name, id.as_bytes(), &mut outcome).await;
                relied.entry(name.clone()).or_insert(bytes);
            }
        }
        if order == Order::HoldBlindly {
            let segment = Segment {
                digests: vec![digest(n)],
                ..Segment::default()
            };
            let reference = format!("{}/{}", Holder::run(&id).unwrap().references(), Uuid::now_v7());
            blobs.put_new(&reference, &segment.encode()).await.unwrap();
        } else {
            hold.hold(vec![digest(n)]).await.unwrap();
        }
        if order != Order::ReadThenHold {
            for name in &of_digest {
                let bytes = use_name(&blobs, name, id.as_bytes(), &mut outcome).await;
                relied.entry(name.clone()).or_insert(bytes);
            }
        }
    }
    // Later, when all other tasks have had a turn.
    for _ in 0..600 {
        tokio::task::yield_now().await;
    }
    for (name, bytes) in relied {
        let now = blobs.get(&name).await.unwrap();
        outcome.lost += usize::from(now != Some(bytes));
    }
    outcome
}

/// Runs one order of events, and then ends all runs.
async fn one_order(seed: u64, order: Order) -> Outcome {
    let store = Jittery::new(seed);
    let blobs = BlobStore::over(Arc::new(store.clone()), "memory");
    for n in 0..DIGESTS {
        for kind in KINDS {
            blobs.put_new(&name(kind, n), b"old").await.unwrap();
        }
    }
    // As in separate processes: only the store is shared.
    let runs = (0..RUNS).map(|number| {
        let holds = Holds::new(blobs.clone());
        tokio::spawn(one_run(store.clone(), holds, format!("run-{number}"), order))
    });
    let sweeps = (0..SWEEPS).map(|_| {
        let (store, blobs) = (store.clone(), blobs.clone());
        tokio::spawn(async move {
            for _ in 0..store.draw(60) {
                tokio::task::yield_now().await;
            }
            sweep(&blobs, AT_ONCE, Sweep::Remove, &silent).await.unwrap()
        })
    });
    let (runs, sweeps): (Vec<_>, Vec<_>) = (runs.collect(), sweeps.collect());
    let mut all = Outcome::default();
    for one in runs {
        let one = one.await.unwrap();
        all.lost += one.lost;
        all.found += one.found;
        all.made += one.made;
    }
    for one in sweeps {
        let one = one.await.unwrap();
        all.spared += one.spared.objects;
        all.removed += one.total().objects;
    }
    for number in 0..RUNS {
        release(&blobs, &format!("run-{number}")).await.unwrap();
    }
    sweep(&blobs, AT_ONCE, Sweep::Remove, &silent).await.unwrap();
    assert_eq!(names(&blobs, "").await, [""; 0], "seed {seed}: garbage is left");
    all
}

/// Runs many orders of events.
fn many(seeds: std::ops::Range<u64>, order: Order) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let one = runtime.block_on(one_order(seed, order));
        assert!(
            one.lost == 0 || order != Order::HoldThenRead,
            "seed {seed}: a run lost {} names that it held",
            one.lost
        );
        all.lost += one.lost;
        all.found += one.found;
        all.made += one.made;
        all.spared += one.spared;
        all.removed += one.removed;
    }
    all
}

#[test]
fn what_a_run_holds_survives_every_order_of_events_and_the_rest_goes() {
    let all = many(0..200, Order::HoldThenRead);
    assert_eq!(all.lost, 0);
    // The sweeps and the runs interacted: some names were gone, and some were spared at the last
    // moment.
    assert!(
        all.made > 0 && all.found > 0 && all.spared > 0 && all.removed > 0,
        "{all:?}"
    );
}

/// Runs orders of events until a run loses a name on which it relied.
fn until_one_loses(order: Order) {
    const MOST: u64 = 10_000;
    let lost = (0..MOST).any(|seed| many(seed..seed + 1, order).lost > 0);
    assert!(lost, "no name was lost in {MOST} orders of events");
}

#[test]
fn a_run_that_reads_before_it_holds_loses_names() {
    until_one_loses(Order::ReadThenHold);
}

#[test]
fn a_run_that_does_not_look_for_announcements_loses_names() {
    until_one_loses(Order::HoldBlindly);
}
