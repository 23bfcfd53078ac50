//! Deletion of ended runs: some days after their end, or when there are too many newer ones.

use std::time::Duration;

use jiff::Timestamp;

use super::store::RunEnd;

/// When runs expire. Active runs never expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    age: Option<Duration>,
    most: usize,
}

impl Expiry {
    /// Runs expire `days` days after their end (0: never because of age), and all but the newest
    /// `most` expire.
    pub(crate) fn of(days: u32, most: usize) -> Self {
        Self {
            age: (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400)),
            most,
        }
    }

    /// The time before which attempts expire; `None` if they never do.
    pub(crate) fn oldest_attempt(self, now: Timestamp) -> Option<Timestamp> {
        now.checked_sub(self.age?).ok()
    }

    /// The ids of the runs that expire, given all runs with their ends, newest first.
    pub(crate) fn expired(self, runs: Vec<RunEnd>, now: Timestamp) -> Vec<String> {
        let expired = runs
            .into_iter()
            .enumerate()
            .filter_map(|(newer, RunEnd { id, ended })| {
                let age = Duration::try_from(now.duration_since(ended?)).unwrap_or_default();
                (newer >= self.most || self.age.is_some_and(|most| age > most)).then_some(id)
            });
        expired.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::run::{
        lifecycle::store::{Creation, FolderStore, RunStore},
        record::{RunRecord, RunRequest, RunState},
    };

    #[tokio::test]
    async fn old_and_surplus_runs_expire_and_active_ones_never() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let now = Timestamp::now();
        let mut made = Vec::new();
        let mut locks = Vec::new();
        // Oldest first: active, ended long ago, ended today, ended today.
        for days in [None, Some(40), Some(0), Some(0)] {
            let id = uuid::Uuid::now_v7().to_string();
            let mut record = RunRecord::new(id.clone(), None, RunRequest::default(), now);
            let Creation::New(lead) = store.create(&record).await.unwrap() else {
                panic!("the run is new");
            };
            if let Some(days) = days {
                record.state = RunState::Succeeded;
                record.ended = Some(now - Duration::from_secs(days * 86_400));
                lead.end(&record, &[]).await.unwrap();
            } else {
                locks.push(lead);
            }
            made.push(id);
        }
        let runs = store.ends().await.unwrap();
        let expired = |days, most| {
            let mut ids = Expiry::of(days, most).expired(runs.clone(), now);
            ids.sort();
            ids
        };
        assert_eq!(expired(30, 100), [made[1].clone()]);
        assert_eq!(expired(0, 1), [made[1].clone(), made[2].clone()]);
        assert!(expired(0, 100).is_empty());
    }
}
