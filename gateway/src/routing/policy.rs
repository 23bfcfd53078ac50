//! The rules for all requests, and the options of one request.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{RoutingConfig, budget::RetryBudget, content::Content};

/// The configuration and the retry budget of all requests.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) config: RoutingConfig,
    budget: Mutex<RetryBudget>,
}

impl Policy {
    pub(crate) fn new(config: RoutingConfig) -> Self {
        let budget = RetryBudget::new(config.retry_ratio, config.retries_per_second, Instant::now());
        Self {
            config,
            budget: Mutex::new(budget),
        }
    }

    pub(super) fn budget(&self) -> MutexGuard<'_, RetryBudget> {
        self.budget.lock()
    }
}

pub(crate) struct SendOptions<'a, R> {
    /// The kind of peer: `provider`, `server`.
    pub(crate) kind: &'static str,
    /// The hint to the user if no peer is available.
    pub(crate) hint: &'static str,
    pub(crate) replicas: &'a [Arc<R>],
    pub(crate) deadline: Option<Instant>,
    /// Whether the request may be sent once more; called after each failure.
    pub(crate) again: &'a (dyn Fn() -> bool + Sync),
    /// Its texts, one of which may be the cause of a failure.
    pub(crate) content: Content<'a>,
    /// Checks whether a peer answers another request of this kind now. Called if failures in
    /// answers would eject the peer.
    pub(crate) vouch: &'a (dyn Fn(Arc<R>) -> BoxFuture<'static, bool> + Sync),
}
