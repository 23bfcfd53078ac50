//! The store's records of its runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::TryStreamExt;
use isomer_blobs::BlobStore;

use crate::{
    RetentionError,
    announcement::age,
    digest::{BYTES, Kind},
    holder::RUNS,
};

/// The store's record of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// When its process last wrote a reference or a sign of life, in seconds since 1970.
    pub(crate) active: i64,
}

/// All runs, with an upper bound of the digests held by them and by units.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) digests: u64,
}

impl Survey {
    /// Reads the names of all references.
    pub(crate) async fn of(blobs: &BlobStore) -> Result<Self, RetentionError> {
        let mut survey = Self::default();
        let mut listed = std::pin::pin!(blobs.list(RUNS));
        while let Some(one) = listed.try_next().await? {
            let Some(id) = run_of(&one.name) else { continue };
            survey.digests += one.bytes / BYTES as u64;
            match survey.runs.get_mut(id) {
                Some(run) => run.active = run.active.max(one.written),
                None => {
                    let active = one.written;
                    survey.runs.insert(id.to_owned(), Run { active });
                }
            }
        }
        let mut listed = std::pin::pin!(blobs.list(Kind::Held.name()));
        while let Some(one) = listed.try_next().await? {
            survey.digests += one.bytes / BYTES as u64;
        }
        Ok(survey)
    }

    /// The runs that have been inactive for longer than `limit`, at a time of the store.
    pub(crate) fn forgotten(&self, limit: Option<Duration>, now: i64) -> ReleasedRuns {
        let Some(limit) = limit else {
            return ReleasedRuns::default();
        };
        let old = self.runs.iter().filter(|(_, run)| age(run.active, now) > limit);
        ReleasedRuns {
            runs: old.map(|(id, _)| id.clone()).collect(),
            before: now.saturating_sub_unsigned(limit.as_secs()),
        }
    }
}

/// Runs whose references no longer count.
#[derive(Debug, Default)]
pub(crate) struct ReleasedRuns {
    pub(crate) runs: BTreeSet<String>,
    /// A reference that was written later still counts, because the run was resumed.
    before: i64,
}

impl ReleasedRuns {
    /// Whether a blob in the folder of all runs no longer counts.
    pub(crate) fn contains(&self, name: &str, written: i64) -> bool {
        written < self.before && run_of(name).is_some_and(|id| self.runs.contains(id))
    }
}

/// The run that a blob in the folder of all runs belongs to.
pub(crate) fn run_of(name: &str) -> Option<&str> {
    name.strip_prefix(RUNS)?
        .strip_prefix('/')?
        .split_once('/')
        .map(|(id, _)| id)
}
