//! Locks by request id, so that equal requests create one run.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

/// Locks of the requests that are creating a run.
#[derive(Debug, Default)]
pub(super) struct RequestLocks(Mutex<HashMap<String, Weak<Lock>>>);

impl RequestLocks {
    /// Waits until no other call creates a run for this request id.
    pub(super) async fn lock(&self, id: &str) -> OwnedMutexGuard<()> {
        let lock: Arc<Lock> = {
            let mut locks = self.0.lock();
            // Without those that no call uses any more.
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(id).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(id.to_owned(), Arc::downgrade(&known));
            known
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn equal_request_ids_wait_for_each_other_and_leave_no_lock_behind() {
        let locks = RequestLocks::default();
        let (first, other) = (locks.lock("a").await, locks.lock("b").await);
        assert!(locks.lock("a").now_or_never().is_none());
        drop((first, other));
        assert!(locks.lock("a").now_or_never().is_some());
        let _last = locks.lock("c").await;
        assert_eq!(locks.0.lock().len(), 1);
    }
}
