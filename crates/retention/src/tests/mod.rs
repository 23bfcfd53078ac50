//! Sweeps over stores in memory and in folders.
#![allow(clippy::unwrap_used, clippy::panic)]

mod jittery;
mod race;
mod sweeps;

use std::{sync::Arc, time::Duration};

use isomer_blobs::BlobStore;
use object_store::memory::InMemory;

use crate::{Digest, Hold, Holder, Holds, Kind, Policy, Step, Sweep, SweepReport, sweep};

/// Every blob without a holder is removed at once.
const AT_ONCE: Policy = Policy {
    older_than: Duration::ZERO,
    forget_runs: None,
    settle: Duration::ZERO,
};

fn in_memory() -> BlobStore {
    BlobStore::over(Arc::new(InMemory::new()), "memory")
}

fn digest(n: u8) -> Digest {
    Digest::from([n; 32])
}

fn name(kind: Kind, n: u8) -> String {
    format!("{}/{}", kind.place("avx2", &digest(n)), digest(n))
}

fn run(holds: &Holds, id: &str) -> Hold {
    holds.of(&Holder::run(id).unwrap())
}

fn silent(_: Step) {}

async fn removed(blobs: &BlobStore) -> SweepReport {
    sweep(blobs, AT_ONCE, Sweep::Remove, &silent).await.unwrap()
}

async fn names(blobs: &BlobStore, folder: &str) -> Vec<String> {
    use futures::TryStreamExt;
    let mut names: Vec<String> = blobs.list(folder).map_ok(|one| one.name).try_collect().await.unwrap();
    names.sort_unstable();
    names
}
