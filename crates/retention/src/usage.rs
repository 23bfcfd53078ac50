//! The content of a store.

use std::collections::{BTreeMap, HashSet};

use futures::TryStreamExt;
use isomer_blobs::BlobStore;
use serde::Serialize;

use crate::{
    Amount, Progress, RetentionError, Step,
    digest::Kind,
    marks::{BY_UNIT, HolderNumber, Marks, Part, through_units},
    survey::{ReleasedRuns, Survey, run_of},
};

/// Number of blobs between two progress reports.
const TELL: u64 = 1000;

/// The content of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// All blobs.
    pub total: Amount,
    pub kinds: BTreeMap<Kind, Amount>,
    /// References of runs, and the blobs that sweeps write.
    pub records: Amount,
    /// Blobs of no known kind. They are never removed.
    pub unknown: Amount,
    /// Usage by run, latest activity first.
    pub runs: Vec<RunUsage>,
    /// Blobs that no run holds.
    pub unheld: Amount,
}

/// The blobs on which a run relies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunUsage {
    pub id: String,
    /// When its process last wrote a reference or a sign of life, in seconds since 1970.
    pub active: i64,
    /// Blobs that it holds, including those that others also hold.
    pub held: Amount,
    /// Blobs without another holder, which may be removed once the run is deleted.
    pub alone: Amount,
}

/// Sums up the content of a store. Takes about 16 bytes of memory per reference.
///
/// # Errors
/// If the store fails, or references cannot be read.
pub async fn usage(blobs: &BlobStore, progress: Progress<'_>) -> Result<Usage, RetentionError> {
    let survey = Survey::of(blobs).await?;
    let mut marks = Marks::read(blobs, Part::WHOLE, &ReleasedRuns::default()).await?;
    through_units(blobs, &mut marks).await?;
    let mut usage = Usage::default();
    let mut runs: Vec<RunUsage> = marks.runs.iter().map(|id| RunUsage::of(id)).collect();
    let mut listed = std::pin::pin!(blobs.list(""));
    while let Some(one) = listed.try_next().await? {
        usage.total.add(one.bytes);
        if usage.total.objects % TELL == 0 {
            let done = usage.total.objects;
            progress(Step {
                name: "count",
                done,
                total: None,
            });
        }
        let Some((kind, digest)) = Kind::of(&one.name) else {
            let known = run_of(&one.name).is_some() || one.name.starts_with("gc/");
            if known { &mut usage.records } else { &mut usage.unknown }.add(one.bytes);
            continue;
        };
        usage.kinds.entry(kind).or_default().add(one.bytes);
        let holders: Vec<HolderNumber> = marks.holders(&digest).iter().map(|(_, run)| *run).collect();
        let of_runs: Vec<usize> = holders
            .iter()
            .filter(|run| **run != BY_UNIT)
            .map(|run| *run as usize)
            .collect();
        if of_runs.is_empty() {
            usage.unheld.add(one.bytes);
        }
        for run in &of_runs {
            if let Some(run) = runs.get_mut(*run) {
                run.held.add(one.bytes);
                if of_runs.len() == 1 {
                    run.alone.add(one.bytes);
                }
            }
        }
    }
    // A run that holds nothing yet has only written a sign of life.
    let marked: HashSet<&String> = marks.runs.iter().collect();
    for id in survey.runs.keys().filter(|id| !marked.contains(id)) {
        runs.push(RunUsage::of(id));
    }
    for run in &mut runs {
        run.active = survey.runs.get(&run.id).map_or(0, |known| known.active);
    }
    runs.sort_by(|one, other| other.active.cmp(&one.active).then_with(|| one.id.cmp(&other.id)));
    usage.runs = runs;
    Ok(usage)
}

impl RunUsage {
    fn of(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }
}
