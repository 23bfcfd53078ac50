//! The held digests and their holders.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_blobs::BlobStore;

use crate::{
    RetentionError,
    digest::{Digest, Kind},
    holder::{REFERENCES, RUNS},
    segment::Segment,
    survey::{ReleasedRuns, run_of},
};

/// Number of segments read concurrently.
const AT_ONCE: usize = 16;

/// A subset of all digests, by their first bytes, so that each subset fits in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) of: u64,
}

impl Part {
    /// All digests.
    pub(crate) const WHOLE: Self = Self { number: 0, of: 1 };

    pub(crate) fn contains(self, digest: &Digest) -> bool {
        digest.short() % self.of == self.number
    }
}

/// A holder as a number: the number of a run, or one of these constants.
pub(crate) type HolderNumber = u32;
/// Held by the execution of a unit, whichever run requested it.
pub(crate) const BY_UNIT: HolderNumber = HolderNumber::MAX;

/// The held digests.
#[derive(Debug)]
pub(crate) struct Marks {
    part: Part,
    /// First bytes of a digest with its holder; sorted.
    held: Vec<(u64, HolderNumber)>,
    /// Digests that were found later.
    late: HashSet<u64>,
    /// Ids of runs, by number.
    pub(crate) runs: Vec<String>,
    numbers: HashMap<String, HolderNumber>,
    /// Digests of the names of the segments that have been read.
    seen: HashSet<u64>,
    /// Segments that a newer one repeats, with the time of the newer one.
    pub(crate) replaced: Vec<(String, i64)>,
}

/// Maximum number of segments whose names are kept for removal because newer ones repeat them.
const MOST_REPLACED: usize = 100_000;

impl Marks {
    /// Reads all references except those of forgotten runs.
    ///
    /// # Errors
    /// If the store fails or a segment cannot be read.
    pub(crate) async fn read(blobs: &BlobStore, part: Part, forgotten: &ReleasedRuns) -> Result<Self, RetentionError> {
        let mut marks = Self {
            part,
            held: Vec::new(),
            late: HashSet::new(),
            runs: Vec::new(),
            numbers: HashMap::new(),
            seen: HashSet::new(),
            replaced: Vec::new(),
        };
        let mut held = Vec::new();
        // Forgotten segments count as read.
        marks
            .unseen(blobs, |marks, name, written, segment| {
                if forgotten.contains(name, written) {
                    return;
                }
                let holder = marks.number(name);
                let own = segment.digests.iter().filter(|digest| part.contains(digest));
                held.extend(own.map(|digest| (digest.short(), holder)));
                if marks.replaced.len() < MOST_REPLACED {
                    marks
                        .replaced
                        .extend(segment.replaces.into_iter().map(|name| (name, written)));
                }
            })
            .await?;
        held.sort_unstable();
        held.dedup();
        marks.held = held;
        Ok(marks)
    }

    /// Reads the references written since, and returns all their digests.
    pub(crate) async fn read_later(&mut self, blobs: &BlobStore) -> Result<HashSet<Digest>, RetentionError> {
        let mut found = HashSet::new();
        self.unseen(blobs, |marks, _, _, segment| {
            marks.late.extend(segment.digests.iter().map(Digest::short));
            found.extend(segment.digests);
        })
        .await?;
        Ok(found)
    }

    /// Reads every segment that has not been read.
    async fn unseen(
        &mut self,
        blobs: &BlobStore,
        mut take: impl FnMut(&mut Self, &str, i64, Segment),
    ) -> Result<(), RetentionError> {
        loop {
            let mut gone = false;
            for folder in [RUNS, Kind::Held.name()] {
                let seen = self.seen.clone();
                let new = blobs.list(folder).map_err(RetentionError::from).try_filter(move |one| {
                    let new = is_reference(&one.name) && !seen.contains(&number_of(&one.name));
                    std::future::ready(new)
                });
                let read = new.map_ok(|one| async move {
                    let segment = Segment::read(blobs, &one.name).await?;
                    Ok::<_, RetentionError>((one, segment))
                });
                let mut read = std::pin::pin!(read.try_buffer_unordered(AT_ONCE));
                while let Some((one, segment)) = read.try_next().await? {
                    match segment {
                        Some(segment) => {
                            self.seen.insert(number_of(&one.name));
                            take(self, &one.name, one.written, segment);
                        }
                        // A newer segment may repeat it, although this listing does not show that
                        // one.
                        None => gone = true,
                    }
                }
            }
            if !gone {
                return Ok(());
            }
        }
    }

    /// The number of the holder of a segment.
    fn number(&mut self, segment: &str) -> HolderNumber {
        let Some(id) = run_of(segment) else { return BY_UNIT };
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = HolderNumber::try_from(self.runs.len()).unwrap_or(BY_UNIT);
        self.runs.push(id.to_owned());
        self.numbers.insert(id.to_owned(), number);
        number
    }

    /// Whether a digest is held.
    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        !self.holders(digest).is_empty() || self.late.contains(&digest.short())
    }

    /// The first holders of a digest: first bytes and holder.
    pub(crate) fn holders(&self, digest: &Digest) -> &[(u64, HolderNumber)] {
        let short = digest.short();
        let begin = self.held.partition_point(|(held, _)| *held < short);
        let length = self.held[begin..].partition_point(|(held, _)| *held == short);
        &self.held[begin..begin + length]
    }

    /// The subset of digests that is known here.
    pub(crate) fn part(&self) -> Part {
        self.part
    }
}

fn is_reference(name: &str) -> bool {
    match run_of(name) {
        Some(_) => name.split('/').nth(2) == Some(REFERENCES),
        None => true,
    }
}

fn number_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Extends the holders of digests held by units: a run that holds the unit also holds them.
pub(crate) async fn through_units(blobs: &BlobStore, marks: &mut Marks) -> Result<(), RetentionError> {
    let listed = blobs.list(Kind::Held.name()).map_err(RetentionError::from);
    let units = listed.map_ok(|one| async move {
        let segment = Segment::read(blobs, &one.name).await?;
        Ok::<_, RetentionError>((one.name, segment))
    });
    let mut units = std::pin::pin!(units.try_buffer_unordered(AT_ONCE));
    let mut more = Vec::new();
    while let Some((name, segment)) = units.try_next().await? {
        let (Some((_, unit)), Some(segment)) = (Kind::of(&name), segment) else {
            continue;
        };
        let runs: Vec<HolderNumber> = marks.holders(&unit).iter().map(|(_, run)| *run).collect();
        for digest in segment.digests {
            more.extend(runs.iter().map(|run| (digest.short(), *run)));
        }
    }
    marks.held.extend(more);
    marks.held.sort_unstable();
    marks.held.dedup();
    Ok(())
}

/// Removes segments that newer ones repeat, given their names.
pub(crate) async fn remove_replaced(blobs: &BlobStore, names: Vec<String>) -> Result<(), RetentionError> {
    // A segment names other segments without checks, so only references are removed for it.
    let references = names.into_iter().filter(|name| {
        let known = run_of(name).is_some() || Kind::of(name).is_some_and(|(kind, _)| kind == Kind::Held);
        known && is_reference(name)
    });
    let mut chunks = stream::iter(references).chunks(1000);
    while let Some(chunk) = chunks.next().await {
        blobs.remove_all(chunk).await?;
    }
    Ok(())
}
