//! Limits the number of texts or ratings that a stub makes, so that a test stops a run at a known
//! place instead of depending on timing.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// A limit on the number of results; unlimited at first.
#[derive(Debug)]
pub struct Quota {
    most: watch::Sender<u64>,
    begun: AtomicU64,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            most: watch::Sender::new(u64::MAX),
            begun: AtomicU64::new(0),
        }
    }
}

impl Quota {
    /// Sets the total limit; the next request waits.
    pub fn stop_after(&self, most: u64) {
        self.most.send_replace(most);
    }

    /// Removes the bound.
    pub fn lift(&self) {
        self.stop_after(u64::MAX);
    }

    /// Waits until the limit permits one more.
    pub async fn take(&self) {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let mut most = self.most.subscribe();
        // The sender lives as long as the quota.
        most.wait_for(|most| number <= *most).await.unwrap();
    }
}
