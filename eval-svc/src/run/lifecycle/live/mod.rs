//! A run that this process executes.

#[cfg(test)]
mod tests;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use isomer_service_kit::Fault;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::run::{
    StoreError,
    events::EventKind,
    lifecycle::store::{Leadership, ReportPart},
    progress::RunProgress,
    record::{AttemptRecord, RecordedLook, RunRecord},
};

/// Pause before a failed request to the ledger is retried.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum wait for a response of the ledger. A broken connection to a database gives none.
const ANSWER: Duration = Duration::from_secs(10);

/// The run's progress, its cancellation and the right to write its state.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) progress: RunProgress,
    pub(crate) cancel: CancellationToken,
    interrupted: AtomicBool,
    superseded: AtomicBool,
    /// The reason of the cancellation; the first reason given is kept.
    reason: OnceLock<String>,
    /// One writer at a time, so that the last write has the newest state.
    writer: tokio::sync::Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    /// Absent after the run has ended or was handed over.
    leadership: Option<Box<dyn Leadership>>,
    /// Sequence number of the last written event.
    written: u64,
}

impl LiveRun {
    /// A run that this process leads. Its events continue after a sequence number.
    pub(crate) fn new(record: RunRecord, leadership: Box<dyn Leadership>, after: u64) -> Self {
        Self {
            progress: RunProgress::new(record, after),
            cancel: CancellationToken::new(),
            interrupted: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            reason: OnceLock::new(),
            writer: tokio::sync::Mutex::new(Writer {
                leadership: Some(leadership),
                written: after,
            }),
        }
    }

    pub(crate) fn record(&self) -> RunRecord {
        self.progress.record.lock().clone()
    }

    /// Whether the run has not ended.
    pub(crate) fn is_active(&self) -> bool {
        self.progress.record.lock().is_active()
    }

    /// Cancels the run at a caller's request and sends the reason, if there is one, to its
    /// watchers.
    pub(crate) fn cancel(&self, reason: &str) {
        if !reason.is_empty() && self.reason.set(reason.to_owned()).is_ok() {
            self.progress.message(format!("cancelled: {reason}"));
        }
        self.cancel.cancel();
    }

    /// The reason of the cancellation, if one was given.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.get().cloned()
    }

    /// Stops the run because the process is shutting down.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.cancel.cancel();
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Whether another replica leads the run, or may lead it.
    pub(crate) fn superseded(&self) -> bool {
        self.superseded.load(Ordering::SeqCst)
    }

    /// Stops the run here, because another replica leads it.
    pub(crate) fn supersede(&self) {
        if !self.superseded.swap(true, Ordering::SeqCst) {
            let id = self.progress.record.lock().id.clone();
            tracing::warn!(id, "another replica leads this run now; it is stopped here");
        }
        self.cancel.cancel();
        self.progress.events.wake();
    }

    /// Writes changes at intervals, for readers in other processes. Ends only if the run was handed
    /// over or has ended.
    pub(crate) async fn save_changes(&self) {
        loop {
            self.progress.changed.notified().await;
            let Some(every) = self
                .writer
                .lock()
                .await
                .leadership
                .as_ref()
                .map(|lead| lead.save_every())
            else {
                return;
            };
            tokio::time::sleep(every).await;
            match self.save().await {
                Ok(()) => {}
                Err(StoreError::Superseded) => return,
                Err(error) => {
                    tracing::warn!(%error, "the run's record could not be updated");
                    self.progress.changed.notify_one();
                }
            }
        }
    }

    /// Writes the current record and new events. The record of an ended run is already written, and
    /// its folder may no longer exist.
    ///
    /// # Errors
    /// If the store fails, or if another replica leads the run.
    pub(crate) async fn save(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock().await;
        let Some(leadership) = &writer.leadership else {
            return Ok(());
        };
        let (record, events) = (self.record(), self.progress.events.after(writer.written));
        let saved = waiting(&**leadership, || leadership.save(&record, &events)).await;
        self.checked(saved)?;
        if let Some(last) = events.last() {
            writer.written = last.sequence;
        }
        Ok(())
    }

    /// Writes the files of the report.
    ///
    /// # Errors
    /// As [`LiveRun::save`].
    pub(crate) async fn write_files(&self, files: &[ReportPart]) -> Result<(), StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.write_files(&id, files)).await)
    }

    /// The look of a gate recorded by an earlier leader.
    ///
    /// # Errors
    /// As [`LiveRun::save`].
    pub(crate) async fn look(&self, number: usize) -> Result<Option<RecordedLook>, StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.look(&id, number)).await)
    }

    /// Records a look of a gate before its result is used.
    ///
    /// # Errors
    /// As [`LiveRun::save`].
    pub(crate) async fn record_look(&self, number: usize, look: &RecordedLook) -> Result<(), StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.record_look(&id, number, look)).await)
    }

    /// Records an attempt, unless it is recorded, and returns all of its subject and owner.
    ///
    /// # Errors
    /// As [`LiveRun::save`].
    pub(crate) async fn attempt(&self, attempt: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError> {
        let writer = self.writer.lock().await;
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.attempt(attempt)).await)
    }

    /// Ends the run: changes the record, writes it and sends the last event. Has no effect if
    /// another replica leads the run.
    pub(crate) async fn end(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut writer = self.writer.lock().await;
        let Some(leadership) = writer.leadership.take() else {
            return;
        };
        let mut record = self.record();
        record.ended = Some(Timestamp::now());
        change(&mut record);
        let events = self.progress.events.after(writer.written);
        match waiting(&*leadership, || leadership.end(&record, &events)).await {
            Ok(()) => {}
            Err(StoreError::Superseded) => return self.supersede(),
            Err(error) => {
                tracing::error!(%error, "the end of a run could not be written");
                // After a restart the run is marked as interrupted, so no caller must see a better
                // end.
                let message = format!(
                    "the end of the run could not be written: {error}; start it again, finished units are kept"
                );
                record.fail(Code::Unavailable, message);
            }
        }
        let record = record.outline();
        *self.progress.record.lock() = record.clone();
        drop(leadership);
        self.progress
            .events
            .push(Timestamp::now(), EventKind::Ended(Box::new(record)));
        self.progress.changed.notify_one();
    }

    /// Gives up the leadership so that another replica continues the run. Returns whether that was
    /// possible.
    pub(crate) async fn hand_back(&self) -> bool {
        let mut writer = self.writer.lock().await;
        let Some(leadership) = &writer.leadership else {
            return true;
        };
        let events = self.progress.events.after(writer.written);
        match leadership.hand_back(&self.record(), &events).await {
            Ok(false) => return false,
            Ok(true) | Err(StoreError::Superseded) => {}
            Err(error) => tracing::warn!(%error, "a run could not be handed back; another replica takes it over later"),
        }
        writer.leadership = None;
        self.superseded.store(true, Ordering::SeqCst);
        self.progress.events.wake();
        self.progress.changed.notify_one();
        true
    }

    fn checked<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Superseded) = result {
            self.supersede();
        }
        result
    }
}

/// A request to the store of a run, retried while the store is unreachable. Every request is
/// idempotent: it writes the same again, or nothing.
async fn waiting<T, F>(leadership: &dyn Leadership, request: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    if !leadership.waits_for_the_store() {
        return request().await;
    }
    loop {
        let fault = match tokio::time::timeout(ANSWER, request()).await {
            Ok(Err(StoreError::Ledger(fault))) if fault.code == Code::Unavailable => fault,
            Ok(other) => return other,
            Err(_) => {
                let message = format!("the ledger gave no answer in {} s", ANSWER.as_secs());
                Box::new(Fault::unavailable("DATABASE", message))
            }
        };
        tracing::warn!(%fault, "a run waits for its ledger; retrying");
        tokio::time::sleep(AGAIN).await;
    }
}
