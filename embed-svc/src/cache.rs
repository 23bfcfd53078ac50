//! A disk cache of vectors, addressed by their inputs.
//!
//! **Key.** SHA-256 over the token ids as the model sees them: with the prompt, after any
//! truncation. Everything else that determines a vector (weights, configuration, pipeline, device)
//! is in the digest that names the folder. Entries are vectors of full width before a final
//! normalisation, so that one entry serves every delivery (dimensions, normalisation, element
//! type). A vector that is not finite is never written.
//!
//! **Layout.** `<root>/vectors.sqlite`, with the vectors of all spaces ([`isomer_disk_cache`]).
//! Files of older versions (`<root>/<space digest>/vectors-<uuid>.bin`) are imported when their
//! space is opened. Every vector is checked when it is read; one that does not match its checksum
//! is a miss.
//!
//! **Bound.** The oldest vectors of all spaces are removed when the file is full. **Age.** Vectors
//! that are older than [`Bounds::age`] are no longer found, and are removed within the hour.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

pub use isomer_disk_cache::{Bounds, Erasure, Key, MaxAge, Mode, Removal};
use isomer_disk_cache::{CacheSpec, DiskCache, Framing, Hourly, OldFiles};
use sha2::{Digest, Sha256};

use crate::batch::TextView;

const KEY: usize = size_of::<Key>();
const FILE: &str = "vectors.sqlite";

/// The key of a text as the model sees it. `scope` is that of the tenant that owns the vector
/// ([`isomer_service_kit::Tenant::scope`]).
pub fn key(text: TextView<'_>, scope: Option<&str>) -> Key {
    let mut hash = Sha256::new();
    if let Some(scope) = scope {
        // No prompt is that long, so no key without a scope begins in the same way.
        hash.update(u64::MAX.to_le_bytes());
        hash.update((scope.len() as u64).to_le_bytes());
        hash.update(scope.as_bytes());
    }
    hash.update((text.prompt as u64).to_le_bytes());
    for id in text.ids {
        hash.update(id.to_le_bytes());
    }
    hash.finalize().into()
}

/// The files of older versions in the folder of a space. `width` is the number of floats of a
/// vector.
fn old_files(folder: PathBuf, width: usize) -> OldFiles {
    OldFiles {
        folder,
        prefix: "vectors-",
        suffix: ".bin",
        framing: Framing::Fixed {
            content: KEY + width * size_of::<f32>(),
        },
        decode: |content| content.split_first_chunk().map(|(key, vector)| (*key, vector.to_vec())),
    }
}

struct OldFile {
    begun: SystemTime,
    path: PathBuf,
    bytes: u64,
}

/// The files of older versions in all spaces under `root`, newest first.
fn all_old_files(root: &Path) -> io::Result<Vec<OldFile>> {
    let spaces = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        spaces => spaces?,
    };
    let mut files = Vec::new();
    for space in spaces.filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
        // The names of files do not depend on the width of the vectors.
        let old = old_files(space.path(), 1);
        for path in old.paths()? {
            // A file that another process has imported is gone.
            if let Ok(metadata) = fs::metadata(&path) {
                files.push(OldFile {
                    begun: old.begun(&path).map_or_else(|| metadata.modified(), Ok)?,
                    path,
                    bytes: metadata.len(),
                });
            }
        }
    }
    files.sort_by_key(|file| Reverse(file.begun));
    Ok(files)
}

/// Removes the vectors of all spaces under `root`, or only counts them. Vectors do not identify
/// their texts, so a text is forgotten only together with all vectors. Removed vectors are computed
/// again when they are needed. A file of an older version counts as one record.
///
/// # Errors
/// If a folder or a file cannot be read or written.
pub fn forget_all(root: &Path, mode: Mode) -> io::Result<Erasure> {
    let mut all = Erasure::default();
    if root.join(FILE).exists() {
        let cache = DiskCache::open(spec(root, "", 0, Bounds::default()))?;
        all = cache.erase(mode, |_| true)?;
    }
    for file in all_old_files(root)? {
        all.records += 1;
        all.bytes += file.bytes;
        if mode == Mode::Erase {
            fs::remove_file(file.path)?;
        }
    }
    Ok(all)
}

fn spec<'a>(root: &Path, space: &'a str, width: usize, bounds: Bounds) -> CacheSpec<'a> {
    CacheSpec {
        file: root.join(FILE),
        space,
        bounds,
        old: old_files(root.join(space), width),
        on_damaged: |_| (),
        on_removed: |_| (),
    }
}

/// The vectors of one space. Its calls do blocking file work. Only [`VectorCache::known`], with a
/// few keys, is suitable for async code.
#[derive(Debug)]
pub struct VectorCache {
    width: usize,
    bounds: Bounds,
    disk: DiskCache,
}

impl VectorCache {
    /// Opens the cache of a space; it is created if it does not exist. `width` is the number of
    /// floats of a vector; the bounds apply to all spaces under `root` together.
    ///
    /// # Errors
    /// If a file cannot be created or read.
    pub fn open(root: &Path, space: &str, width: usize, bounds: Bounds) -> io::Result<Self> {
        let disk = DiskCache::open(spec(root, space, width, bounds))?;
        // A space of an older version is not opened any more.
        let mut left = bounds.bytes.saturating_sub(disk.stats()?.bytes);
        for file in all_old_files(root)? {
            match left.checked_sub(file.bytes) {
                Some(less) if !bounds.age.is_over(file.begun) => left = less,
                _ => fs::remove_file(file.path)?,
            }
        }
        Ok(Self { width, bounds, disk })
    }

    /// The cached vectors, by index in `keys`.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Vec<f32>>> {
        let found = self.disk.get(keys).unwrap_or_else(|error| {
            tracing::warn!(%error, "the vector cache cannot be read");
            HashMap::new()
        });
        let vector = |key| {
            found
                .get(key)
                .map(|bytes| isomer_service_kit::vectors::floats(bytes).collect())
        };
        keys.iter().map(vector).collect()
    }

    /// The vectors of all keys, if all are cached.
    pub fn known(&self, keys: &[Key]) -> Option<Vec<Option<Vec<f32>>>> {
        Some(self.get(keys)).filter(|found| found.iter().all(Option::is_some))
    }

    /// Writes vectors, except those that are not finite.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn put<'a>(&self, entries: impl Iterator<Item = (Key, &'a [f32])>) -> io::Result<()> {
        let sound =
            entries.filter(|(_, vector)| vector.len() == self.width && vector.iter().all(|value| value.is_finite()));
        let bytes = |vector: &[f32]| vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        let entries: Vec<_> = sound.map(|(key, vector)| (key, bytes(vector))).collect();
        self.disk.put(&entries)
    }

    /// Number of vectors of the space.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn count(&self) -> io::Result<u64> {
        Ok(self.disk.stats()?.entries)
    }

    /// Removes the vectors of all spaces that exceed the maximum age.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn expire(&self) -> io::Result<Removal> {
        self.disk.expire()
    }

    /// Calls [`VectorCache::expire`] every hour, if vectors have a maximum age.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn expire_hourly(cache: &Arc<Self>) -> io::Result<Option<Hourly>> {
        Hourly::start(cache, cache.bounds.age, Self::expire)
    }
}
