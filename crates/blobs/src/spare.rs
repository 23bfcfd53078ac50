//! A store behind a cache. Its users can work without it.

use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::BlobStore;

/// How long a store is not used after a failure.
const REST: Duration = Duration::from_secs(60);

/// An optional store of a cache. A failure is logged as a warning and counted in a metric. After it
/// the store is not used for a minute, so that callers do not wait for it again and again. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct SpareStore {
    blobs: BlobStore,
    /// Maximum wait for one request.
    limit: Duration,
    /// Name of the failure counter.
    metric: &'static str,
    rested: Arc<Mutex<Option<Instant>>>,
}

impl SpareStore {
    /// A store whose requests take at most `limit`; failures are counted in `metric`.
    pub fn new(blobs: BlobStore, limit: Duration, metric: &'static str) -> Self {
        Self {
            blobs,
            limit,
            metric,
            rested: Arc::default(),
        }
    }

    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// The result of a request; `None` if it fails, takes too long, or the store is paused.
    pub async fn attempt<T, E: Display>(&self, request: impl Future<Output = Result<T, E>>) -> Option<T> {
        if self.rested.lock().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let error = match tokio::time::timeout(self.limit, request).await {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the store {}: no answer within {:?}", self.blobs.url(), self.limit),
        };
        metrics::counter!(self.metric).increment(1);
        tracing::warn!(error, "the store failed; continuing without it for {REST:?}");
        *self.rested.lock() = Some(Instant::now() + REST);
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{BlobError, StoreConfig};

    #[tokio::test]
    async fn a_store_that_failed_is_left_alone_and_one_that_works_is_not() {
        let place = tempfile::tempdir().unwrap();
        let config = StoreConfig {
            url: place.path().display().to_string(),
            ..StoreConfig::default()
        };
        let blobs = BlobStore::open(&config).unwrap().unwrap();
        let spare = SpareStore::new(blobs.clone(), Duration::from_millis(50), "failures");
        for _ in 0..2 {
            assert!(spare.attempt(blobs.put_new("x", b"body")).await.is_some());
        }
        assert_eq!(
            spare.attempt(std::future::pending::<Result<(), BlobError>>()).await,
            None
        );
        // The store is not used again.
        let asked = async || -> Result<(), BlobError> { panic!("it was asked") };
        assert_eq!(spare.attempt(asked()).await, None);
        let other = SpareStore::new(blobs.clone(), Duration::from_millis(50), "failures");
        assert!(other.attempt(blobs.get("x")).await.is_some());
    }
}
