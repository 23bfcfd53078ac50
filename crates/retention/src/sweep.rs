//! Removal of blobs without a holder.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures::TryStreamExt;
use isomer_blobs::BlobStore;
use serde::Serialize;
use uuid::Uuid;

use crate::{
    Amount, Progress, RetentionError, Step,
    announcement::{self, ABANDONED_AFTER, ANNOUNCED, REMOVE_WITHIN, age},
    digest::{Digest, Kind},
    holder::RUNS,
    marks::{Marks, Part, remove_replaced},
    survey::{ReleasedRuns, Survey},
};

/// Folder in which a sweep writes a blob at its start, to read the store's clock.
const SWEEPS: &str = "gc/sweeps";
/// Age at which the blob of a sweep that died is removed.
const SWEEP_IS_OVER: Duration = Duration::from_secs(86_400);
/// Age of a segment at which the segments that it repeats are removed. By then, every listing that
/// began before it was written has ended.
const REPEATED_FOR: Duration = Duration::from_secs(3600);
/// Number of digests that are compared at once, at 16 bytes each.
const MARKS_AT_ONCE: u64 = 8 << 20;
/// Number of digests in one announcement.
const ANNOUNCEMENT: usize = 10_000;
/// Number of digests that are announced at once.
const GROUP: usize = 16 * ANNOUNCEMENT;
/// Number of blobs in one removal request.
const REMOVAL: usize = 1000;

/// The minimum age at which a run may be forgotten: the process of an active run writes a sign of
/// life at least four times a day.
pub const SHORTEST_FORGETTING: Duration = Duration::from_secs(2 * 86_400);

/// The rules of removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Minimum age of removed blobs without a holder.
    pub older_than: Duration,
    /// Runs that have been inactive for longer no longer hold blobs; absent: each run holds its
    /// blobs until it is released. At least [`SHORTEST_FORGETTING`].
    pub forget_runs: Option<Duration>,
    /// How long a new blob may take to become visible to all users of the store.
    pub settle: Duration,
}

impl Policy {
    /// The default for a store. A network file system shows new files of a folder after at most a
    /// minute, unless it is configured otherwise.
    pub fn for_store(blobs: &BlobStore) -> Self {
        Self {
            older_than: Duration::from_secs(86_400),
            forget_runs: None,
            settle: Duration::from_secs(if blobs.is_folder() { 120 } else { 5 }),
        }
    }
}

/// Whether a sweep removes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// It only reports the blobs that it would remove, and writes nothing.
    DryRun,
    Remove,
}

/// The result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// The blobs that were removed, or would be.
    pub removed: BTreeMap<Kind, Amount>,
    /// Blobs that a run or a unit holds.
    pub held: Amount,
    /// Blobs without a holder that are not old enough.
    pub young: Amount,
    /// Blobs that were about to be removed when a holder began to rely on them.
    pub spared: Amount,
    /// Number of runs that hold blobs.
    pub runs: usize,
    pub forgotten_runs: Vec<String>,
}

impl SweepReport {
    /// All kinds together.
    pub fn total(&self) -> Amount {
        self.removed.values().fold(Amount::default(), |sum, one| Amount {
            objects: sum.objects + one.objects,
            bytes: sum.bytes + one.bytes,
        })
    }
}

/// Finds the blobs without a holder, and removes them.
///
/// It may be interrupted at any point and run again, also while another sweep is running.
///
/// # Errors
/// If the store fails, or references cannot be read.
pub async fn sweep(
    blobs: &BlobStore,
    policy: Policy,
    mode: Sweep,
    progress: Progress<'_>,
) -> Result<SweepReport, RetentionError> {
    sweep_in_parts(blobs, policy, mode, progress, MARKS_AT_ONCE).await
}

/// Like [`sweep`], with a limit on the digests compared at once.
pub(crate) async fn sweep_in_parts(
    blobs: &BlobStore,
    policy: Policy,
    mode: Sweep,
    progress: Progress<'_>,
    marks_at_once: u64,
) -> Result<SweepReport, RetentionError> {
    let begun = format!("{SWEEPS}/{}", Uuid::now_v7());
    let now = match mode {
        Sweep::DryRun => None,
        Sweep::Remove => {
            blobs.put_new(&begun, b"").await?;
            blobs.find(&begun).await?.map(|meta| meta.written)
        }
    };
    let sweeper = Sweeper {
        blobs,
        policy,
        mode,
        now: now.unwrap_or_else(this_machines_time),
        progress,
        swept: SweepReport::default(),
        removals: 0,
    };
    let swept = sweeper.run(marks_at_once).await;
    let ended = match mode {
        Sweep::DryRun => Ok(()),
        Sweep::Remove => blobs.remove(&begun).await,
    };
    let swept = swept?;
    ended?;
    Ok(swept)
}

/// Seconds since 1970.
fn this_machines_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A blob that may be removed.
#[derive(Debug, Clone)]
struct RemovalCandidate {
    kind: Kind,
    name: String,
    bytes: u64,
}

impl RemovalCandidate {
    /// The order of removal: an index before the blobs to which it refers, and the references of a
    /// unit after its answer.
    fn rank(&self) -> u8 {
        match self.kind {
            Kind::Vectors if self.name.ends_with(".keys") => 0,
            Kind::Held => 2,
            _ => 1,
        }
    }
}

/// Digests with all their blobs.
type Group = BTreeMap<Digest, Vec<RemovalCandidate>>;

struct Sweeper<'a> {
    blobs: &'a BlobStore,
    policy: Policy,
    mode: Sweep,
    /// The time of the store.
    now: i64,
    progress: Progress<'a>,
    swept: SweepReport,
    /// Blobs removed so far.
    removals: u64,
}

impl Sweeper<'_> {
    async fn run(mut self, marks_at_once: u64) -> Result<SweepReport, RetentionError> {
        if self.mode == Sweep::Remove {
            self.remove_abandoned().await?;
        }
        let survey = Survey::of(self.blobs).await?;
        let forgotten = survey.forgotten(self.policy.forget_runs, self.now);
        self.swept.runs = survey.runs.len() - forgotten.runs.len();
        let parts = survey.digests.div_ceil(marks_at_once).max(1);
        for number in 0..parts {
            let part = Part { number, of: parts };
            let mut marks = Marks::read(self.blobs, part, &forgotten).await?;
            self.remove_replaced(&mut marks).await?;
            self.part(&mut marks).await?;
        }
        if self.mode == Sweep::Remove {
            self.forget(&forgotten).await?;
        }
        self.swept.forgotten_runs = forgotten.runs.into_iter().collect();
        Ok(self.swept)
    }

    /// Visits the blobs of a subset of the digests.
    async fn part(&mut self, marks: &mut Marks) -> Result<(), RetentionError> {
        let shards = shards(self.blobs).await?;
        let part = marks.part();
        let total = shards.len() as u64 * part.of;
        let mut group = Group::new();
        for (i, folders) in shards.values().enumerate() {
            self.say("look", part.number * shards.len() as u64 + i as u64, Some(total));
            self.shard(folders, marks, &mut group).await?;
            if group.len() >= GROUP {
                self.remove(std::mem::take(&mut group), marks).await?;
            }
        }
        self.say("look", (part.number + 1) * shards.len() as u64, Some(total));
        self.remove(group, marks).await
    }

    /// Adds the digests of one shard whose blobs may be removed.
    async fn shard(&mut self, folders: &[String], marks: &Marks, group: &mut Group) -> Result<(), RetentionError> {
        let mut found: BTreeMap<Digest, (Vec<RemovalCandidate>, i64)> = BTreeMap::new();
        for folder in folders {
            let mut listed = std::pin::pin!(self.blobs.list(folder));
            while let Some(one) = listed.try_next().await? {
                let Some((kind, digest)) = Kind::of(&one.name) else {
                    continue;
                };
                if !marks.part().contains(&digest) {
                    continue;
                }
                if marks.contains(&digest) {
                    self.swept.held.add(one.bytes);
                    continue;
                }
                let (blobs, newest) = found.entry(digest).or_insert_with(|| (Vec::new(), one.written));
                *newest = (*newest).max(one.written);
                blobs.push(RemovalCandidate {
                    kind,
                    name: one.name,
                    bytes: one.bytes,
                });
            }
        }
        for (digest, (blobs, newest)) in found {
            // The blobs of one digest are removed together. A claim without its answer would
            // prevent anyone from counting the usage when the answer is computed again.
            if age(newest, self.now) >= self.policy.older_than {
                group.insert(digest, blobs);
            } else {
                blobs.iter().for_each(|blob| self.swept.young.add(blob.bytes));
            }
        }
        Ok(())
    }

    /// Removes the blobs of a group that have no holder.
    async fn remove(&mut self, mut group: Group, marks: &mut Marks) -> Result<(), RetentionError> {
        if self.mode == Sweep::DryRun {
            group.values().flatten().for_each(|blob| self.count(blob));
            return Ok(());
        }
        while !group.is_empty() {
            let mut announced = Vec::new();
            let ended = self.remove_announced(&mut group, marks, &mut announced).await;
            // Holders wait for the end of announcements, so these are removed in any case. A
            // remaining one counts as abandoned after a while.
            let withdrawn = self.blobs.remove_all(announced).await;
            ended?;
            withdrawn?;
        }
        Ok(())
    }

    /// Announces the digests of a group, then removes those without a holder. Digests that remain
    /// in the group must be announced again.
    async fn remove_announced(
        &mut self,
        group: &mut Group,
        marks: &mut Marks,
        announced: &mut Vec<String>,
    ) -> Result<(), RetentionError> {
        let begun = Instant::now();
        let digests: Vec<Digest> = group.keys().copied().collect();
        for chunk in digests.chunks(ANNOUNCEMENT) {
            announced.push(announcement::announce(self.blobs, chunk.to_vec()).await?);
        }
        self.say("wait", 0, None);
        // Even the shortest sleep takes a millisecond.
        if !self.policy.settle.is_zero() {
            tokio::time::sleep(self.policy.settle).await;
        }
        let held: HashSet<Digest> = marks.read_later(self.blobs).await?;
        group.retain(|digest, blobs| {
            let held = held.contains(digest);
            if held {
                blobs.iter().for_each(|blob| self.swept.spared.add(blob.bytes));
            }
            !held
        });
        let mut order: Vec<(u8, RemovalCandidate)> = std::mem::take(group)
            .into_values()
            .flatten()
            .map(|blob| (blob.rank(), blob))
            .collect();
        order.sort_by_key(|(rank, _)| *rank);
        for same in order.chunk_by(|one, other| one.0 == other.0) {
            for chunk in same.chunks(REMOVAL) {
                if begun.elapsed() > REMOVE_WITHIN {
                    // A holder may rely on them by now, so they are checked again.
                    for (_, blob) in chunk {
                        if let Some((_, digest)) = Kind::of(&blob.name) {
                            group.entry(digest).or_default().push(blob.clone());
                        }
                    }
                    continue;
                }
                let names = chunk.iter().map(|(_, blob)| blob.name.clone()).collect();
                self.blobs.remove_all(names).await?;
                chunk.iter().for_each(|(_, blob)| self.count(blob));
                self.removals += chunk.len() as u64;
                self.say("remove", self.removals, None);
            }
        }
        Ok(())
    }

    fn count(&mut self, blob: &RemovalCandidate) {
        self.swept.removed.entry(blob.kind).or_default().add(blob.bytes);
    }

    /// Removes the remains of sweeps that died.
    async fn remove_abandoned(&self) -> Result<(), RetentionError> {
        for (folder, limit) in [(ANNOUNCED, ABANDONED_AFTER), (SWEEPS, SWEEP_IS_OVER)] {
            let listed: Vec<_> = self.blobs.list(folder).try_collect().await?;
            let old = listed.into_iter().filter(|one| age(one.written, self.now) > limit);
            self.blobs.remove_all(old.map(|one| one.name).collect()).await?;
        }
        Ok(())
    }

    /// Removes segments of references that have long been repeated in newer ones.
    async fn remove_replaced(&self, marks: &mut Marks) -> Result<(), RetentionError> {
        let replaced = std::mem::take(&mut marks.replaced);
        if self.mode == Sweep::DryRun {
            return Ok(());
        }
        let old = replaced
            .into_iter()
            .filter(|(_, written)| age(*written, self.now) > REPEATED_FOR);
        remove_replaced(self.blobs, old.map(|(name, _)| name).collect()).await
    }

    /// Removes the references of forgotten runs.
    async fn forget(&self, forgotten: &ReleasedRuns) -> Result<(), RetentionError> {
        for id in &forgotten.runs {
            let listed: Vec<_> = self.blobs.list(&format!("{RUNS}/{id}")).try_collect().await?;
            let old = listed
                .into_iter()
                .filter(|one| forgotten.contains(&one.name, one.written));
            self.blobs.remove_all(old.map(|one| one.name).collect()).await?;
        }
        Ok(())
    }

    fn say(&self, name: &'static str, done: u64, total: Option<u64>) {
        (self.progress)(Step { name, done, total });
    }
}

/// The folders of each shard, over all kinds and classes.
async fn shards(blobs: &BlobStore) -> Result<BTreeMap<String, Vec<String>>, RetentionError> {
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in Kind::ALL {
        let top = kind.name();
        let parents = if kind.has_classes() {
            let classes = blobs.folders(top).await?;
            classes.iter().map(|class| format!("{top}/{class}")).collect()
        } else {
            vec![top.to_owned()]
        };
        for parent in parents {
            for shard in blobs.folders(&parent).await? {
                let folder = format!("{parent}/{shard}");
                shards.entry(shard).or_default().push(folder);
            }
        }
    }
    Ok(shards)
}
