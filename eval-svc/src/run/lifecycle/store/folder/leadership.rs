//! The leadership of a run in the folder: the lock of its process.

use std::time::Duration;

use super::{FolderStore, RunLock, blocking};
use crate::run::{
    StoreError,
    events::Event,
    lifecycle::store::{Leadership, ReportPart},
    record::{AttemptRecord, RecordedLook, RunRecord},
};

/// Interval for updating the record on disk, for readers in other processes.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// The lock of a run in the folder.
#[derive(Debug)]
pub(super) struct FolderLeadership {
    pub(super) store: FolderStore,
    pub(super) _lock: RunLock,
}

#[tonic::async_trait]
impl Leadership for FolderLeadership {
    fn save_every(&self) -> Duration {
        SAVE_EVERY
    }

    /// A full disk is not waited for: the run fails.
    fn waits_for_the_store(&self) -> bool {
        false
    }

    async fn save(&self, record: &RunRecord, _events: &[Event]) -> Result<(), StoreError> {
        let record = record.clone();
        blocking(&self.store, move |store| store.save(&record)).await
    }

    async fn write_files(&self, id: &str, files: &[ReportPart]) -> Result<(), StoreError> {
        let (id, files) = (id.to_owned(), files.to_vec());
        blocking(&self.store, move |store| {
            files
                .iter()
                .try_for_each(|(name, content)| store.write_file(&id, name, content))
        })
        .await
    }

    async fn end(&self, record: &RunRecord, events: &[Event]) -> Result<(), StoreError> {
        self.save(record, events).await
    }

    /// No other process continues a run of the folder.
    async fn hand_back(&self, _record: &RunRecord, _events: &[Event]) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn look(&self, _id: &str, _number: usize) -> Result<Option<RecordedLook>, StoreError> {
        Ok(None)
    }

    async fn record_look(&self, _id: &str, _number: usize, _look: &RecordedLook) -> Result<(), StoreError> {
        Ok(())
    }

    async fn attempt(&self, attempt: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError> {
        let attempt = attempt.clone();
        blocking(&self.store, move |store| store.attempt(&attempt)).await
    }
}
