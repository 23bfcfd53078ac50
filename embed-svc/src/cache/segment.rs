//! One file of the cache: records of equal size, appended by one process.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

use super::Key;

const KEY: usize = size_of::<Key>();
const CHECKSUM: usize = 8;

fn record_bytes(width: usize) -> usize {
    KEY + width * size_of::<f32>() + CHECKSUM
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(content);
    std::array::from_fn(|i| digest[i])
}

/// The content of a sound record, without its checksum.
fn content(record: &[u8]) -> Option<&[u8]> {
    let (content, sum) = record.split_last_chunk::<CHECKSUM>()?;
    (checksum(content) == *sum).then_some(content)
}

fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("vectors-") && name.ends_with(".bin"))
}

/// The files of a space.
pub(super) fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing?,
    };
    let paths = listing.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| is_segment(path)).collect())
}

/// A file of any space.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) changed: SystemTime,
}

/// The files of every space.
pub(super) fn files_below(root: &Path) -> io::Result<Vec<Listed>> {
    let mut found = Vec::new();
    for space in fs::read_dir(root)?.filter_map(Result::ok) {
        if !space.path().is_dir() {
            continue;
        }
        for path in files_of(&space.path())? {
            if let Ok(meta) = fs::metadata(&path) {
                let changed = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(Listed {
                    path,
                    bytes: meta.len(),
                    changed,
                });
            }
        }
    }
    Ok(found)
}

/// Removes a file that no process appends to.
pub(super) fn remove_unless_written(path: &Path) -> bool {
    let free = File::open(path).is_ok_and(|file| file.try_lock().is_ok());
    free && fs::remove_file(path).is_ok()
}

/// A file as a reader sees it.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    file: File,
    record: usize,
    /// Records that have been read or are known to be there.
    known: u64,
}

impl Segment {
    pub(super) fn open(path: &Path, width: usize) -> io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            file: File::open(path)?,
            record: record_bytes(width),
            known: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// This process added that record; it need not be read on.
    pub(super) fn added(&mut self, record: u64) {
        self.known = self.known.max(record + 1);
    }

    /// The sound ones of the whole records that have been added.
    pub(super) fn read_on(&mut self) -> io::Result<Vec<(Key, u64)>> {
        let size = self.record as u64;
        let whole = self.file.metadata()?.len() / size;
        let mut found = Vec::new();
        if whole <= self.known {
            return Ok(found);
        }
        self.file.seek(SeekFrom::Start(self.known * size))?;
        let mut reader = BufReader::with_capacity(1 << 18, &self.file);
        let mut record = vec![0; self.record];
        for number in self.known..whole {
            reader.read_exact(&mut record)?;
            if let Some(key) = content(&record).and_then(|content| content.first_chunk::<KEY>()) {
                found.push((*key, number));
            }
        }
        self.known = whole;
        Ok(found)
    }

    /// A vector; `None` when it is no longer what it was.
    pub(super) fn read(&mut self, key: &Key, record: u64) -> Option<Vec<f32>> {
        let mut bytes = vec![0; self.record];
        self.file.seek(SeekFrom::Start(record * self.record as u64)).ok()?;
        self.file.read_exact(&mut bytes).ok()?;
        let values = content(&bytes)?.strip_prefix(key)?;
        Some(
            values
                .as_chunks()
                .0
                .iter()
                .map(|value| f32::from_le_bytes(*value))
                .collect(),
        )
    }
}

/// The file that this process appends to, locked.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    record: usize,
    length: u64,
    /// Records not yet handed to the system.
    waiting: Vec<u8>,
}

impl Writer {
    /// Takes over a file that nobody holds and that has room, or starts one.
    pub(super) fn acquire(folder: &Path, width: usize, full: u64) -> io::Result<Self> {
        let record = record_bytes(width);
        for path in files_of(folder)? {
            if let Ok(Some(writer)) = Self::take_over(&path, record, full) {
                return Ok(writer);
            }
        }
        fs::create_dir_all(folder)?;
        let nanoseconds = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        let path = folder.join(format!("vectors-{}-{nanoseconds}.bin", std::process::id()));
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        // The name is ours alone: where the file system has no locks nobody takes it over either.
        if let Err(error) = file.try_lock() {
            tracing::debug!(file = %path.display(), %error, "a file of the vector cache cannot be locked");
        }
        Ok(Self {
            path,
            file,
            record,
            length: 0,
            waiting: Vec::new(),
        })
    }

    fn take_over(path: &Path, record: usize, full: u64) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let length = file.metadata()?.len();
        if length >= full || !path.exists() {
            return Ok(None);
        }
        // Its last writer may have been killed within a record.
        let whole = length - length % record as u64;
        if whole < length {
            file.set_len(whole)?;
        }
        Ok(Some(Self {
            path: path.to_path_buf(),
            file,
            record,
            length: whole,
            waiting: Vec::new(),
        }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> u64 {
        self.length + self.waiting.len() as u64
    }

    /// Appends a vector; the number of its record.
    pub(super) fn append(&mut self, key: &Key, vector: &[f32]) -> io::Result<u64> {
        let number = self.length() / self.record as u64;
        let start = self.waiting.len();
        self.waiting.extend_from_slice(key);
        self.waiting.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
        let sum = checksum(&self.waiting[start..]);
        self.waiting.extend_from_slice(&sum);
        if self.waiting.len() >= 1 << 18 {
            self.flush()?;
        }
        Ok(number)
    }

    /// Hands everything to the system; what could be written only in part is taken back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.waiting);
        let bytes = std::mem::take(&mut self.waiting).len() as u64;
        if let Err(error) = written {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += bytes;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(file = %self.path.display(), %error, "the vector cache cannot be written");
        }
    }
}
