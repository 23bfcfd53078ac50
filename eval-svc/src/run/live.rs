//! A run that this process executes.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    events::{EventKind, EventLog},
    progress::Meter,
    record::{Counters, RunRecord, Stage, StageProgress},
    store::{RunStore, StoreError},
};

/// How often the record on disk is updated, for readers in other processes.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// The run's record, its events and its cancellation token.
#[derive(Debug)]
pub(super) struct Live {
    record: Mutex<RunRecord>,
    saved: Mutex<Instant>,
    pub(super) events: EventLog,
    pub(super) cancel: CancellationToken,
    interrupted: AtomicBool,
    /// Why it was cancelled; the first reason given stays.
    reason: OnceLock<String>,
    store: RunStore,
}

impl Live {
    pub(super) fn new(record: RunRecord, store: RunStore) -> Self {
        Self {
            record: Mutex::new(record),
            saved: Mutex::new(Instant::now()),
            events: EventLog::default(),
            cancel: CancellationToken::new(),
            interrupted: AtomicBool::new(false),
            reason: OnceLock::new(),
            store,
        }
    }

    pub(super) fn record(&self) -> RunRecord {
        self.record.lock().clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        change(&mut self.record.lock());
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.record.lock().counters);
    }

    /// What it has done so far.
    pub(super) fn counters(&self) -> Counters {
        self.record.lock().counters
    }

    /// Cancels the run at a caller's request and sends the reason, if there is one, to its
    /// watchers.
    pub(super) fn cancel(&self, reason: &str) {
        if !reason.is_empty() && self.reason.set(reason.to_owned()).is_ok() {
            self.message(format!("cancelled: {reason}"));
        }
        self.cancel.cancel();
    }

    /// Why it was cancelled, if a reason was given.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.get().cloned()
    }

    /// Stops the run because the process shuts down.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.cancel.cancel();
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Sends a message for a human reader to the watchers.
    pub(super) fn message(&self, text: impl Into<String>) {
        self.events.push(Timestamp::now(), EventKind::Message(text.into()));
    }

    /// Reports a stage's progress, at most a few times a second.
    pub(super) fn tell(&self, meter: &mut Meter) {
        if let Some(progress) = meter.due(Instant::now()) {
            self.tell_now(progress);
        }
    }

    fn tell_now(&self, progress: StageProgress) {
        {
            let mut record = self.record.lock();
            match record.progress.iter_mut().find(|known| known.stage == progress.stage) {
                Some(known) => *known = progress.clone(),
                None => {
                    record.progress.push(progress.clone());
                    record.progress.sort_by_key(|known| known.stage);
                }
            }
        }
        self.events.push(Timestamp::now(), EventKind::Progress(progress));
        let due = {
            let mut saved = self.saved.lock();
            let due = saved.elapsed() >= SAVE_EVERY;
            if due {
                *saved = Instant::now();
            }
            due
        };
        if due && let Err(error) = self.save() {
            tracing::warn!(%error, "the run's record could not be updated");
        }
    }

    /// Reports the beginning (`done` 0) or the end (`done` 1) of a stage that is one step.
    pub(super) fn step(&self, stage: Stage, done: u64, detail: &str) {
        self.tell_now(StageProgress {
            stage,
            done,
            total: 1,
            cached: 0,
            remaining_seconds: (done == 1).then_some(0.0),
            detail: detail.to_owned(),
        });
    }

    /// Writes the current record. It holds the record's lock while it writes, so the last write has
    /// the newest state. The record of an ended run is already written, and its folder may be gone.
    pub(super) fn save(&self) -> Result<(), StoreError> {
        let record = self.record.lock();
        if record.ended.is_some() {
            return Ok(());
        }
        self.store.save(&record)
    }

    /// Ends the run: changes the record, writes it to disk and sends the last event.
    pub(super) fn end(&self, change: impl FnOnce(&mut RunRecord)) {
        let saved = {
            let mut record = self.record.lock();
            record.ended = Some(Timestamp::now());
            change(&mut record);
            // Saved under the lock: a caller that sees the end may delete the folder.
            self.store.save(&record)
        };
        if let Err(error) = saved {
            tracing::error!(%error, "the end of a run could not be written; it will look interrupted after a restart");
        }
        self.events
            .push(Timestamp::now(), EventKind::Ended(Box::new(self.record())));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::record::RunRequest, *};

    #[test]
    fn who_sees_the_end_of_a_run_may_delete_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        for _ in 0..200 {
            let id = uuid::Uuid::now_v7().to_string();
            let record = RunRecord::new(id, None, RunRequest::default(), Timestamp::now());
            let _lock = store.create(&record).unwrap();
            let live = Live::new(record, store.clone());
            std::thread::scope(|scope| {
                scope.spawn(|| live.end(|_| ()));
                // Writes as often as possible, as progress reports do.
                scope.spawn(|| {
                    while live.record().ended.is_none() {
                        live.save().unwrap();
                    }
                });
                while live.record().ended.is_none() {}
                store.delete(&live.record()).unwrap();
            });
            assert_eq!(store.ids().unwrap(), [""; 0]);
        }
    }
}
