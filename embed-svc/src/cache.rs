//! A disk cache of vectors, addressed by their inputs.
//!
//! **Key.** SHA-256 over the token ids as the model sees them: with the prompt, after any
//! truncation. Everything else that determines a vector (weights, configuration, pipeline, device)
//! is in the digest that names the folder. Entries are vectors of full width before a final
//! normalisation, so that one entry serves every delivery (dimensions, normalisation, element
//! type). A vector that is not finite is never written.
//!
//! **Layout.** `<root>/<space digest>/vectors-<uuid>.bin`: records of equal size,
//! `key · floats · checksum`. A process appends to one file and holds its lock, so several
//! processes can share a folder. The lock ends with the process. The next process appends to the
//! same file, after a last record that was only partly written. Every record is checked when it is
//! read; a record that does not match its checksum is a miss.
//!
//! **Bound.** Before a file is started, the oldest files of all spaces are removed until there is
//! room. A file that a process writes to is never removed. **Age.** Vectors that are older than
//! [`Bounds::age`] are no longer found, and are removed within the hour.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_segment_log::{Erasure, Format, Framing, Hourly, MaxAge, Mode, Removal, Segment, SegmentFile, Writer};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::batch::TextView;

/// Address of a vector.
pub type Key = [u8; 32];

const KEY: usize = size_of::<Key>();

/// Key and floats, little-endian.
fn format_of(width: usize) -> Format {
    Format {
        prefix: "vectors-",
        suffix: ".bin",
        framing: Framing::Fixed {
            content: KEY + width * size_of::<f32>(),
        },
    }
}

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

/// Removes the vectors of all spaces under `root`, or only counts the files and their bytes.
/// Vectors do not identify their texts, so a text is forgotten only together with all vectors.
/// Removed vectors are computed again when they are needed.
///
/// # Errors
/// If a folder or a file cannot be read or written.
pub fn forget_all(root: &Path, mode: Mode) -> io::Result<Erasure> {
    // The names of files do not depend on the width of the vectors.
    let format = format_of(1);
    let mut all = Erasure::default();
    for space in spaces(root)? {
        for file in isomer_segment_log::list(&space, &format)? {
            all.records += 1;
            all.bytes += file.bytes;
            if mode == Mode::Erase {
                isomer_segment_log::wipe(&file.path)?;
            }
        }
    }
    Ok(all)
}

/// Bounds on the vectors of all spaces under a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of bytes on disk.
    pub bytes: u64,
    /// Maximum age of a vector.
    pub age: MaxAge,
}

/// Removes the vectors of all spaces under `root` that exceed the maximum age.
///
/// # Errors
/// If a folder cannot be read.
pub fn remove_over(root: &Path, age: MaxAge) -> io::Result<Removal> {
    let mut all = Removal::default();
    for space in spaces(root)? {
        // The names of files do not depend on the width of the vectors.
        let removed = isomer_segment_log::remove_over(&space, &format_of(1), age)?;
        all.segments += removed.segments;
        all.bytes += removed.bytes;
    }
    Ok(all)
}

/// The folders of the spaces under `root`; empty if `root` does not exist.
fn spaces(root: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// The vectors of one space. Its calls do blocking file work. Only [`VectorCache::known`], with a
/// few keys, is suitable for async code.
#[derive(Debug)]
pub struct VectorCache {
    root: PathBuf,
    folder: PathBuf,
    width: usize,
    format: Format,
    bounds: Bounds,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Segments by number; `None` if the file was removed.
    segments: Vec<Option<Segment>>,
    /// For each key, its segment and the offset of its record there.
    index: HashMap<Key, (usize, u64)>,
    writer: Option<Writer>,
}

impl VectorCache {
    /// Opens the folder of a space and indexes its records. The folder is created if it does not
    /// exist. `width` is the number of floats of a vector; the bounds apply to all spaces under
    /// `root` together.
    ///
    /// # Errors
    /// If the folder cannot be created or read.
    pub fn open(root: &Path, space: &str, width: usize, bounds: Bounds) -> io::Result<Self> {
        remove_over(root, bounds.age)?;
        let folder = root.join(space);
        fs::create_dir_all(&folder)?;
        let cache = Self {
            root: root.to_path_buf(),
            folder,
            width,
            format: format_of(width),
            bounds,
            inner: Mutex::default(),
        };
        cache.refresh(&mut cache.inner.lock())?;
        Ok(cache)
    }

    /// The cached vectors, by index in `keys`. This includes vectors that other processes have
    /// added since.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Vec<f32>>> {
        let mut inner = self.inner.lock();
        let mut found: Vec<_> = keys.iter().map(|key| self.find(&mut inner, key)).collect();
        if found.iter().all(Option::is_some) {
            return found;
        }
        // Another process may have written the vector.
        if let Err(error) = self.refresh(&mut inner) {
            tracing::warn!(folder = %self.folder.display(), %error, "the vector cache cannot be read");
            return found;
        }
        for (found, key) in found.iter_mut().zip(keys).filter(|(found, _)| found.is_none()) {
            *found = self.find(&mut inner, key);
        }
        found
    }

    /// The vectors of all keys, if this process knows the location of each. It reads a file once
    /// per vector, and does not read the folder.
    pub fn known(&self, keys: &[Key]) -> Option<Vec<Option<Vec<f32>>>> {
        let mut inner = self.inner.lock();
        keys.iter().map(|key| self.find(&mut inner, key).map(Some)).collect()
    }

    fn find(&self, inner: &mut Inner, key: &Key) -> Option<Vec<f32>> {
        let (segment, offset) = *inner.index.get(key)?;
        let segment = inner.segments.get(segment)?.as_ref();
        let found = segment
            .filter(|segment| !self.bounds.age.is_over(segment.begun()) && !segment.is_removed())
            .and_then(|segment| self.read(segment, key, offset));
        if found.is_none() {
            inner.index.remove(key);
        }
        found
    }

    /// Writes vectors, except those that are not finite and those already cached.
    ///
    /// # Errors
    /// If the disk fails. Vectors written before the failure stay.
    pub fn put<'a>(&self, entries: impl Iterator<Item = (Key, &'a [f32])>) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let mut content = Vec::new();
        for (key, vector) in entries {
            let sound = vector.len() == self.width && vector.iter().all(|value| value.is_finite());
            if !sound || inner.index.contains_key(&key) {
                continue;
            }
            let full = |writer: &Writer| writer.length() >= self.full() || self.bounds.age.is_full(writer.begun());
            if inner.writer.as_ref().is_none_or(full) {
                inner.writer = None;
                self.make_room()?;
                inner.writer = Some(Writer::acquire(
                    &self.folder,
                    &self.format,
                    self.full().saturating_sub(1),
                    self.bounds.age,
                )?);
                self.refresh(&mut inner)?;
            }
            let Inner {
                segments,
                index,
                writer,
            } = &mut *inner;
            let Some(writer) = writer else { continue };
            content.clear();
            content.extend_from_slice(&key);
            content.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
            let (offset, length) = writer.append(&content)?;
            // Otherwise the record is indexed like a record of another process.
            let own = segments.iter_mut().enumerate().find_map(|(place, segment)| {
                Some((place, segment.as_mut()?)).filter(|(_, own)| own.path() == writer.path())
            });
            if let Some((place, segment)) = own
                && segment.pass(offset, length)
            {
                index.insert(key, (place, offset));
            }
        }
        inner.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// Number of vectors in the index.
    pub fn len(&self) -> usize {
        self.inner.lock().index.len()
    }

    /// Whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of a full file: an eighth of the bound, so that removing the oldest file loses little.
    fn full(&self) -> u64 {
        (self.bounds.bytes / 8).min(64 << 20)
    }

    /// A vector; `None` if its record has changed.
    fn read(&self, segment: &Segment, key: &Key, offset: u64) -> Option<Vec<f32>> {
        let length = self.format.framing.record_bytes(KEY + self.width * size_of::<f32>());
        let content = segment.read(offset, length).ok()??;
        Some(isomer_service_kit::vectors::floats(content.strip_prefix(key)?).collect())
    }

    fn files_of_all_spaces(&self) -> io::Result<Vec<SegmentFile>> {
        let mut found = Vec::new();
        for space in spaces(&self.root)? {
            match isomer_segment_log::list(&space, &self.format) {
                Ok(files) => found.extend(files),
                // The file was removed in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Indexes the records that were added to any file. Closes removed files, which would otherwise
    /// keep their disk space.
    fn refresh(&self, inner: &mut Inner) -> io::Result<()> {
        for place in 0..inner.segments.len() {
            if inner.segments[place].take_if(|segment| segment.is_removed()).is_some() {
                inner.index.retain(|_, (segment, _)| *segment != place);
            }
        }
        let paths = match isomer_segment_log::paths(&self.folder, &self.format) {
            // The folder was removed in the meantime; the next writer creates it again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            paths => paths?,
        };
        for path in paths {
            let known = |segment: &Option<Segment>| segment.as_ref().is_some_and(|segment| segment.path() == path);
            let place = match inner.segments.iter().position(known) {
                Some(place) => place,
                None => match Segment::open(&path, &self.format) {
                    Ok(segment) => {
                        inner.segments.push(Some(segment));
                        inner.segments.len() - 1
                    }
                    // The file was removed in the meantime.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            let Some(segment) = &mut inner.segments[place] else {
                continue;
            };
            for found in segment.read_on(|content| content.first_chunk::<KEY>().copied())? {
                // A record that does not match its checksum is a miss.
                if let Some(key) = found.value {
                    inner.index.insert(key, (place, found.offset));
                }
            }
        }
        Ok(())
    }

    /// Removes the oldest files until there is room for a new one.
    fn make_room(&self) -> io::Result<()> {
        let mut files = self.files_of_all_spaces()?;
        files.sort_by_key(|file| file.changed);
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if bytes + self.full() <= self.bounds.bytes {
                break;
            }
            match isomer_segment_log::remove_unless_written(&file.path) {
                Ok(true) => bytes -= file.bytes,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(file = %file.path.display(), %error, "a file of the vector cache cannot be removed");
                }
            }
        }
        Ok(())
    }

    /// Removes the vectors of all spaces that exceed the maximum age.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn expire(&self) -> io::Result<Removal> {
        let mut inner = self.inner.lock();
        let age = self.bounds.age;
        inner.writer.take_if(|writer| age.is_full(writer.begun()));
        let removed = remove_over(&self.root, age)?;
        self.refresh(&mut inner)?;
        Ok(removed)
    }

    /// Calls [`VectorCache::expire`] every hour, if vectors have a maximum age.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn expire_hourly(cache: &Arc<Self>) -> io::Result<Option<Hourly>> {
        Hourly::start(cache, cache.bounds.age, Self::expire)
    }
}
