//! One segment file: a line is `<checksum> <json>\n`, the checksum the first 8 bytes (hex) of the JSON's BLAKE3.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{CacheError, Entry, Key};

const CHECKSUM_CHARS: usize = 16;
/// How often a use is noted on disk.
const TOUCH: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Line<E> {
    key: String,
    #[serde(flatten)]
    entry: E,
}

/// Whether a path is named like a segment.
pub(super) fn is_segment(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("segment-") && name.ends_with(".jsonl"))
}

fn checksum(json: &[u8]) -> String {
    hex::encode(&blake3::hash(json).as_bytes()[..CHECKSUM_CHARS / 2])
}

/// The line of an entry, with its end.
pub(super) fn encode(key: &Key, entry: &Entry) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(&Line {
        key: hex::encode(key),
        entry,
    })?;
    let mut line = checksum(&json).into_bytes();
    line.push(b' ');
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// A whole line, without its end; `None` when it is corrupt.
fn decode(line: &[u8]) -> Option<(Key, Entry)> {
    let (sum, json) = line.split_at_checked(CHECKSUM_CHARS)?;
    let json = json.strip_prefix(b" ")?;
    if sum != checksum(json).as_bytes() {
        return None;
    }
    let line: Line<Entry> = serde_json::from_slice(json).ok()?;
    let key = hex::decode(line.key).ok()?.try_into().ok()?;
    Some((key, line.entry))
}

/// A line that was read.
pub(super) enum Found {
    /// An entry, at an offset.
    Entry { key: Key, offset: u64, length: usize },
    /// Something that is none.
    Corrupt { offset: u64 },
}

/// A segment as a reader sees it.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    /// Everything before this has been read; it is the start of a line.
    read_to: u64,
    /// When a use was noted last.
    touched: Option<Instant>,
}

impl Segment {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Arc::new(File::open(path)?),
            read_to: 0,
            touched: None,
        })
    }

    /// Bytes of whole lines.
    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    /// Notes on disk that it is in use, by the time of its last change, which says what may be removed first.
    pub(super) fn touch(&mut self) {
        if self.touched.is_some_and(|at| at.elapsed() < TOUCH) {
            return;
        }
        self.touched = Some(Instant::now());
        // A cache that is read only, or another's, is not noted, and not removed either.
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// Reads the whole lines that have been added. A last line without its end is left for the next time.
    pub(super) fn read_on(&mut self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        if self.file.metadata()?.len() <= self.read_to {
            return Ok(found);
        }
        let rest = Rest {
            file: &self.file,
            offset: self.read_to,
        };
        let mut reader = BufReader::with_capacity(1 << 16, rest);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let (offset, length) = (self.read_to, line.len() - 1);
            found.push(match decode(&line[..length]) {
                Some((key, _)) => Found::Entry { key, offset, length },
                None => Found::Corrupt { offset },
            });
            self.read_to += line.len() as u64;
            line.clear();
        }
        Ok(found)
    }

    /// Passes over a line that this process has just written, where it is the next one.
    pub(super) fn pass(&mut self, offset: u64, bytes: usize) -> bool {
        let next = self.read_to == offset;
        if next {
            self.read_to += bytes as u64;
        }
        next
    }

    /// The file, for [`read`].
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Reads one line again; `None` when it is no longer what it was. Several may read one file at a time.
pub(super) fn read(file: &File, offset: u64, length: usize) -> io::Result<Option<(Key, Entry)>> {
    let mut line = vec![0; length];
    match (Rest { file, offset }).read_exact(&mut line) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(decode(&line)),
    }
}

/// A file from an offset on. Where others read it at the same time is their own affair.
struct Rest<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Rest<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(self.file, into, self.offset)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(self.file, into, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The one segment this process appends to, locked.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Writer {
    /// Takes over a segment that nobody holds and that has at most `room` bytes, or starts one.
    pub(super) fn acquire(directory: &Path, room: u64) -> Result<Self, CacheError> {
        let listing = fs::read_dir(directory)
            .map_err(|error| CacheError::new("cannot list the cache directory", directory, error))?;
        for path in listing
            .filter_map(Result::ok)
            .map(|file| file.path())
            .filter(|path| is_segment(path))
        {
            match Self::take_over(&path, room) {
                Ok(Some(writer)) => return Ok(writer),
                Ok(None) => {}
                // Read-only, or gone meanwhile: another one will do.
                Err(error) => tracing::debug!(segment = %path.display(), %error, "cannot take over this cache segment"),
            }
        }
        let path = directory.join(format!("segment-{}.jsonl", uuid::Uuid::now_v7()));
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| CacheError::new("cannot make the cache segment", &path, error))?;
        // The name is ours alone. Where the file system has no locks nobody can take it over either.
        if let Err(error) = file.try_lock() {
            tracing::debug!(segment = %path.display(), %error, "the cache segment cannot be locked");
        }
        Ok(Self { path, file, length: 0 })
    }

    fn take_over(path: &Path, room: u64) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let length = file.metadata()?.len();
        // It may have been removed between opening and locking: what is written to it then is lost. Names do not come again.
        if length > room || !path.exists() {
            return Ok(None);
        }
        // Its last writer may have been killed in the middle of a line. Nobody has read past the last whole one.
        let whole = end_of_last_line(&file, length)?;
        if whole < length {
            file.set_len(whole)?;
        }
        Ok(Some(Self {
            path: path.to_owned(),
            file,
            length: whole,
        }))
    }

    /// Appends a line; what could be written only in part is taken back.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<(), CacheError> {
        if let Err(error) = self.file.write_all(line) {
            if let Err(undo) = self.file.set_len(self.length) {
                tracing::warn!(segment = %self.path.display(), error = %undo, "cannot take back half a line of the cache");
            }
            return Err(CacheError::new("cannot write to the cache segment", &self.path, error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes it has.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Tells the disk to keep what was written.
    pub(super) fn sync(&self) {
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(segment = %self.path.display(), %error, "cannot sync the cache segment");
        }
    }
}

/// Offset just after the last line end.
fn end_of_last_line(mut file: &File, length: u64) -> io::Result<u64> {
    const BLOCK: u64 = 1 << 16;
    let mut end = length;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        block.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
