//! Bounds the size of the cache and the age of its entries by removing whole segments.
//!
//! **Size.** The least recently used segment is removed first. A use is a write or a read. A read
//! updates the file's modification time at most once a minute, so that processes that share the
//! cache see each other's reads. A segment that a process writes to is locked and is not removed,
//! so no entry disappears while it is being written. Processes that read a removed segment can
//! still read it until they notice the removal. **Age.** The age of an entry counts from its
//! arrival in this cache, however often it is read.

use std::{path::Path, sync::Arc};

use isomer_segment_log::{Hourly, MaxAge, Removal, Writer};

use super::{Cache, CacheError, Inner, segment::FORMAT};

/// Maximum size of a segment, in bytes.
const SEGMENT: u64 = 64 << 20;
/// Minimum number of segments of a bounded cache.
const PARTS: u64 = 8;

/// Limits on the size of a cache and on the age of its entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum bytes on disk; 0: unlimited.
    pub bytes: u64,
    /// Maximum age of an entry.
    pub age: MaxAge,
}

impl Bounds {
    /// Size in bytes at which a segment is full.
    pub(super) fn segment_size(self) -> u64 {
        match self.bytes {
            0 => SEGMENT,
            bound => SEGMENT.min(bound / PARTS).max(1),
        }
    }
}

impl Cache {
    /// Removes segments until the cache takes at most `bytes` bytes. Segments that are being
    /// written to are not removed.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn prune(&self, bytes: u64) -> Result<Removal, CacheError> {
        let mut inner = self.inner.lock();
        let pruned = remove(&self.directory, bytes, inner.writer.as_ref().map(Writer::path))?;
        self.refresh(&mut inner)?;
        Ok(pruned)
    }

    /// Removes entries that are older than the maximum age of the cache's [`Bounds`].
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn expire(&self) -> Result<Removal, CacheError> {
        let age = self.bounds.age;
        let mut inner = self.inner.lock();
        if let Some(done) = inner.writer.take_if(|writer| age.is_full(writer.begun())) {
            done.sync();
        }
        let removed = isomer_segment_log::remove_over(&self.directory, &FORMAT, age)
            .map_err(|error| CacheError::new("cannot list the cache directory", &self.directory, error))?;
        if removed.segments > 0 {
            metrics::counter!(crate::metric_names::CACHE_EVICTED).increment(removed.bytes);
            tracing::info!(
                segments = removed.segments,
                bytes = removed.bytes,
                "removed what the cache has held for the longest time that it may"
            );
            self.refresh(&mut inner)?;
        }
        Ok(removed)
    }

    /// Calls [`Cache::expire`] every hour, if the cache has a maximum age.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn expire_hourly(cache: &Arc<Self>) -> Result<Option<Hourly>, CacheError> {
        Hourly::start(cache, cache.bounds.age, Self::expire)
            .map_err(|error| CacheError::new("cannot watch the age of the cache", &cache.directory, error))
    }

    /// Enforces the size limit and leaves space for one more segment.
    pub(super) fn make_room(&self, inner: &mut Inner) -> Result<(), CacheError> {
        if self.bounds.bytes == 0 {
            return Ok(());
        }
        let bytes = self.bounds.bytes - self.bounds.segment_size();
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

fn remove(directory: &Path, most: u64, own: Option<&Path>) -> Result<Removal, CacheError> {
    let mut candidates = isomer_segment_log::list(directory, &FORMAT)
        .map_err(|error| CacheError::new("cannot list the cache directory", directory, error))?;
    // Names are in order of creation, which breaks ties between modification times.
    candidates.sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
    let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let mut pruned = Removal::default();
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
    #![allow(clippy::unwrap_used, clippy::panic)]
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

    /// Entries of about one kilobyte.
    fn entry(n: u32) -> Entry {
        Entry {
            output: format!("{n} {}", "x".repeat(1000)),
            seed: 1,
            prompt_tokens: 1,
            generated_tokens: 1,
            tokens_estimated: false,
            cut: false,
            fingerprint: String::new(),
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

    fn bounded(directory: &Path, bytes: u64) -> Cache {
        let age = MaxAge::default();
        Cache::open_bounded(directory, Bounds { bytes, age }).unwrap()
    }

    fn for_days(directory: &Path, days: u32) -> Cache {
        let age = MaxAge::days(days);
        Cache::open_bounded(directory, Bounds { bytes: 0, age }).unwrap()
    }

    /// Makes the only segment look as if it had been started this many hours ago.
    fn make_older(directory: &Path, hours: u64) {
        let paths = isomer_segment_log::paths(directory, &FORMAT).unwrap();
        let [path] = &paths[..] else { panic!("{paths:?}") };
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        let seconds = then.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let id = uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
        let name = format!("{}{id}{}", FORMAT.prefix, FORMAT.suffix);
        fs::rename(path, directory.join(name)).unwrap();
    }

    #[test]
    fn an_entry_goes_at_the_end_of_its_time_however_often_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let first = for_days(directory.path(), 30);
        first.put(key(1), &entry(1)).unwrap();
        drop(first);
        make_older(directory.path(), 30 * 24 - 1);
        // The segment is in its last hour and is read.
        let cache = for_days(directory.path(), 30);
        assert_eq!(cache.get(&key(1)).unwrap(), Some(entry(1)));
        assert_eq!(cache.expire().unwrap(), Removal::default());
        drop(cache);
        make_older(directory.path(), 30 * 24);
        // A cache without a maximum age still finds the entry, as does a cache that was opened
        // earlier.
        let without = Cache::open(directory.path()).unwrap();
        assert_eq!(without.get(&key(1)).unwrap(), Some(entry(1)));
        let cache = for_days(directory.path(), 30);
        assert_eq!(cache.get(&key(1)).unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "its file is gone");
        assert_eq!(without.get(&key(2)).unwrap(), None);
        assert_eq!(without.stats().segments, 0, "and closed by those who read it");
    }

    #[test]
    fn what_is_over_its_time_between_two_looks_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let first = for_days(directory.path(), 0);
        first.put(key(1), &entry(1)).unwrap();
        drop(first);
        make_older(directory.path(), 49);
        let mut cache = for_days(directory.path(), 0);
        assert_eq!(cache.get(&key(1)).unwrap(), Some(entry(1)), "without an age it stays");
        // Acts as a process that indexed the entry before it expired.
        cache.bounds.age = MaxAge::days(2);
        assert!(cache.contains(&key(1)));
        assert_eq!(cache.peek(&key(1)), None);
    }

    #[test]
    fn old_segments_are_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let first = for_days(directory.path(), 8);
        first.put(key(1), &entry(1)).unwrap();
        drop(first);
        let second = for_days(directory.path(), 8);
        second.put(key(2), &entry(2)).unwrap();
        assert_eq!(second.stats().segments, 1, "a young one is");
        drop(second);
        make_older(directory.path(), 25);
        let third = for_days(directory.path(), 8);
        third.put(key(3), &entry(3)).unwrap();
        assert_eq!(third.stats().segments, 2);
        assert!((1..4).all(|n| third.get(&key(n)).unwrap().is_some()));
        third.expire().unwrap();
        assert!((1..4).all(|n| third.get(&key(n)).unwrap().is_some()));
    }

    #[test]
    fn a_bounded_cache_keeps_to_its_bound_and_loses_the_oldest_entries() {
        let directory = tempfile::tempdir().unwrap();
        let cache = bounded(directory.path(), BOUND);
        for n in 0..300 {
            cache.put(key(n), &entry(n)).unwrap();
            assert!(size(directory.path()) <= BOUND, "{}", size(directory.path()));
        }
        assert!(cache.stats().bytes > BOUND / 2, "it is filled: {:?}", cache.stats());
        assert!((270..300).all(|n| cache.get(&key(n)).unwrap().is_some()));
        assert!((0..200).all(|n| cache.get(&key(n)).unwrap().is_none()));
        // Another process finds the same entries, and so does the next one.
        let other = Cache::open(directory.path()).unwrap();
        assert_eq!(other.stats(), cache.stats());
    }

    #[test]
    fn what_is_read_stays_and_what_is_not_goes() {
        let directory = tempfile::tempdir().unwrap();
        let cache = bounded(directory.path(), BOUND);
        (0..30).for_each(|n| cache.put(key(n), &entry(n)).unwrap());
        // Makes all segments look as if they had been written an hour ago.
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
        let writer = bounded(directory.path(), BOUND);
        let reader = Cache::open(directory.path()).unwrap();
        (0..20).for_each(|n| writer.put(key(n), &entry(n)).unwrap());
        assert!((0..20).all(|n| reader.get(&key(n)).unwrap().is_some()));
        let pruned = reader.prune(0).unwrap();
        assert!(pruned.segments >= 2 && pruned.bytes > 10_000, "{pruned:?}");
        assert_eq!(reader.stats().segments, 1, "the one that is written to");
        assert_eq!(writer.get(&key(19)).unwrap(), Some(entry(19)));
        writer.put(key(20), &entry(20)).unwrap();
        assert_eq!(reader.get(&key(20)).unwrap(), Some(entry(20)));
        // A miss makes the writer look again and drop removed segments from its index.
        assert_eq!(writer.get(&key(99)).unwrap(), None);
        assert_eq!(writer.stats(), reader.stats());
    }

    #[test]
    fn a_smaller_bound_holds_from_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let cache = bounded(directory.path(), 2 * BOUND);
        (0..100).for_each(|n| cache.put(key(n), &entry(n)).unwrap());
        drop(cache);
        let cache = bounded(directory.path(), BOUND);
        assert!(size(directory.path()) <= BOUND);
        assert!(cache.get(&key(99)).unwrap().is_some());
    }
}
