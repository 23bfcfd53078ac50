//! The part of this process in a fleet: work that it queues for other machines, and a worker that
//! executes requests of other processes' runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use isomer_blobs::BlobStore;
pub use isomer_eval::work::fleet::bulk::BulkEncoder;
use isomer_eval::work::fleet::executor::ServiceExecutor;
use isomer_fleet::{Dispatcher, FleetConfig, FleetError, Kind, Queue, limits::Limits, worker::Summary};
use isomer_outbound::shared_limits::SharedLimits;
use isomer_retention::Holds;
use isomer_service_kit::{
    Fault,
    config::{ConfigError, Validate},
};

use crate::{Caller, IsomerConfig, compose::compose_within};

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
/// works for, where it queues no work itself.
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

/// Executes units of some kinds, with a limit for each kind, until `shutdown` resolves. Units in
/// progress then have `grace` to finish. `ready` is called once the queue is connected.
///
/// # Errors
/// If `fleet.engine` is not configured, or a queue, store or service cannot be used.
pub async fn work(
    config: IsomerConfig,
    kinds: BTreeMap<Kind, usize>,
    grace: Duration,
    ready: impl FnOnce(&str),
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Summary, Fault> {
    config.validate().map_err(FleetError::from)?;
    if !config.fleet.is_set() {
        let error = ConfigError::new(
            "fleet.engine",
            "is empty: there is no queue to take work from",
            "give --engine nats://HOST:PORT",
        );
        return Err(FleetError::from(error).into());
    }
    let Some(blobs) = BlobStore::open(&config.store)? else {
        let error = ConfigError::new("store.url", "is empty: there is no store for answers", "give --store");
        return Err(FleetError::from(error).into());
    };
    let queue = Box::pin(Queue::connect(&config.fleet)).await?;
    // The services of a worker do all work here: they must not queue it again.
    let alone = IsomerConfig {
        fleet: FleetConfig::default(),
        ..config
    };
    let (eval, embed) = (alone.eval.clone(), alone.embed.clone());
    let limits = Limits::connect(&queue).await?;
    let app = Box::pin(compose_within(alone, Caller::Owner, Some(Arc::new(limits.clone())))).await?;
    // Composing has limited the instructions, which the class names.
    let class = embed.class();
    let performer = Arc::new(ServiceExecutor::new(app.clients(), &eval, &class, blobs.clone()));
    ready(&class);
    let worked = isomer_fleet::worker::work((queue, blobs), performer, kinds, shutdown, grace).await;
    app.flush_vectors().await;
    limits.close().await;
    Ok(worked?)
}
