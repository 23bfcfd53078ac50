//! The storage of shared counters: a bucket of the broker, whose entries may be replaced only after
//! reading their latest revision.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use async_nats::jetstream::kv;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;

use crate::{
    queue::{FleetError, Queue},
    time::millis,
};

/// The bucket's name.
const BUCKET: &str = "limits";
/// How long a comparison of the clocks is valid.
const CLOCK_KNOWN: Duration = Duration::from_secs(30);

/// An entry as read: its revision (0 if it does not exist) and its content.
pub(super) type Entry = (u64, Bytes);

pub(super) trait CounterStore: Send + Sync + Debug {
    /// The time at the broker, in milliseconds since 1970. Clocks of machines may differ.
    fn now(&self) -> BoxFuture<'_, Result<u64, FleetError>>;
    /// When the store was created, in the broker's time.
    fn created(&self) -> BoxFuture<'_, Result<u64, FleetError>>;
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, FleetError>>;
    /// Replaces an entry with this revision; returns false if it has another one by now.
    fn swap<'a>(&'a self, key: &'a str, revision: u64, content: Bytes) -> BoxFuture<'a, Result<bool, FleetError>>;
    /// Announces a topic about a key to all processes.
    fn announce<'a>(&'a self, topic: &'static str, key: &'a str, what: Bytes) -> BoxFuture<'a, Result<(), FleetError>>;
    /// Pauses delivery in the lanes of a key for a time.
    fn pause_lanes<'a>(&'a self, key: &'a str, pause: Duration) -> BoxFuture<'a, Result<(), FleetError>>;
}

/// Counters at the broker.
#[derive(Debug)]
pub(super) struct BrokerStore {
    queue: Queue,
    bucket: Mutex<Option<kv::Store>>,
    /// The broker's time at a given moment of this process.
    clock: Mutex<Option<(Instant, u64)>>,
}

impl BrokerStore {
    pub(super) fn new(queue: Queue) -> Self {
        Self {
            queue,
            bucket: Mutex::default(),
            clock: Mutex::default(),
        }
    }

    async fn bucket(&self) -> Result<kv::Store, FleetError> {
        if let Some(bucket) = self.bucket.lock().clone() {
            return Ok(bucket);
        }
        let what = "Isomer's limits that hold over all processes: calls in flight, rates, budgets, pauses";
        let bucket = self.queue.bucket(BUCKET, what, Duration::ZERO).await?;
        *self.bucket.lock() = Some(bucket.clone());
        Ok(bucket)
    }

    /// The broker may have lost the bucket, so it is looked up again.
    fn failed(&self, what: &'static str, message: String) -> FleetError {
        *self.bucket.lock() = None;
        self.queue.failed(what)(message)
    }

    /// When the bucket was created, and the time now.
    async fn times(&self) -> Result<(u64, u64), FleetError> {
        self.bucket().await?;
        let asked = Instant::now();
        let times = self.queue.bucket_times(BUCKET).await;
        let (created, now) = times.inspect_err(|_| *self.bucket.lock() = None)?;
        let now = now + u64::try_from(asked.elapsed().as_millis() / 2).unwrap_or_default();
        *self.clock.lock() = Some((Instant::now(), now));
        Ok((created, now))
    }
}

impl CounterStore for BrokerStore {
    fn now(&self) -> BoxFuture<'_, Result<u64, FleetError>> {
        async move {
            let known = *self.clock.lock();
            match known.filter(|(at, _)| at.elapsed() < CLOCK_KNOWN) {
                Some((at, then)) => Ok(then + u64::try_from(at.elapsed().as_millis()).unwrap_or_default()),
                None => Ok(self.times().await?.1),
            }
        }
        .boxed()
    }

    fn created(&self) -> BoxFuture<'_, Result<u64, FleetError>> {
        async move { Ok(self.times().await?.0) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, FleetError>> {
        async move {
            let read = self.bucket().await?.entry(key).await;
            let entry = read.map_err(|error| self.failed("cannot read a limit", error.to_string()))?;
            let entry = entry.filter(|entry| entry.operation == kv::Operation::Put);
            Ok(entry.map_or((0, Bytes::new()), |entry| (entry.revision, entry.value)))
        }
        .boxed()
    }

    fn swap<'a>(&'a self, key: &'a str, revision: u64, content: Bytes) -> BoxFuture<'a, Result<bool, FleetError>> {
        async move {
            let bucket = self.bucket().await?;
            let failed = |message| Err(self.failed("cannot write a limit", message));
            if revision == 0 {
                return match bucket.create(key, content).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => Ok(false),
                    Err(error) => failed(error.to_string()),
                };
            }
            match bucket.update(key, content, revision).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => Ok(false),
                Err(error) => failed(error.to_string()),
            }
        }
        .boxed()
    }

    fn announce<'a>(&'a self, topic: &'static str, key: &'a str, what: Bytes) -> BoxFuture<'a, Result<(), FleetError>> {
        async move {
            match crate::unit::Address::parse(key) {
                Some(key) => self.queue.announce(topic, &key, what).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn pause_lanes<'a>(&'a self, key: &'a str, pause: Duration) -> BoxFuture<'a, Result<(), FleetError>> {
        async move {
            let until = self.now().await?.saturating_add(millis(pause));
            self.queue.pause_lanes(key, until).await
        }
        .boxed()
    }
}
