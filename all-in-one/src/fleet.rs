//! The fleet connection of this process: it queues work for other machines.

use std::sync::Arc;

pub use isomer_eval::work::fleet::bulk::BulkEncoder;
use isomer_fleet::{Dispatcher, FleetConfig, Queue, limits::Limits};
use isomer_outbound::shared_limits::SharedLimits;
use isomer_retention::Holds;
use isomer_service_kit::Fault;

/// The parts of a fleet that this process uses; none if the configuration names no queue.
pub(crate) struct Connection {
    /// Executes units of runs.
    pub(crate) workers: Option<Dispatcher>,
    /// Encodes texts outside of runs.
    pub(crate) bulk: Option<BulkEncoder>,
    /// Limits of generators that hold over all processes.
    pub(crate) limits: Option<Arc<dyn SharedLimits>>,
}

/// Connects to the queue of a configuration. `limits` are those of the fleet that this process
/// works for, if it queues no work itself.
pub(crate) async fn connect(
    config: &FleetConfig,
    store: Option<&Holds>,
    class: &str,
    limits: Option<Arc<dyn SharedLimits>>,
) -> Result<Connection, Fault> {
    if !config.is_set() {
        return Ok(Connection {
            workers: None,
            bulk: None,
            limits,
        });
    }
    let queue = Box::pin(Queue::connect(config)).await?;
    let limits = match limits {
        Some(limits) => limits,
        None => Arc::new(Limits::connect(&queue).await?),
    };
    let workers = match store {
        Some(store) => Some(Dispatcher::open(queue, store.clone()).await?),
        None => None,
    };
    Ok(Connection {
        bulk: workers.clone().map(|workers| BulkEncoder::new(workers, class)),
        workers,
        limits: Some(limits),
    })
}
