//! Ends leases on time and watches for changes of other gateways.

use std::{sync::Weak, time::Duration};

use crate::{metric_names, registry::Inner};

/// Minimum pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the registry is dropped.
pub(crate) async fn keep(registry: Weak<Inner>) {
    let mut failing = false;
    loop {
        let Some(inner) = registry.upgrade() else { return };
        let leases = inner.leases.clone();
        let quiet = inner.quiet();
        let quiet = if failing { quiet.max(PAUSE) } else { quiet };
        // Waiting must not keep the registry alive.
        drop(inner);
        tokio::select! {
            () = tokio::time::sleep(quiet) => {}
            () = leases.notified() => continue,
        }
        let Some(inner) = registry.upgrade() else { return };
        match inner.look().await {
            Ok(()) => {
                if failing {
                    tracing::info!("the database of providers can be read again");
                }
                failing = false;
            }
            Err(fault) => {
                metrics::counter!(metric_names::DATABASE_ERRORS).increment(1);
                if !failing {
                    tracing::error!(%fault, "the database of providers cannot be read: known providers stay, leases end");
                }
                failing = true;
                // An expired lease is over even if its row cannot be deleted.
                inner.publish();
            }
        }
    }
}
