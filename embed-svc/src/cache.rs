//! Vectors on disk, addressed by what they were made of.
//!
//! **Key.** SHA-256 over the token ids as the model sees them: after the prompt was put in front,
//! after any cut. What else decides about a vector (weights, configuration, pipeline, device) is in
//! the digest that names the folder. Kept are vectors of full width before a final normalisation,
//! so that every delivery (dimensions, normalisation, element type) is served by one entry. A
//! vector that is not finite is never written.
//!
//! **Layout.** `<root>/<space digest>/vectors-<uuid>.bin`: records of equal size, `key · floats ·
//! checksum`. A process appends to one file, which it holds locked, so several processes share a
//! folder. The lock goes with the process: a successor carries on where it ended, after a last
//! record that was written only in part. Every record is checked when it is read; one that does not
//! match its checksum is a miss.
//!
//! **Bound.** Before a file is started, the oldest files of all spaces that nobody writes to are
//! removed until the new one has room.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use isomer_segment_log::{Format, Framing, Listed, Segment, Writer};
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

/// The address of a text as the model sees it.
pub fn key(text: TextView<'_>) -> Key {
    let mut hash = Sha256::new();
    hash.update((text.prompt as u64).to_le_bytes());
    for id in text.ids {
        hash.update(id.to_le_bytes());
    }
    hash.finalize().into()
}

/// The vectors of one space. Its calls do file work: not for async code.
#[derive(Debug)]
pub struct VectorCache {
    root: PathBuf,
    folder: PathBuf,
    width: usize,
    format: Format,
    most_bytes: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    segments: Vec<Segment>,
    /// Segment of each key, and the offset of its record there.
    index: HashMap<Key, (usize, u64)>,
    writer: Option<Writer>,
}

impl VectorCache {
    /// Opens the folder of a space, which is made if need be, and reads what is there. `width` is
    /// the number of floats of a vector, `most_bytes` the bound on all spaces under `root`
    /// together.
    ///
    /// # Errors
    /// A folder that cannot be made or read.
    pub fn open(root: &Path, space: &str, width: usize, most_bytes: u64) -> io::Result<Self> {
        let folder = root.join(space);
        fs::create_dir_all(&folder)?;
        let cache = Self {
            root: root.to_path_buf(),
            folder,
            width,
            format: format_of(width),
            most_bytes,
            inner: Mutex::default(),
        };
        cache.refresh(&mut cache.inner.lock())?;
        Ok(cache)
    }

    /// The vectors that are here, by place in `keys`. What other processes have added since is
    /// found.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Vec<f32>>> {
        let mut inner = self.inner.lock();
        if let Err(error) = self.refresh(&mut inner) {
            tracing::warn!(folder = %self.folder.display(), %error, "the vector cache cannot be read");
            return vec![None; keys.len()];
        }
        let Inner { segments, index, .. } = &mut *inner;
        let one = |key: &Key| {
            let (segment, offset) = *index.get(key)?;
            let found = self.read(segments.get(segment)?, key, offset);
            if found.is_none() {
                index.remove(key);
            }
            found
        };
        keys.iter().map(one).collect()
    }

    /// Writes vectors, those that are not finite and those that are here left out.
    ///
    /// # Errors
    /// What the disk says; what was written before stays.
    pub fn put<'a>(&self, entries: impl Iterator<Item = (Key, &'a [f32])>) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let mut content = Vec::new();
        for (key, vector) in entries {
            let sound = vector.len() == self.width && vector.iter().all(|value| value.is_finite());
            if !sound || inner.index.contains_key(&key) {
                continue;
            }
            if inner
                .writer
                .as_ref()
                .is_none_or(|writer| writer.length() >= self.full())
            {
                inner.writer = None;
                self.make_room(&mut inner)?;
                inner.writer = Some(Writer::acquire(
                    &self.folder,
                    &self.format,
                    self.full().saturating_sub(1),
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
            // Otherwise it is read back like another process's.
            if let Some(segment) = segments.iter().position(|segment| segment.path() == writer.path())
                && segments[segment].pass(offset, length)
            {
                index.insert(key, (segment, offset));
            }
        }
        inner.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// Number of vectors that can be found.
    pub fn len(&self) -> usize {
        self.inner.lock().index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A file is full at an eighth of the bound, so that little is lost when the oldest goes.
    fn full(&self) -> u64 {
        (self.most_bytes / 8).min(64 << 20)
    }

    /// A vector; `None` when it is no longer what it was.
    fn read(&self, segment: &Segment, key: &Key, offset: u64) -> Option<Vec<f32>> {
        let length = self.format.framing.record_bytes(KEY + self.width * size_of::<f32>());
        let content = segment.read(offset, length).ok()??;
        Some(isomer_service_kit::vectors::floats(content.strip_prefix(key)?).collect())
    }

    fn files_of_all_spaces(&self) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        for space in fs::read_dir(&self.root)?.filter_map(Result::ok) {
            if !space.path().is_dir() {
                continue;
            }
            match isomer_segment_log::list(&space.path(), &self.format) {
                Ok(files) => found.extend(files),
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Indexes the records that were added to any file.
    fn refresh(&self, inner: &mut Inner) -> io::Result<()> {
        let paths = match isomer_segment_log::paths(&self.folder, &self.format) {
            // Removed meanwhile; the next writer makes it again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            paths => paths?,
        };
        for path in paths {
            let place = match inner.segments.iter().position(|segment| segment.path() == path) {
                Some(place) => place,
                None => match Segment::open(&path, &self.format) {
                    Ok(segment) => {
                        inner.segments.push(segment);
                        inner.segments.len() - 1
                    }
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            for found in inner.segments[place].read_on(|content| content.first_chunk::<KEY>().copied())? {
                // A record that does not match its checksum is a miss.
                if let Some(key) = found.value {
                    inner.index.insert(key, (place, found.offset));
                }
            }
        }
        Ok(())
    }

    /// Removes the oldest files until a new one has room.
    fn make_room(&self, inner: &mut Inner) -> io::Result<()> {
        let mut files = self.files_of_all_spaces()?;
        files.sort_by_key(|file| file.changed);
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if bytes + self.full() <= self.most_bytes {
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
        // Files that are gone answer no more; the places of the others change.
        if inner.segments.iter().any(|segment| !segment.path().exists()) {
            inner.segments.clear();
            inner.index.clear();
        }
        Ok(())
    }
}
