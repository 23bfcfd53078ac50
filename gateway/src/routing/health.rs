//! Checks whether providers are healthy, and whether they still serve the same models.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_service_kit::Fault;
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::Instrument;

use super::{peer::Peer, router::Shared};

/// Number of health checks between two reads of the lists of open providers.
const LISTING_EVERY: u32 = 30;

/// Runs until the router is dropped.
pub(super) async fn watch(router: Weak<Shared>) {
    let Some(config) = router.upgrade().map(|shared| shared.policy.config.clone()) else {
        return;
    };
    let mut ticks = interval(Duration::from_millis(config.health_interval_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut probed = Instant::now();
    // The router already made a first check of them when it was created.
    let mut tick = 1_u32;
    let mut looking: Option<JoinHandle<()>> = None;
    loop {
        ticks.tick().await;
        let Some(shared) = router.upgrade() else { return };
        check(&shared, Duration::from_millis(config.health_timeout_ms)).await;
        if tick.is_multiple_of(LISTING_EVERY) && looking.as_ref().is_none_or(JoinHandle::is_finished) {
            // Runs concurrently with the health checks, which must not wait for a provider whose
            // list hangs.
            let shared = Arc::clone(&shared);
            let look = async move { shared.look_at_listings().await };
            looking = Some(tokio::spawn(look.in_current_span()));
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
            // Runs concurrently with the health checks, because a probe may wait for a model to be
            // loaded.
            let probing = async move {
                for route in routes {
                    route.probe().await;
                }
            };
            tokio::spawn(probing.in_current_span());
        }
    }
}

async fn check(shared: &Shared, patience: Duration) {
    let table = shared.table();
    let remote = table.replicas.iter().filter(|member| member.replica.remote);
    let checks = remote.map(|member| {
        let replica = Arc::clone(&member.replica);
        async move { ask(&replica.peer, patience, replica.backend.healthy()).await }
    });
    futures::future::join_all(checks).await;
}

/// Makes one health check. A missing answer counts as a failure.
pub(crate) async fn ask(peer: &Peer, patience: Duration, answer: impl Future<Output = Result<(), Fault>>) {
    let heard = timeout(patience, answer).await;
    let silent = heard.is_err();
    let outcome = heard.unwrap_or_else(|_| {
        let message = format!("no answer to a health check within {} ms", patience.as_millis());
        Err(Fault::unavailable("HEALTH_TIMEOUT", message))
    });
    peer.checked(outcome, silent);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use isomer_adapters::EncoderBackend;
    use isomer_proto::{
        encoder::v1::{
            CountTokensRequest, CountTokensResponse, EncodeRequest, EncodeResponse, Encoder, RerankRequest,
            RerankResponse,
        },
        gateway::v1::Provider,
    };
    use parking_lot::Mutex;
    use tokio::{sync::watch, time::sleep};

    use super::*;
    use crate::routing::{ConfiguredEncoders, Router, RoutingConfig};

    /// Reads the list of an open provider. A list that hangs is skipped, except the first time.
    #[derive(Debug, Default)]
    struct Lister {
        looks: AtomicUsize,
        checks: Arc<AtomicUsize>,
        /// Number of health checks while the list hung.
        meanwhile: Arc<Mutex<Option<usize>>>,
    }

    /// A read of the list, until it ends.
    struct Look {
        before: usize,
        checks: Arc<AtomicUsize>,
        meanwhile: Arc<Mutex<Option<usize>>>,
    }

    impl Drop for Look {
        fn drop(&mut self) {
            *self.meanwhile.lock() = Some(self.checks.load(SeqCst) - self.before);
        }
    }

    #[tonic::async_trait]
    impl EncoderBackend for Lister {
        async fn list(&self) -> Result<Vec<Encoder>, Fault> {
            if self.looks.fetch_add(1, SeqCst) > 0 {
                let _look = Look {
                    before: self.checks.load(SeqCst),
                    checks: Arc::clone(&self.checks),
                    meanwhile: Arc::clone(&self.meanwhile),
                };
                std::future::pending::<()>().await;
            }
            Ok(Vec::new())
        }

        async fn get(&self, _: &str) -> Result<Encoder, Fault> {
            Err(Fault::unimplemented("no"))
        }

        async fn encode(&self, _: EncodeRequest, _: Option<Instant>) -> Result<EncodeResponse, Fault> {
            Err(Fault::unimplemented("no"))
        }

        async fn count_tokens(&self, _: CountTokensRequest, _: Option<Instant>) -> Result<CountTokensResponse, Fault> {
            Err(Fault::unimplemented("no"))
        }

        async fn rerank(&self, _: RerankRequest, _: Option<Instant>) -> Result<RerankResponse, Fault> {
            Err(Fault::unimplemented("no"))
        }

        async fn healthy(&self) -> Result<(), Fault> {
            self.checks.fetch_add(1, SeqCst);
            Ok(())
        }

        fn is_open(&self) -> bool {
            true
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_hangs_on_its_list_holds_up_no_health_check() {
        let lister = Arc::new(Lister::default());
        let fixed = ConfiguredEncoders {
            name: "lister".to_owned(),
            backend: Arc::<Lister>::clone(&lister),
            remote: true,
        };
        let config = RoutingConfig {
            health_interval_ms: 2,
            health_timeout_ms: 1000,
            probe_interval_seconds: 0,
            ..RoutingConfig::default()
        };
        let (_registry, none) = watch::channel(Vec::new().into());
        let refuse = |_: &Provider| Err(Fault::internal("no providers here"));
        let _router = Router::new(config, None, vec![fixed], none, refuse).await;
        let meanwhile = timeout(Duration::from_secs(30), async {
            loop {
                if let Some(checks) = *lister.meanwhile.lock() {
                    break checks;
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
        let meanwhile = meanwhile.await.expect("the list is given up");
        assert!(meanwhile > 10, "{meanwhile} checks while the list hung");
    }
}
