//! Maps keys to the segments that contain their vectors.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque, hash_map::Entry},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use isomer_blobs::SpareStore;

use super::segment::{self, KEYS, Segment};
use crate::cache::Key;

/// Interval between checks for new segments.
const LOOK: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests to the store.
const AT_ONCE: usize = 16;
/// Maximum number of indexed keys per space, at about 50 bytes each.
const MOST_KEYS: usize = 4 << 20;
/// Maximum bytes of segments in memory.
const MEMORY: usize = 128 << 20;

/// The location of a vector: number of the segment, and row there.
type VectorLocation = (u32, u32);

/// The segments of a space.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Names of the indexes that have been read, and their numbers of keys.
    segments: Vec<(String, usize)>,
    known: HashSet<String>,
    places: HashMap<Key, VectorLocation>,
    /// Further locations of vectors. Concurrent processes wrote them, or a process that found a
    /// segment damaged.
    others: HashMap<Key, Vec<VectorLocation>>,
    looked: Option<Instant>,
    full: bool,
    /// Segments in memory, the latest last.
    memory: VecDeque<(u32, Segment)>,
    bytes: usize,
}

impl Index {
    /// The vectors found in the store, by index in `keys`.
    pub(super) async fn get(
        &mut self,
        store: &SpareStore,
        folder: &str,
        width: usize,
        keys: &[Key],
    ) -> Vec<Option<Vec<f32>>> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) && store.attempt(self.look(store, folder)).await.is_some()
        {
            self.looked = Some(Instant::now());
        }
        let mut found = vec![None; keys.len()];
        // A segment that cannot be read is forgotten, and its vectors are read from their other
        // locations.
        while self.read(store, width, keys, &mut found).await {}
        found
    }

    /// Reads the vectors that are missing in `found`; returns whether a segment had to be
    /// forgotten.
    async fn read(&mut self, store: &SpareStore, width: usize, keys: &[Key], found: &mut [Option<Vec<f32>>]) -> bool {
        let mut wanted: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
        for (i, key) in keys.iter().enumerate().filter(|(i, _)| found[*i].is_none()) {
            if let Some((segment, row)) = self.places.get(key) {
                wanted.entry(*segment).or_default().push((i, *row));
            }
        }
        let lacking: Vec<(u32, String, usize)> = wanted
            .keys()
            .filter(|number| !self.memory.iter().any(|(kept, _)| kept == *number))
            .filter_map(|number| {
                let (name, count) = self.segments.get(*number as usize)?;
                Some((*number, name.clone(), *count))
            })
            .collect();
        let mut take = |number: u32, segment: &Segment| {
            for (i, row) in wanted.get(&number).into_iter().flatten() {
                found[*i] = segment.row(*row as usize);
            }
        };
        for (number, segment) in &self.memory {
            take(*number, segment);
        }
        let mut fetched = stream::iter(lacking)
            .map(|(number, name, count)| async move {
                let read = Segment::read(store.blobs(), &name, (count, width));
                (number, store.attempt(read).await)
            })
            .buffer_unordered(AT_ONCE);
        let (mut new, mut lost) = (Vec::new(), HashSet::new());
        while let Some((number, segment)) = fetched.next().await {
            match segment {
                Some(Some(segment)) => {
                    take(number, &segment);
                    new.push((number, segment));
                }
                // The segment has been removed since, or is damaged.
                Some(None) => {
                    lost.insert(number);
                }
                None => {}
            }
        }
        drop(fetched);
        for (number, segment) in new {
            self.remember(number, segment);
        }
        self.forget(&lost);
        !lost.is_empty()
    }

    /// Forgets segments. Vectors with another location are read from there from now on.
    fn forget(&mut self, lost: &HashSet<u32>) {
        if lost.is_empty() {
            return;
        }
        self.others.retain(|_, places| {
            places.retain(|(segment, _)| !lost.contains(segment));
            !places.is_empty()
        });
        let others = &mut self.others;
        self.places.retain(|key, place| {
            if !lost.contains(&place.0) {
                return true;
            }
            let next = others.get_mut(key).and_then(Vec::pop);
            if let Some(next) = next {
                *place = next;
            }
            next.is_some()
        });
        self.others.retain(|_, places| !places.is_empty());
    }

    fn remember(&mut self, number: u32, segment: Segment) {
        self.bytes += segment.bytes();
        self.memory.push_back((number, segment));
        while self.bytes > MEMORY
            && let Some((_, oldest)) = self.memory.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    /// Reads the indexes that have not been read.
    async fn look(&mut self, store: &SpareStore, folder: &str) -> Result<(), isomer_blobs::BlobError> {
        let blobs = store.blobs();
        let listed: Vec<String> = blobs.list(folder).map_ok(|one| one.name).try_collect().await?;
        let new = listed
            .into_iter()
            .filter(|name| name.ends_with(KEYS) && !self.known.contains(name));
        let new: Vec<String> = new.collect();
        let mut read = stream::iter(new)
            .map(|name| async move {
                let index = blobs.get(&name).await?;
                Ok::<_, isomer_blobs::BlobError>((name, index))
            })
            .buffer_unordered(AT_ONCE);
        while let Some((name, index)) = read.try_next().await? {
            // The index may have been removed since.
            let Some(index) = index else { continue };
            let keys = segment::keys(&index);
            let indexed: usize = self.segments.iter().map(|(_, count)| count).sum();
            if indexed + keys.len() > MOST_KEYS {
                if !self.full {
                    tracing::warn!(
                        folder,
                        "the store has more vectors of this space than are indexed; the rest is computed"
                    );
                }
                self.full = true;
                return Ok(());
            }
            let number = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
            for (row, key) in keys.iter().enumerate() {
                let row = u32::try_from(row).unwrap_or(u32::MAX);
                match self.places.entry(*key) {
                    Entry::Vacant(place) => {
                        place.insert((number, row));
                    }
                    Entry::Occupied(_) => self.others.entry(*key).or_default().push((number, row)),
                }
            }
            self.known.insert(name.clone());
            self.segments.push((name, keys.len()));
        }
        Ok(())
    }
}
