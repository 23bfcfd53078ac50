//! Limits that apply to all processes together: calls in flight, rates, budgets, and pauses that a
//! server requests.
//!
//! Each limit has one entry in a bucket of the broker (`Counters`). A process replaces the entry
//! only if it has read its latest revision, so two processes never grant the same thing twice.
//! Processes do not contact the broker at every call: they lease concurrent calls, and take the
//! rates for all their waiting calls at once.
//!
//! **A limit is never lifted.** Without the broker no new calls are granted. A process that cannot
//! renew its lease ends its calls in flight before other processes are granted them. After the
//! broker has lost everything no concurrent call is granted for the time of one lease.
//!
//! **Clocks** of machines may differ: all times in an entry are those of the broker.

mod agent;
mod counters;
mod limit;
mod share;
mod store;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use futures::StreamExt;
use isomer_outbound::shared_limits::{SharedLimit, SharedLimits, Terms};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::queue::{ANSWER, FleetError, Queue, about};
use counters::Counters;
pub use counters::LimitState;
use limit::Inner;
pub use limit::Limit;
use store::{BrokerStore, CounterStore};

/// Maximum lease of concurrent calls.
const LONGEST_LEASE: Duration = Duration::from_secs(15);

type OpenLimits = Arc<Mutex<HashMap<String, Vec<Weak<Inner>>>>>;

/// The limits of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Limits {
    store: Arc<dyn CounterStore>,
    lease: Duration,
    open: OpenLimits,
    _listening: Arc<[AbortOnDropHandle<()>]>,
}

impl Limits {
    /// Listens to the announcements of other processes.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn connect(queue: &Queue) -> Result<Self, FleetError> {
        isomer_service_kit::metric_names::describe(crate::metric_names::ALL);
        let open = OpenLimits::default();
        let mut paused = queue.subscribe("paused").await?;
        let mut freed = queue.subscribe("freed").await?;
        let mut waits = queue.subscribe("waits").await?;
        let pausing = {
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                while let Some(message) = paused.next().await {
                    let Some((key, message)) = about(message) else { continue };
                    let Ok(millis) = serde_json::from_slice(&message.payload) else {
                        continue;
                    };
                    for limit in opened(&open, key.as_str()) {
                        limit.pause_of_fleet(Duration::from_millis(millis));
                    }
                }
            })
        };
        let freeing = {
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                loop {
                    let (message, update): (_, fn(&Inner)) = tokio::select! {
                        message = freed.next() => (message, Inner::freed),
                        message = waits.next() => (message, Inner::wanted),
                    };
                    // The subscriptions end with the connection.
                    let Some(message) = message else { return };
                    let Some((key, _)) = about(message) else { continue };
                    for limit in opened(&open, key.as_str()) {
                        update(&limit);
                    }
                }
            })
        };
        Ok(Self {
            store: Arc::new(BrokerStore::new(queue.clone())),
            lease: queue.config().lease().min(LONGEST_LEASE),
            open,
            _listening: Arc::new([AbortOnDropHandle::new(pausing), AbortOnDropHandle::new(freeing)]),
        })
    }

    /// Opens a limit. `key` is a content address (64 hexadecimal digits) that all processes derive
    /// from the limited resource; `name` is for logs and metrics.
    pub fn open(&self, key: &str, name: &str, terms: Terms) -> Limit {
        let inner = Inner::new(key, name, terms, Arc::clone(&self.store));
        let mut open = self.open.lock();
        let others = open.entry(key.to_owned()).or_default();
        others.retain(|other| other.strong_count() > 0);
        others.push(Arc::downgrade(&inner));
        drop(open);
        tokio::spawn(agent::run(Arc::downgrade(&inner), self.lease));
        Limit::new(inner)
    }

    /// Returns everything that this process holds. Call it before the process ends; otherwise other
    /// processes wait for the end of its leases.
    pub async fn close(&self) {
        let open: Vec<Arc<Inner>> = self.open.lock().values().flatten().filter_map(Weak::upgrade).collect();
        let left = futures::future::join_all(open.iter().map(|limit| agent::leave(limit)));
        match tokio::time::timeout(ANSWER, left).await {
            Ok(left) => {
                for error in left.into_iter().filter_map(Result::err) {
                    tracing::debug!(%error, "cannot give concurrent calls back; their lease ends");
                }
            }
            Err(_) => tracing::warn!("the queue does not answer: the leases of concurrent calls end by themselves"),
        }
    }
}

impl SharedLimits for Limits {
    fn open(&self, key: &str, name: &str, terms: Terms) -> Arc<dyn SharedLimit> {
        Arc::new(Limits::open(self, key, name, terms))
    }
}

/// The current restrictions of limits, by key; unused limits are left out.
///
/// # Errors
/// If the broker does not answer.
pub(crate) async fn states(queue: &Queue, keys: &BTreeSet<&str>) -> Result<BTreeMap<String, LimitState>, FleetError> {
    let store = BrokerStore::new(queue.clone());
    let mut states = BTreeMap::new();
    for key in keys {
        let (_, content) = store.read(key).await?;
        if let Ok(counters) = serde_json::from_slice::<Counters>(&content) {
            states.insert((*key).to_owned(), counters.state(store.now().await?));
        }
    }
    Ok(states)
}

fn opened(open: &OpenLimits, key: &str) -> Vec<Arc<Inner>> {
    let open = open.lock();
    open.get(key).into_iter().flatten().filter_map(Weak::upgrade).collect()
}
