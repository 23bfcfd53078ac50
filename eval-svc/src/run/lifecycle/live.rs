//! A run that this process executes.

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

use super::store::{Leadership, ReportPart};
use crate::run::{
    StoreError,
    events::EventKind,
    progress::RunProgress,
    record::{RecordedLook, RunRecord},
};

/// Pause before a failed request to the ledger is retried.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum wait for a response of the ledger. A broken connection to a database gives none.
const ANSWER: Duration = Duration::from_secs(10);

/// The run's progress, its cancellation and the right to write its state.
#[derive(Debug)]
pub(crate) struct Live {
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

impl Live {
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
    /// As [`Live::save`].
    pub(crate) async fn write_files(&self, files: &[ReportPart]) -> Result<(), StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.write_files(&id, files)).await)
    }

    /// The look of a gate recorded by an earlier leader.
    ///
    /// # Errors
    /// As [`Live::save`].
    pub(crate) async fn look(&self, number: usize) -> Result<Option<RecordedLook>, StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.look(&id, number)).await)
    }

    /// Records a look of a gate before its result is used.
    ///
    /// # Errors
    /// As [`Live::save`].
    pub(crate) async fn record_look(&self, number: usize, look: &RecordedLook) -> Result<(), StoreError> {
        let writer = self.writer.lock().await;
        let id = self.progress.record.lock().id.clone();
        let leadership = writer.leadership.as_deref().ok_or(StoreError::Superseded)?;
        self.checked(waiting(leadership, || leadership.record_look(&id, number, look)).await)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::{Arc, atomic::AtomicUsize};

    use super::*;
    use crate::run::{
        events::Event,
        lifecycle::store::{Created, FolderStore, RunStore},
        record::{RunRequest, RunState},
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn who_sees_the_end_of_a_run_may_delete_it() {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn RunStore> = Arc::new(FolderStore::open(folder.path()).unwrap());
        for _ in 0..200 {
            let id = uuid::Uuid::now_v7().to_string();
            let record = RunRecord::new(id, None, RunRequest::default(), Timestamp::now());
            let Created::New(lead) = store.create(&record).await.unwrap() else {
                panic!("the run is new");
            };
            let live = Arc::new(Live::new(record, lead, 0));
            let ending = tokio::spawn({
                let live = Arc::clone(&live);
                async move { live.end(|_| ()).await }
            });
            // Writes as often as possible, as progress reports do.
            let writing = tokio::spawn({
                let live = Arc::clone(&live);
                async move {
                    while live.record().ended.is_none() {
                        live.save().await.unwrap();
                    }
                }
            });
            while live.record().ended.is_none() {
                tokio::task::yield_now().await;
            }
            store.delete(&live.record()).await.unwrap();
            ending.await.unwrap();
            writing.await.unwrap();
            assert_eq!(store.ends().await.unwrap(), []);
        }
    }

    /// The store of a run that fails a number of times.
    #[derive(Debug)]
    struct Away {
        failures: AtomicUsize,
        waits: bool,
    }

    impl Away {
        fn answer(&self) -> Result<(), StoreError> {
            match self.failures.load(Ordering::SeqCst) {
                0 => Ok(()),
                left => {
                    self.failures.store(left - 1, Ordering::SeqCst);
                    Err(Fault::unavailable("DATABASE", "away").into())
                }
            }
        }
    }

    #[tonic::async_trait]
    impl Leadership for Away {
        fn save_every(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn waits_for_the_store(&self) -> bool {
            self.waits
        }

        async fn save(&self, _record: &RunRecord, _events: &[Event]) -> Result<(), StoreError> {
            self.answer()
        }

        async fn write_files(&self, _id: &str, _files: &[ReportPart]) -> Result<(), StoreError> {
            self.answer()
        }

        async fn end(&self, _record: &RunRecord, _events: &[Event]) -> Result<(), StoreError> {
            self.answer()
        }

        async fn hand_back(&self, _record: &RunRecord, _events: &[Event]) -> Result<bool, StoreError> {
            Ok(false)
        }

        async fn look(&self, _id: &str, _number: usize) -> Result<Option<RecordedLook>, StoreError> {
            // No response at all, as over a broken connection.
            if self.answer().is_err() {
                std::future::pending::<()>().await;
            }
            Ok(None)
        }

        async fn record_look(&self, _id: &str, _number: usize, _look: &RecordedLook) -> Result<(), StoreError> {
            self.answer()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_for_a_ledger_that_is_away_and_not_for_a_folder() {
        for waits in [true, false] {
            let record = RunRecord::new("a".to_owned(), None, RunRequest::default(), Timestamp::now());
            let store = |failures| {
                let failures = AtomicUsize::new(failures);
                Live::new(record.clone(), Box::new(Away { failures, waits }), 0)
            };
            assert_eq!(store(3).save().await.is_ok(), waits);
            assert_eq!(store(3).write_files(&[]).await.is_ok(), waits);
            if waits {
                assert!(store(2).look(1).await.is_ok());
            }
            assert!(store(0).save().await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_not_written_is_no_success() {
        for (failures, state) in [(0, RunState::Succeeded), (1, RunState::Failed)] {
            let record = RunRecord::new("a".to_owned(), None, RunRequest::default(), Timestamp::now());
            let away = Away {
                failures: AtomicUsize::new(failures),
                waits: false,
            };
            let live = Live::new(record, Box::new(away), 0);
            live.end(|record| record.state = RunState::Succeeded).await;
            let record = live.record();
            assert_eq!((record.state, record.failure.is_some()), (state, failures > 0));
        }
    }
}
