//! The storage of runs: in a folder of this machine ([`folder`]), or in a database ledger shared by
//! several replicas ([`ledger`]).
//!
//! A process executes a run while it holds its [`Leadership`]. In a folder the operating system
//! releases it when the process dies; the run is then marked as interrupted. In a ledger another
//! replica takes it over and continues the run.

mod folder;
mod ledger;

use std::{fmt::Debug, time::Duration};

use jiff::Timestamp;

use crate::run::{
    error::StoreError,
    events::Event,
    record::{AttemptRecord, RecordedLook, RunRecord},
};

pub(super) use folder::FolderStore;
pub use ledger::Ledger;
pub(super) use ledger::forget as forget_in_ledger;
pub(super) use ledger::{ActiveRun, CANCEL_LOOK, Claim, Observer};

/// Message of a run whose process ended before the run did.
pub const INTERRUPTED: &str = "interrupted; start it again, finished units are kept";

/// A page of a list of runs, newest first and without the texts of their suites.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    pub runs: Vec<RunRecord>,
    /// Whether there are older runs.
    pub has_more: bool,
}

/// A run with its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunEnd {
    pub id: String,
    /// `None` for a run that has not ended.
    pub ended: Option<Timestamp>,
}

/// A file of a report: its name and its bytes.
pub(crate) type ReportPart = (&'static str, Vec<u8>);

/// The result of creating a run.
#[derive(Debug)]
pub(crate) enum Creation {
    /// This process leads the new run.
    New(Box<dyn Leadership>),
    /// The request already started this run.
    Existing(String),
}

/// The result of a request to cancel a run of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelRequest {
    /// Its leader will read the request within this time.
    Recorded(Duration),
    /// Processes do not read requests from this store.
    Unsupported,
}

/// The stored runs.
#[tonic::async_trait]
pub(crate) trait RunStore: Send + Sync + Debug {
    /// Writes the record of a new run and takes its leadership.
    async fn create(&self, record: &RunRecord) -> Result<Creation, StoreError>;

    /// Reads a run; `None` if there is none.
    async fn load(&self, id: &str) -> Result<Option<RunRecord>, StoreError>;

    /// Runs that a viewer may see: at most `size` of them that are older than `before`.
    async fn page(&self, before: Option<&str>, viewer: Option<&str>, size: usize) -> Result<RunPage, StoreError>;

    /// Every run, newest first.
    async fn ends(&self) -> Result<Vec<RunEnd>, StoreError>;

    /// The run that a request id started.
    async fn by_request(&self, request: &str) -> Result<Option<String>, StoreError>;

    /// A file of a run's report; `None` if there is none.
    async fn file(&self, id: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Events of a run after a sequence number; `None` if this store keeps no events.
    async fn events(&self, id: &str, after: u64) -> Result<Option<Vec<Event>>, StoreError>;

    /// Requests that the leader of a run cancel it.
    async fn request_cancel(&self, id: &str, reason: &str) -> Result<CancelRequest, StoreError>;

    /// Deletes a run that has ended. Its attempts stay, because a deleted run has looked at the
    /// data as well.
    async fn delete(&self, record: &RunRecord) -> Result<(), StoreError>;

    /// Deletes the attempts that were made before a time.
    async fn expire_attempts(&self, before: Timestamp) -> Result<(), StoreError>;
}

/// The right to execute a run and to write its state. At most one process holds it; writes of an
/// earlier holder are refused with [`StoreError::Superseded`].
#[tonic::async_trait]
pub(crate) trait Leadership: Send + Sync + Debug {
    /// Interval for writing changes while the run works.
    fn save_every(&self) -> Duration;

    /// Whether a run waits while the store is unreachable, and retries failed requests.
    fn waits_for_the_store(&self) -> bool;

    /// Writes the record of a run that has not ended, and its new events.
    async fn save(&self, record: &RunRecord, events: &[Event]) -> Result<(), StoreError>;

    /// Writes the files of the report.
    async fn write_files(&self, id: &str, files: &[ReportPart]) -> Result<(), StoreError>;

    /// Writes the record of a run that has ended, and its new events.
    async fn end(&self, record: &RunRecord, events: &[Event]) -> Result<(), StoreError>;

    /// Gives up the leadership, so that another replica continues the run. Returns whether that is
    /// possible; if it is not, the caller ends the run.
    async fn hand_back(&self, record: &RunRecord, events: &[Event]) -> Result<bool, StoreError>;

    /// The look of a gate recorded by an earlier leader.
    async fn look(&self, id: &str, number: usize) -> Result<Option<RecordedLook>, StoreError>;

    /// Records a look of a gate.
    async fn record_look(&self, id: &str, number: usize, look: &RecordedLook) -> Result<(), StoreError>;

    /// Records an attempt, unless it is recorded, and returns all of its subject and owner, oldest
    /// first.
    async fn attempt(&self, attempt: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError>;
}
