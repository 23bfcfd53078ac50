//! Waits, when a process starts, until a cluster of brokers has chosen its leader.

use std::time::{Duration, Instant};

use crate::queue::{FleetError, Queue};

/// How long brokers that start at the same time as this process may take to find each other.
const ELECTING: Duration = Duration::from_secs(60);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// What a broker says, or what is said of one, while its cluster has no leader or too few members.
/// A broker without JetStream says something else.
const PASSES: [&str; 3] = ["timed out", "temporarily unavailable", "no suitable peers"];

impl Queue {
    /// Creates the stream and the bucket of lanes if they are missing. Waits while the brokers are
    /// still choosing a leader.
    pub(crate) async fn ready(&self) -> Result<(), FleetError> {
        let begun = Instant::now();
        loop {
            let opened = async {
                self.stream().await?;
                self.lanes_bucket().await
            };
            let error = match opened.await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let text = error.to_string();
            if !PASSES.iter().any(|passes| text.contains(passes)) || begun.elapsed() >= ELECTING {
                return Err(error);
            }
            tracing::warn!(%error, "the brokers have no leader yet; retrying");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
