//! A store behind a cache: whoever uses it can do without.

use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::BlobStore;

/// How long a store that failed is left alone.
const REST: Duration = Duration::from_secs(60);

/// A store that a cache can do without. A failure is a warning and a count in a metric; then the
/// store is left alone for a minute, so that nobody waits for it again and again. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SpareStore {
    blobs: BlobStore,
    /// Longest wait for one request.
    limit: Duration,
    /// Counter of failures.
    metric: &'static str,
    rested: Arc<Mutex<Option<Instant>>>,
}

impl SpareStore {
    /// Requests take at most `limit`; failures are counted in `metric`.
    pub fn new(blobs: BlobStore, limit: Duration, metric: &'static str) -> Self {
        Self {
            blobs,
            limit,
            metric,
            rested: Arc::default(),
        }
    }

    /// The store.
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// What a request comes to; `None` if it fails, takes too long, or the store is left alone.
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
        tracing::warn!(error, "the store failed; going on without it for {REST:?}");
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
        // It is not asked again.
        let asked = async || -> Result<(), BlobError> { panic!("it was asked") };
        assert_eq!(spare.attempt(asked()).await, None);
        let other = SpareStore::new(blobs.clone(), Duration::from_millis(50), "failures");
        assert!(other.attempt(blobs.get("x")).await.is_some());
    }
}
