//! The content-addressed cache of generations, on disk.
//!
//! Each attempt for which a generator returned a text is an entry, whether it passed its checks or
//! not. Verdicts are pure functions of the texts and are computed again, so a text whose attempts
//! all failed their checks is not paid for again either. Errors of a generator (unreachable,
//! overloaded, malformed responses) are not entries, because they may be transient.
//!
//! **Layout.** Append-only segment files, `segment-<uuid>.jsonl`, one checksummed JSON line per
//! entry. A process writes to one segment and holds its lock. The lock ends with the process, and
//! the next process appends to the same segment. **Reading.** All segments are indexed when the
//! cache is opened. After a miss, new lines are indexed too, so that entries of other processes are
//! found. An incomplete last line is not read yet; a line that does not match its checksum is
//! counted and skipped. **Durability.** An entry is written (`write(2)`) before its text is
//! returned: a process killed at any point loses no entry that it returned. Entries are synced to
//! disk (`fsync`) when a segment is full and when the cache is closed, not individually: a power
//! failure may lose the entries of the last seconds, never earlier ones. **Size and age.** A cache
//! over its size limit removes whole segments, least recently used first (see [`prune`]), but never
//! a segment that a process is writing to. An expired entry is no longer found and is removed
//! within the hour. **Sharing.** [`exchange`] writes entries to a file and reads them back, each
//! verified against its key. [`shared`] is a second cache level, shared by several machines.
//! **Forgetting.** `forget` erases single entries.

pub mod exchange;
pub mod key;
mod parquet;
pub mod prune;
pub mod record;
pub(crate) mod segment;
pub mod shared;

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use isomer_segment_log::{Segment, SegmentRecord, Writer};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use key::{GenerationKey, Key, KeyParts};
pub use prune::Bounds;
use segment::FORMAT;
pub use shared::{GeneratorLocation, SharedCache};

/// The cached data of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The text as the generator returned it.
    pub output: String,
    /// Seed of the attempt.
    pub seed: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Whether the token counts are estimated because the generator did not report them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tokens_estimated: bool,
    /// Whether the generator stopped at the token limit, so that the text is incomplete. Entries of
    /// older versions lack this field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The version of the model that the server named in its response; empty if it named none.
    /// Entries of older versions lack this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    pub source: String,
    /// Name of the transformation.
    pub transformation: String,
    /// Id of the generator.
    pub generator: String,
    /// Id and version of the prompt.
    pub prompt: String,
    /// Code of the language requested by the prompt; empty if unknown.
    pub language: String,
    /// The other parts of the entry's key; entries of older versions lack them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<GenerationKey>,
    /// The dispatch for which a worker generated the entry, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Entry {
    /// The key computed from the entry's parts; `None` if some parts are missing.
    pub fn key(&self) -> Option<Key> {
        let made = self.made.as_ref()?;
        let parts = KeyParts {
            text: &self.source,
            transformation: &self.transformation,
            language: &self.language,
            prompt: &made.prompt_digest,
            generator: &made.generator_key,
            temperature: made.temperature,
            top_p: made.top_p,
            max_tokens: made.max_tokens,
            seed: made.seeded.then_some(self.seed),
            tenant: made.tenant.as_deref(),
        };
        Some(parts.key())
    }
}

/// A failure of the cache, with the file concerned.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub struct CacheError {
    /// Whether the failed cache is the one shared by several machines.
    pub(crate) shared: bool,
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    pub(crate) fn new(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            shared: false,
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the disk of this machine is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        !self.shared && self.source.kind() == io::ErrorKind::StorageFull
    }
}

/// Counts of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries that can be found.
    pub entries: usize,
    /// Segment files read.
    pub segments: usize,
    /// Size of the segments on disk.
    pub bytes: u64,
    /// Lines skipped because they did not match their checksum.
    pub corrupt_lines: u64,
}

/// The cache. Its calls do a few microseconds of file work and may be made from async code.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    bounds: Bounds,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Segments by number; `None` if a segment has been removed.
    segments: Vec<Option<Segment>>,
    numbers: HashMap<PathBuf, usize>,
    index: HashMap<Key, EntryLocation>,
    writer: Option<Writer>,
    corrupt_lines: u64,
}

#[derive(Debug, Clone, Copy)]
struct EntryLocation {
    segment: usize,
    offset: u64,
    length: usize,
}

impl Cache {
    /// Opens the cache in a directory and indexes all entries. The directory is created if it does
    /// not exist. The cache may grow without limit.
    pub fn open(directory: &Path) -> Result<Self, CacheError> {
        Self::open_bounded(directory, Bounds::default())
    }

    /// Like [`Cache::open`], but bounded in size and age. With several writers, each may exceed the
    /// size limit by one segment, which is an eighth of the limit and at most 64 MiB.
    pub fn open_bounded(directory: &Path, bounds: Bounds) -> Result<Self, CacheError> {
        fs::create_dir_all(directory)
            .map_err(|error| CacheError::new("cannot make the cache directory", directory, error))?;
        let cache = Self {
            directory: directory.to_owned(),
            bounds,
            inner: Mutex::default(),
        };
        cache.expire()?;
        cache.refresh(&mut cache.inner.lock())?;
        cache.make_room(&mut cache.inner.lock())?;
        Ok(cache)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Finds an entry. After a miss, it indexes new lines of other processes and looks again.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, CacheError> {
        let mut inner = self.inner.lock();
        if !inner.index.contains_key(key) {
            self.refresh(&mut inner)?;
        }
        drop(inner);
        Ok(self.peek(key))
    }

    /// Whether this process has indexed an entry.
    pub fn contains(&self, key: &Key) -> bool {
        self.inner.lock().index.contains_key(key)
    }

    /// Finds an entry that this process has indexed. The lock is not held while its line is read
    /// and verified.
    pub fn peek(&self, key: &Key) -> Option<Entry> {
        let mut inner = self.inner.lock();
        let location = inner.index.get(key).copied()?;
        let segment = inner.segments.get_mut(location.segment)?.as_mut()?;
        if self.bounds.age.is_over(segment.begun()) {
            inner.index.remove(key);
            return None;
        }
        segment.touch();
        let file = segment.file();
        drop(inner);
        let found = isomer_segment_log::read(&file, FORMAT.framing, location.offset, location.length);
        match found.map(|json| json.and_then(|json| segment::decode(&json))) {
            Ok(Some((found_key, entry))) if found_key == *key => Some(entry),
            // The line was removed or changed after it was indexed: count it and report a miss.
            Ok(_) => {
                let mut inner = self.inner.lock();
                inner.index.remove(key);
                inner.corrupt_lines += 1;
                None
            }
            Err(error) => {
                tracing::warn!(directory = %self.directory.display(), %error, "a cache segment cannot be read any more");
                self.inner.lock().index.remove(key);
                None
            }
        }
    }

    /// Writes an entry. When this returns, the entry survives the end of this process.
    pub fn put(&self, key: Key, entry: &Entry) -> Result<(), CacheError> {
        let mut inner = self.inner.lock();
        let json = segment::encode(&key, entry)
            .map_err(|error| CacheError::new("cannot encode an entry for", &self.directory, error.into()))?;
        // The size at which this line would fill a segment.
        let room = self
            .bounds
            .segment_size()
            .saturating_sub(FORMAT.framing.record_bytes(json.len()) as u64);
        let age = self.bounds.age;
        let full = |writer: &Writer| writer.length() > room || age.is_full(writer.begun());
        if inner.writer.as_ref().is_none_or(full) {
            if let Some(done) = inner.writer.take() {
                done.sync();
            }
            let writer = Writer::acquire(&self.directory, &FORMAT, room, age)
                .map_err(|error| CacheError::new("cannot make a cache segment in", &self.directory, error))?;
            inner.writer = Some(writer);
            self.make_room(&mut inner)?;
        }
        let Some(writer) = &mut inner.writer else {
            return Ok(());
        };
        let path = writer.path().to_owned();
        // The entry is written to the file before its text is returned, so that a process killed
        // afterwards loses nothing.
        let (offset, length) = writer
            .append(&json)
            .and_then(|location| writer.flush().map(|()| location))
            .map_err(|error| CacheError::new("cannot write to the cache segment", &path, error))?;
        if let Some(&number) = inner.numbers.get(&path)
            && let Some(segment) = inner.segments.get_mut(number).and_then(Option::as_mut)
            && segment.pass(offset, length)
        {
            let location = EntryLocation {
                segment: number,
                offset,
                length,
            };
            inner.index.insert(key, location);
            return Ok(());
        }
        // The first line of a segment, or a line that follows those of another process, is indexed
        // like any other.
        Self::read_on(&mut inner, &path)
    }

    /// Keys of all entries, in no particular order.
    pub fn keys(&self) -> Vec<Key> {
        self.inner.lock().index.keys().copied().collect()
    }

    /// Counts of the cache.
    pub fn stats(&self) -> CacheStats {
        let inner = self.inner.lock();
        let segments = || inner.segments.iter().flatten();
        CacheStats {
            entries: inner.index.len(),
            segments: segments().count(),
            bytes: segments().map(Segment::read_to).sum(),
            corrupt_lines: inner.corrupt_lines,
        }
    }

    /// Indexes lines that were added to any segment, and drops removed segments from the index.
    fn refresh(&self, inner: &mut Inner) -> Result<(), CacheError> {
        let paths = isomer_segment_log::paths(&self.directory, &FORMAT)
            .map_err(|error| CacheError::new("cannot list the cache directory", &self.directory, error))?;
        for path in &paths {
            Self::read_on(inner, path)?;
        }
        let here: HashSet<PathBuf> = paths.into_iter().collect();
        if inner.numbers.len() > here.len() || !inner.numbers.keys().all(|path| here.contains(path)) {
            let gone: HashSet<usize> = inner
                .numbers
                .extract_if(|path, _| !here.contains(path))
                .map(|(_, number)| number)
                .collect();
            inner.index.retain(|_, location| !gone.contains(&location.segment));
            for number in gone {
                if let Some(segment) = inner.segments.get_mut(number) {
                    *segment = None;
                }
            }
        }
        Ok(())
    }

    /// Indexes the lines that have been added to one segment.
    fn read_on(inner: &mut Inner, path: &Path) -> Result<(), CacheError> {
        let number = match inner.numbers.get(path) {
            Some(number) => *number,
            None => match Segment::open(path, &FORMAT) {
                Ok(segment) => {
                    inner.segments.push(Some(segment));
                    let number = inner.segments.len() - 1;
                    inner.numbers.insert(path.to_owned(), number);
                    number
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(CacheError::new("cannot open the cache segment", path, error)),
            },
        };
        let Some(segment) = inner.segments.get_mut(number).and_then(Option::as_mut) else {
            return Ok(());
        };
        let found = segment
            .read_on(|json| segment::decode(json).map(|(key, _)| key))
            .map_err(|error| CacheError::new("cannot read the cache segment", path, error))?;
        for line in found {
            let SegmentRecord { offset, length, value } = line;
            match value {
                Some(key) => {
                    let segment = number;
                    inner.index.insert(
                        key,
                        EntryLocation {
                            segment,
                            offset,
                            length,
                        },
                    );
                }
                None => {
                    inner.corrupt_lines += 1;
                    metrics::counter!(crate::metric_names::CACHE_CORRUPT).increment(1);
                    tracing::warn!(segment = %path.display(), offset, "passed over a corrupt line of the cache");
                }
            }
        }
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(writer) = &self.inner.lock().writer {
            writer.sync();
        }
    }
}

#[cfg(test)]
mod tests;
