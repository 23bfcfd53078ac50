//! Bounds the size of the cache: removes whole segments, least recently used first.
//!
//! A use is a write or a read. A read updates the file's modification time at most once a minute,
//! so that processes that share the cache see each other's reads. A segment that a process writes
//! to is locked and stays, so no entry is removed while it is being made. Processes that read a
//! removed segment can still read it until they notice.

use std::path::Path;

use isomer_segment_log::Writer;

use super::{Cache, CacheError, Inner, segment::FORMAT};

/// Largest segment, in bytes.
const SEGMENT: u64 = 64 << 20;
/// A bounded cache has at least this many segments.
const PARTS: u64 = 8;

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Segments.
    pub segments: usize,
    /// What they took on disk.
    pub bytes: u64,
}

/// Size in bytes at which a segment is full, in a cache with this bound.
pub(super) fn segment_size(max_bytes: u64) -> u64 {
    match max_bytes {
        0 => SEGMENT,
        bound => SEGMENT.min(bound / PARTS).max(1),
    }
}

impl Cache {
    /// Removes segments until the cache takes at most so many bytes. Segments that are being
    /// written to stay.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn prune(&self, bytes: u64) -> Result<Pruned, CacheError> {
        let mut inner = self.inner.lock();
        let pruned = remove(&self.directory, bytes, inner.writer.as_ref().map(Writer::path))?;
        self.refresh(&mut inner)?;
        Ok(pruned)
    }

    /// Enforces the bound, leaving room for one more segment.
    pub(super) fn make_room(&self, inner: &mut Inner) -> Result<(), CacheError> {
        if self.max_bytes == 0 {
            return Ok(());
        }
        let bytes = self.max_bytes - segment_size(self.max_bytes);
        let pruned = remove(&self.directory, bytes, inner.writer.as_ref().map(Writer::path))?;
        if pruned.segments > 0 {
            metrics::counter!(crate::metric_names::CACHE_EVICTED).increment(pruned.bytes);
            tracing::info!(
                segments = pruned.segments,
                bytes = pruned.bytes,
                "the cache is at its bound: what was used longest ago is removed"
            );
            self.refresh(inner)?;
        }
        Ok(())
    }
}

fn remove(directory: &Path, most: u64, own: Option<&Path>) -> Result<Pruned, CacheError> {
    let mut candidates = isomer_segment_log::list(directory, &FORMAT)
        .map_err(|error| CacheError::new("cannot list the cache directory", directory, error))?;
    // Names are in order of creation, which breaks ties of the clock.
    candidates.sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
    let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let mut pruned = Pruned::default();
    for candidate in candidates {
        if total <= most {
            break;
        }
        if own == Some(candidate.path.as_path()) {
            continue;
        }
        match isomer_segment_log::remove_unless_written(&candidate.path) {
            Ok(true) => {
                total -= candidate.bytes;
                pruned.segments += 1;
                pruned.bytes += candidate.bytes;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(segment = %candidate.path.display(), %error, "a cache segment cannot be removed");
            }
        }
    }
    Ok(pruned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs::{self, File},
        time::{Duration, SystemTime},
    };

    use super::{
        super::{Entry, Key},
        *,
    };

    const BOUND: u64 = 64 << 10;

    fn key(n: u32) -> Key {
        *blake3::hash(&n.to_le_bytes()).as_bytes()
    }

    /// Entries of about a kilobyte.
    fn entry(n: u32) -> Entry {
        Entry {
            output: format!("{n} {}", "x".repeat(1000)),
            seed: 1,
            prompt_tokens: 1,
            generated_tokens: 1,
            tokens_estimated: false,
            source: String::new(),
            transformation: "paraphrase".into(),
            generator: "local:x".into(),
            prompt: "paraphrase@1".into(),
            language: "en".into(),
            made: None,
            dispatch: None,
        }
    }

    fn size(directory: &Path) -> u64 {
        fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }

    #[test]
    fn a_bounded_cache_keeps_to_its_bound_and_loses_the_oldest_entries() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open_bounded(directory.path(), BOUND).unwrap();
        for n in 0..300 {
            cache.put(key(n), &entry(n)).unwrap();
            assert!(size(directory.path()) <= BOUND, "{}", size(directory.path()));
        }
        assert!(cache.stats().bytes > BOUND / 2, "it is filled: {:?}", cache.stats());
        assert!((270..300).all(|n| cache.get(&key(n)).unwrap().is_some()));
        assert!((0..200).all(|n| cache.get(&key(n)).unwrap().is_none()));
        // Another process, and the next one, find the same.
        let other = Cache::open(directory.path()).unwrap();
        assert_eq!(other.stats(), cache.stats());
    }

    #[test]
    fn what_is_read_stays_and_what_is_not_goes() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open_bounded(directory.path(), BOUND).unwrap();
        (0..30).for_each(|n| cache.put(key(n), &entry(n)).unwrap());
        // As if it had all been written an hour ago.
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for file in fs::read_dir(directory.path()).unwrap() {
            File::open(file.unwrap().path())
                .unwrap()
                .set_modified(hour_ago)
                .unwrap();
        }
        cache.get(&key(0)).unwrap().unwrap();
        (30..70).for_each(|n| cache.put(key(n), &entry(n)).unwrap());
        assert!(cache.get(&key(0)).unwrap().is_some(), "read since");
        assert!(cache.get(&key(12)).unwrap().is_none(), "not read since");
    }

    #[test]
    fn a_segment_that_is_written_to_is_never_removed_and_the_others_notice_what_was() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Cache::open_bounded(directory.path(), BOUND).unwrap();
        let reader = Cache::open(directory.path()).unwrap();
        (0..20).for_each(|n| writer.put(key(n), &entry(n)).unwrap());
        assert!((0..20).all(|n| reader.get(&key(n)).unwrap().is_some()));
        let pruned = reader.prune(0).unwrap();
        assert!(pruned.segments >= 2 && pruned.bytes > 10_000, "{pruned:?}");
        assert_eq!(reader.stats().segments, 1, "the one that is written to");
        assert_eq!(writer.get(&key(19)).unwrap(), Some(entry(19)));
        writer.put(key(20), &entry(20)).unwrap();
        assert_eq!(reader.get(&key(20)).unwrap(), Some(entry(20)));
        // A miss makes the writer look again and forget removed segments.
        assert_eq!(writer.get(&key(99)).unwrap(), None);
        assert_eq!(writer.stats(), reader.stats());
    }

    #[test]
    fn a_smaller_bound_holds_from_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open_bounded(directory.path(), 2 * BOUND).unwrap();
        (0..100).for_each(|n| cache.put(key(n), &entry(n)).unwrap());
        drop(cache);
        let cache = Cache::open_bounded(directory.path(), BOUND).unwrap();
        assert!(size(directory.path()) <= BOUND);
        assert!(cache.get(&key(99)).unwrap().is_some());
    }
}
