//! A worker of a fleet: services of one process that execute requests of other processes' runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use isomer_blobs::BlobStore;
use isomer_eval::work::fleet::executor::ServiceExecutor;
use isomer_fleet::{
    FleetConfig, FleetError, Kind, Queue,
    limits::Limits,
    worker::{Summary, UnitSource},
};
use isomer_service_kit::{
    Fault,
    config::{ConfigError, Validate},
};

use crate::{Caller, IsomerConfig, compose::compose_within};

/// Executes units of some kinds, with a limit for each kind, until `shutdown` resolves or a device
/// is lost. Units in progress then have `grace` to complete. `ready` is called once the queue is
/// connected.
///
/// # Errors
/// If `fleet.engine` is not configured, a queue, store or service cannot be used, or a device was
/// lost.
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
    // The services of a worker do all work themselves and must not queue it again.
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
    let ending = app.stopped_by(shutdown);
    let worked = isomer_fleet::worker::work(UnitSource { queue, blobs }, performer, kinds, ending, grace).await;
    app.flush_vectors().await;
    limits.close().await;
    app.check_devices()?;
    Ok(worked?)
}
