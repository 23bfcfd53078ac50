#![allow(clippy::unwrap_used, clippy::panic)]
use std::sync::{Arc, atomic::AtomicUsize};

use super::*;
use crate::run::{
    events::Event,
    lifecycle::store::{Creation, FolderStore, RunStore},
    record::{RunRequest, RunState},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn who_sees_the_end_of_a_run_may_delete_it() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn RunStore> = Arc::new(FolderStore::open(folder.path()).unwrap());
    for _ in 0..200 {
        let id = uuid::Uuid::now_v7().to_string();
        let record = RunRecord::new(id, None, RunRequest::default(), Timestamp::now());
        let Creation::New(lead) = store.create(&record).await.unwrap() else {
            panic!("the run is new");
        };
        let live = Arc::new(LiveRun::new(record, lead, 0));
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

    async fn attempt(&self, attempt: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError> {
        self.answer().map(|()| vec![attempt.clone()])
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_a_ledger_that_is_away_and_not_for_a_folder() {
    for waits in [true, false] {
        let record = RunRecord::new("a".to_owned(), None, RunRequest::default(), Timestamp::now());
        let store = |failures| {
            let failures = AtomicUsize::new(failures);
            LiveRun::new(record.clone(), Box::new(Away { failures, waits }), 0)
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
        let live = LiveRun::new(record, Box::new(away), 0);
        live.end(|record| record.state = RunState::Succeeded).await;
        let record = live.record();
        assert_eq!((record.state, record.failure.is_some()), (state, failures > 0));
    }
}
