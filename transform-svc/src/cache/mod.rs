//! The content-addressed cache of generations, on disk.
//!
//! Each attempt for which a generator returned a text is an entry, whether it passed its checks or
//! not. Verdicts are pure functions of the texts and are computed again, so a text whose attempts
//! all failed their checks is not paid for again either. Errors of a generator (unreachable,
//! overloaded, malformed responses) are not entries, because they may be transient.
//!
//! **Layout.** One SQLite file, `entries.sqlite`, that several processes share
//! ([`isomer_disk_cache`]). A value is the JSON of an entry. Segments of older versions
//! (`segment-<uuid>.jsonl`) are imported when the cache is opened. **Durability.** An entry is
//! committed before its text is returned: a process killed at any point loses no entry that it
//! returned. Entries are synced to disk (`fsync`) at checkpoints and when the cache is closed, not
//! individually: a power failure may lose the entries of the last seconds, never earlier ones.
//! **Size and age.** A cache over its size limit removes the least recently used entries. A read
//! counts as a use at most once an hour. An expired entry is no longer found and is removed within
//! the hour; its age counts from its arrival in this cache, however often it is read. **Sharing.**
//! [`exchange`] writes entries to a file and reads them back, each verified against its key.
//! [`shared`] is a second cache level, shared by several machines. **Forgetting.** `forget` erases
//! single entries.

pub mod exchange;
pub mod key;
mod line;
mod parquet;
pub mod record;
pub mod shared;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_disk_cache::{CacheSpec, DiskCache, Erasure, Framing, Hourly, Mode, OldFiles, Removal};
use serde::{Deserialize, Serialize};

pub use isomer_disk_cache::{Bounds, CacheStats, Key};
pub use key::{GenerationKey, KeyParts};
pub use shared::{GeneratorLocation, SharedCache};

/// The name of the file.
const FILE: &str = "entries.sqlite";

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

/// The cache. Reads do some microseconds of file work and may be made from async code. Writes may
/// wait for another process.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
    bounds: Bounds,
    disk: DiskCache,
}

impl Cache {
    /// Opens the cache in a directory. The directory is created if it does not exist. The cache may
    /// grow without limit.
    pub fn open(directory: &Path) -> Result<Self, CacheError> {
        Self::open_bounded(directory, Bounds::default())
    }

    /// Like [`Cache::open`], but bounded in size and age. With several writers, each may exceed the
    /// size limit by a sixteenth.
    pub fn open_bounded(directory: &Path, bounds: Bounds) -> Result<Self, CacheError> {
        let spec = CacheSpec {
            file: directory.join(FILE),
            space: "",
            bounds,
            old: old_files(directory),
            on_damaged: |entries| metrics::counter!(crate::metric_names::CACHE_CORRUPT).increment(entries),
            on_removed: |bytes| metrics::counter!(crate::metric_names::CACHE_EVICTED).increment(bytes),
        };
        let disk =
            DiskCache::open(spec).map_err(|error| CacheError::new("cannot open the cache in", directory, error))?;
        Ok(Self {
            directory: directory.to_owned(),
            bounds,
            disk,
        })
    }

    /// Like [`Cache::open`]; `None` if the directory has no cache.
    pub(crate) fn open_existing(directory: &Path) -> Result<Option<Self>, CacheError> {
        let old = old_files(directory)
            .paths()
            .map_err(|error| CacheError::new("cannot list the cache directory", directory, error))?;
        let exists = directory.join(FILE).exists() || !old.is_empty();
        exists.then(|| Self::open(directory)).transpose()
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> CacheError {
        move |error| CacheError::new(what, &self.directory, error)
    }

    /// Finds an entry.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, CacheError> {
        let mut found = self
            .disk
            .get(&[*key])
            .map_err(self.failed("cannot read the cache in"))?;
        let entry = found.remove(key).and_then(|json| line::decode(&json));
        Ok(entry.filter(|(found, _)| found == key).map(|(_, entry)| entry))
    }

    /// Whether an entry is found.
    pub fn contains(&self, key: &Key) -> bool {
        self.peek(key).is_some()
    }

    /// Like [`Cache::get`], but a cache that cannot be read is a miss.
    pub fn peek(&self, key: &Key) -> Option<Entry> {
        self.get(key).unwrap_or_else(|error| {
            tracing::warn!(%error, "an entry counts as missing");
            None
        })
    }

    /// Writes an entry. When this returns, the entry survives the end of this process.
    pub fn put(&self, key: Key, entry: &Entry) -> Result<(), CacheError> {
        let failed = self.failed("cannot write to the cache in");
        let json = line::encode(&key, entry).map_err(|error| failed(error.into()))?;
        self.disk.put(&[(key, json)]).map_err(failed)
    }

    /// Keys of all entries, in no particular order.
    pub fn keys(&self) -> Result<Vec<Key>, CacheError> {
        self.disk.keys().map_err(self.failed("cannot read the cache in"))
    }

    /// Counts of the cache.
    pub fn stats(&self) -> Result<CacheStats, CacheError> {
        self.disk.stats().map_err(self.failed("cannot read the cache in"))
    }

    /// Removes the least recently used entries until the cache takes at most `bytes` bytes.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn prune(&self, bytes: u64) -> Result<Removal, CacheError> {
        self.disk
            .prune(bytes)
            .map_err(self.failed("cannot write to the cache in"))
    }

    /// Removes entries that are older than the maximum age of the cache's [`Bounds`].
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn expire(&self) -> Result<Removal, CacheError> {
        self.disk.expire().map_err(self.failed("cannot write to the cache in"))
    }

    /// Calls [`Cache::expire`] every hour, if the cache has a maximum age.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn expire_hourly(cache: &Arc<Self>) -> Result<Option<Hourly>, CacheError> {
        Hourly::start(cache, cache.bounds.age, Self::expire)
            .map_err(cache.failed("cannot watch the age of the cache in"))
    }

    /// Calls `call` with every entry.
    pub(crate) fn each(&self, mut call: impl FnMut(Entry)) -> Result<(), CacheError> {
        let decoded = |json: &[u8]| line::decode(json).map(|(_, entry)| entry);
        self.disk
            .each(|json| decoded(json).into_iter().for_each(&mut call))
            .map_err(self.failed("cannot read the cache in"))
    }

    /// Erases the entries whose JSON or texts are `unwanted`, also while another process uses the
    /// cache.
    pub(crate) fn erase(
        &self,
        mode: Mode,
        mut unwanted: impl FnMut(&[u8], Option<Entry>) -> bool,
    ) -> Result<Erasure, CacheError> {
        self.disk
            .erase(mode, |json| unwanted(json, line::decode(json).map(|(_, entry)| entry)))
            .map_err(self.failed("cannot erase from the cache in"))
    }
}

/// The segments of older versions.
fn old_files(directory: &Path) -> OldFiles {
    OldFiles {
        folder: directory.to_owned(),
        prefix: "segment-",
        suffix: ".jsonl",
        framing: Framing::Lines,
        decode: |json| line::decode(json).map(|(key, _)| (key, json.to_vec())),
    }
}

#[cfg(test)]
mod tests;
