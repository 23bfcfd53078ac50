//! A remote generator that fails on everything.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// Failed calls in a row from which on one text at a time is tried again.
const TRIALS_FROM: u32 = 2;

/// Failed calls in a row from which on the generator counts as failing on everything: the default
/// number of calls in flight, so that the first calls of a run suffice.
const OUTAGE_FROM: u32 = 16;

/// The failed calls since the last answer. One text at a time is tried again, so that an outage
/// costs few calls. A burst of refusals is not an outage: calls of the same round may be answered
/// before that text has made all its tries.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failed: AtomicU32,
    trial: Mutex<()>,
}

impl Outage {
    pub(super) fn answered(&self) {
        self.failed.store(0, Ordering::Relaxed);
    }

    /// Records a call that failed for a reason that does not lie in its text.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of failed calls since the last answer, if it makes an outage.
    pub(super) fn failed_calls(&self) -> Option<u32> {
        Some(self.failed.load(Ordering::Relaxed)).filter(|failed| *failed >= OUTAGE_FROM)
    }

    /// Waits until no other text is tried. `None` if texts need not wait for one another.
    pub(super) async fn trial(&self) -> Option<MutexGuard<'_, ()>> {
        let is_needed = || self.failed.load(Ordering::Relaxed) >= TRIALS_FROM;
        if !is_needed() {
            return None;
        }
        let trial = self.trial.lock().await;
        // The text before may have been answered.
        is_needed().then_some(trial)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_ends_an_outage_and_frees_all_texts() {
        let outage = Outage::default();
        assert!(outage.trial().await.is_none());
        for _ in 0..TRIALS_FROM {
            outage.failed();
        }
        let first = outage.trial().await;
        assert!(first.is_some());
        assert!(outage.trial().now_or_never().is_none(), "one text at a time");
        outage.answered();
        drop(first);
        assert!(outage.trial().await.is_none());
    }

    #[test]
    fn an_outage_is_many_failed_calls_in_a_row() {
        let outage = Outage::default();
        for failed in 0..=OUTAGE_FROM {
            assert_eq!(outage.failed_calls().is_some(), failed >= OUTAGE_FROM);
            outage.failed();
        }
        outage.answered();
        assert!(outage.failed_calls().is_none());
    }
}
