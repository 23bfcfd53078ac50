//! The content-addressed cache of generations, on disk.
//!
//! Each attempt that reached a generator and brought back a text is an entry, good or bad: verdicts are pure functions
//! of the texts and are computed again, so a text whose attempts all failed their checks is not paid for again either.
//! Errors of a generator (unreachable, overloaded, malformed answers) are not entries: they may be gone next time.
//!
//! **Layout.** Append-only segment files, `segment-<uuid>.jsonl`, one checksummed JSON line an entry. A process writes to
//! one segment, which it holds locked; the lock goes with the process, and the next one carries on where it ended.
//! **Reading.** All segments are indexed at open. On a miss the files that have grown are read on, so that entries of
//! other processes are found. A last line without its end is not there yet; a line that does not match its checksum is
//! noticed, counted and passed over.
//! **Durability.** An entry is written (`write(2)`) before its text is answered: a process killed at any point loses
//! nothing it answered. The disk is told to keep it (`fsync`) when a segment is full and when the cache is closed, not at
//! each entry: a power cut may cost the last seconds' entries, never the ones before.

pub mod key;
mod segment;

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

pub use key::{Key, KeyParts};
use segment::{Found, Segment, Writer};

/// What is kept of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The text as the generator gave it.
    pub output: String,
    /// Seed of the attempt.
    pub seed: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// The text it was made from.
    pub source: String,
    /// Name of the transformation.
    pub transformation: String,
    /// Id of the generator.
    pub generator: String,
    /// Id and version of the prompt.
    pub prompt: String,
    /// Code of the language the prompt asked for; empty when unknown.
    pub language: String,
}

/// The cache failed, with the file to look at.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub struct CacheError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    fn new(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            what,
            path: path.to_owned(),
            source,
        }
    }
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries that can be found.
    pub entries: usize,
    /// Segment files read.
    pub segments: usize,
    /// Lines passed over because they did not match their checksum.
    pub corrupt_lines: u64,
}

/// The cache. Its calls do a few microseconds of file work and may be made from async code.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    segments: Vec<Segment>,
    index: HashMap<Key, Place>,
    writer: Option<Writer>,
    corrupt_lines: u64,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
struct Place {
    segment: usize,
    offset: u64,
    length: usize,
}

impl Cache {
    /// Opens the cache of a directory, which is made if need be, and reads all that is there.
    pub fn open(directory: &Path) -> Result<Self, CacheError> {
        fs::create_dir_all(directory)
            .map_err(|error| CacheError::new("cannot make the cache directory", directory, error))?;
        let cache = Self {
            directory: directory.to_owned(),
            inner: Mutex::default(),
        };
        cache.refresh(&mut cache.lock())?;
        Ok(cache)
    }

    /// Finds an entry; on a miss looks once more at what other processes have written since.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, CacheError> {
        let mut inner = self.lock();
        if !inner.index.contains_key(key) {
            self.refresh(&mut inner)?;
        }
        let Some(place) = inner.index.get(key).copied() else {
            return Ok(None);
        };
        let found = inner
            .segments
            .get_mut(place.segment)
            .map(|segment| segment.read(place.offset, place.length));
        match found {
            Some(Ok(Some((found_key, entry)))) if found_key == *key => Ok(Some(entry)),
            // Gone or changed under our hands: a miss, and noticed.
            Some(Ok(_)) => {
                inner.index.remove(key);
                inner.corrupt_lines += 1;
                Ok(None)
            }
            Some(Err(error)) => {
                tracing::warn!(directory = %self.directory.display(), %error, "a cache segment cannot be read any more");
                inner.index.remove(key);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Writes an entry. When this returns, the entry survives the end of this process.
    pub fn put(&self, key: Key, entry: &Entry) -> Result<(), CacheError> {
        let mut inner = self.lock();
        if inner.writer.as_ref().is_none_or(Writer::is_full) {
            if let Some(full) = inner.writer.take() {
                full.sync();
            }
            inner.writer = Some(Writer::acquire(&self.directory)?);
        }
        if let Some(writer) = &mut inner.writer {
            writer.append(&key, entry)?;
        }
        // Reading our own line back indexes it like any other's.
        self.refresh(&mut inner)
    }

    /// What the cache holds.
    pub fn stats(&self) -> CacheStats {
        let inner = self.lock();
        CacheStats {
            entries: inner.index.len(),
            segments: inner.segments.len(),
            corrupt_lines: inner.corrupt_lines,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is left half done by a panic: the index only ever gains whole entries.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes the lines that have been added to any segment.
    fn refresh(&self, inner: &mut Inner) -> Result<(), CacheError> {
        let listing = fs::read_dir(&self.directory)
            .map_err(|error| CacheError::new("cannot list the cache directory", &self.directory, error))?;
        for file in listing.filter_map(Result::ok) {
            let path = file.path();
            if !segment::is_segment(&path) {
                continue;
            }
            let position = match inner.segments.iter().position(|segment| segment.path() == path) {
                Some(position) => position,
                None => match Segment::open(&path) {
                    Ok(segment) => {
                        inner.segments.push(segment);
                        inner.segments.len() - 1
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(CacheError::new("cannot open the cache segment", &path, error)),
                },
            };
            let Some(segment) = inner.segments.get_mut(position) else {
                continue;
            };
            let found = segment
                .read_on()
                .map_err(|error| CacheError::new("cannot read the cache segment", &path, error))?;
            for line in found {
                match line {
                    Found::Entry { key, offset, length } => {
                        inner.index.insert(
                            key,
                            Place {
                                segment: position,
                                offset,
                                length,
                            },
                        );
                    }
                    Found::Corrupt { offset } => {
                        inner.corrupt_lines += 1;
                        metrics::counter!("isomer_transform_cache_corrupt_lines_total").increment(1);
                        tracing::warn!(segment = %path.display(), offset, "passed over a corrupt line of the cache");
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(writer) = &self.lock().writer {
            writer.sync();
        }
    }
}

#[cfg(test)]
mod tests;
