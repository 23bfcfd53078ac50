//! Asking providers whether they are well, and whether they are still who they were.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_service_kit::Fault;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::router::Shared;

/// Health checks between two looks at what open providers list.
const LISTING_EVERY: u32 = 30;

/// Runs until the router is gone.
pub(super) async fn watch(router: Weak<Shared>) {
    let Some(config) = router.upgrade().map(|shared| shared.config.clone()) else {
        return;
    };
    let mut ticks = interval(Duration::from_millis(config.health_interval_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut probed = Instant::now();
    // The router was made from a first look at them.
    let mut tick = 1_u32;
    loop {
        ticks.tick().await;
        let Some(shared) = router.upgrade() else { return };
        check(&shared, Duration::from_millis(config.health_timeout_ms)).await;
        if tick.is_multiple_of(LISTING_EVERY) {
            shared.look_at_listings().await;
        }
        tick = tick.wrapping_add(1);
        let due = config.probe_interval_seconds > 0 && probed.elapsed().as_secs() >= config.probe_interval_seconds;
        if due {
            probed = Instant::now();
        }
        let routes: Vec<_> = shared
            .table()
            .routes
            .values()
            .filter(|route| due || route.wants_look(config.probe_interval_seconds > 0))
            .cloned()
            .collect();
        if !routes.is_empty() {
            // Beside the health checks: a probe may wait for a model to be loaded.
            tokio::spawn(async move {
                for route in routes {
                    route.probe().await;
                }
            });
        }
    }
}

async fn check(shared: &Shared, patience: Duration) {
    let table = shared.table();
    let remote = table.replicas.iter().filter(|member| member.replica.remote);
    let checks = remote.map(|member| {
        let replica = Arc::clone(&member.replica);
        async move {
            let outcome = match timeout(patience, replica.backend.healthy()).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let message = format!("no word on its health within {} ms", patience.as_millis());
                    Err(Fault::unavailable("HEALTH_TIMEOUT", message))
                }
            };
            replica.checked(outcome);
        }
    });
    futures::future::join_all(checks).await;
}
