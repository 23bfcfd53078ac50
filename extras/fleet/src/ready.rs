//! Waits at the start of a process until a cluster of brokers has chosen its leader.

use std::time::{Duration, Instant};

use crate::{
    WorkerInfo,
    queue::{FleetError, Queue},
};

/// How long brokers that start at the same time as this process may take to find each other.
const ELECTING: Duration = Duration::from_secs(60);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages of, or about, a broker while its cluster has no leader or too few members. A broker
/// without JetStream has other messages.
const PASSES: [&str; 4] = [
    "timed out",
    "temporarily unavailable",
    "no suitable peers",
    // The error concerns a bucket that was just opened: its members have not chosen a leader yet.
    "no stream found for given subject",
];

impl Queue {
    /// Creates the stream and the bucket of lanes if they are missing. Waits while the brokers are
    /// still choosing a leader.
    pub(crate) async fn ready(&self) -> Result<(), FleetError> {
        once_chosen(|| async {
            self.stream().await?;
            self.lanes_bucket().await.map(drop)
        })
        .await
    }

    /// Creates the record of a worker. Waits like [`Queue::ready`], because each bucket has its own
    /// leader.
    pub(crate) async fn register(&self, worker: &WorkerInfo) -> Result<(), FleetError> {
        once_chosen(|| self.heartbeat(worker)).await
    }
}

/// Retries while the brokers are still choosing a leader.
async fn once_chosen<F>(attempt: impl Fn() -> F) -> Result<(), FleetError>
where
    F: Future<Output = Result<(), FleetError>>,
{
    let begun = Instant::now();
    loop {
        let Err(error) = attempt().await else { return Ok(()) };
        let text = error.to_string();
        if !PASSES.iter().any(|passes| text.contains(passes)) || begun.elapsed() >= ELECTING {
            return Err(error);
        }
        tracing::warn!(%error, "the brokers have no leader yet; retrying");
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    /// The number of attempts and the outcome if the first attempt fails with this message.
    async fn tried(message: &str) -> (u32, bool) {
        let attempts = AtomicU32::new(0);
        let attempt = || async {
            match attempts.fetch_add(1, SeqCst) {
                0 => Err(FleetError::Broker {
                    engine: "nats://here".to_owned(),
                    what: "cannot register a worker",
                    message: message.to_owned(),
                }),
                _ => Ok(()),
            }
        };
        let ended = once_chosen(attempt).await;
        (attempts.load(SeqCst), ended.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_without_a_leader_is_waited_for_and_a_broker_without_buckets_is_not() {
        let no_leader = tried("ack error: no stream found for given subject").await;
        assert_eq!(no_leader, (2, true));
        let without = tried("JetStream is not enabled for account").await;
        assert_eq!(without, (1, false));
    }
}
