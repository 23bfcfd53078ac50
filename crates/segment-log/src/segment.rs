//! A segment as a reader sees it.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{Format, Framing, age::begun};

/// How often a use is recorded on disk.
const TOUCH: Duration = Duration::from_secs(60);

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentRecord<T> {
    /// The offset at which it begins.
    pub offset: u64,
    /// Its length in bytes, including the frame.
    pub length: usize,
    /// The value of its content, or `None` if the record is damaged. Records that were erased are
    /// not returned.
    pub value: Option<T>,
}

/// A segment as a reader sees it.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    begun: SystemTime,
    file: Arc<File>,
    framing: Framing,
    /// Everything before this offset has been read; it is the start of a record.
    read_to: u64,
    /// When a use was last recorded.
    touched: Option<Instant>,
}

impl Segment {
    /// Opens a segment; the reader starts at its beginning.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, format: &Format) -> io::Result<Self> {
        let file = File::open(path)?;
        let changed = file.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(Self {
            path: path.to_path_buf(),
            begun: begun(path, format, changed),
            file: Arc::new(file),
            framing: format.framing,
            read_to: 0,
            touched: None,
        })
    }

    /// The location of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it was started.
    pub fn begun(&self) -> SystemTime {
        self.begun
    }

    /// Whether its file was removed. An open file can still be read, and its disk space is freed
    /// only when it is closed.
    pub fn is_removed(&self) -> bool {
        #[cfg(unix)]
        let removed = {
            use std::os::unix::fs::MetadataExt;
            self.file.metadata().is_ok_and(|file| file.nlink() == 0)
        };
        #[cfg(not(unix))]
        let removed = !self.path.exists();
        removed
    }

    /// Number of bytes of whole records that have been read.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    /// The file, for [`read`].
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Reads the content of one record again; `None` if it has changed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        read(&self.file, self.framing, offset, length)
    }

    /// Records on disk that the segment is in use, through its modification time. This happens at
    /// most once a minute.
    pub fn touch(&mut self) {
        if self.touched.is_some_and(|at| at.elapsed() < TOUCH) {
            return;
        }
        self.touched = Some(Instant::now());
        // A use of a read-only segment is not recorded. Such a segment is not removed either.
        let _ = self.file.set_modified(SystemTime::now());
    }

    /// Reads the whole records that have been added. `decode` converts a content to a value, or
    /// returns `None` if the content is invalid.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_on<T>(&mut self, mut decode: impl FnMut(&[u8]) -> Option<T>) -> io::Result<Vec<SegmentRecord<T>>> {
        let mut found = Vec::new();
        if self.file.metadata()?.len() <= self.read_to {
            return Ok(found);
        }
        let rest = Rest {
            file: &self.file,
            offset: self.read_to,
        };
        let mut reader = BufReader::with_capacity(1 << 18, rest);
        let mut record = Vec::new();
        while self.framing.next(&mut reader, &mut record)? {
            if !self.framing.is_erased(&record) {
                found.push(SegmentRecord {
                    offset: self.read_to,
                    length: record.len(),
                    value: self.framing.content(&record).and_then(&mut decode),
                });
            }
            self.read_to += record.len() as u64;
        }
        Ok(found)
    }

    /// Skips a record that this process has just appended, so that [`read_on`](Self::read_on) does
    /// not return it. Returns false if earlier records have not been read; in that case the record
    /// is read like any other.
    pub fn pass(&mut self, offset: u64, length: usize) -> bool {
        let known = offset <= self.read_to;
        if known {
            self.read_to = self.read_to.max(offset + length as u64);
        }
        known
    }
}

/// Reads the content of one record again; `None` if it has changed. Several threads may read one
/// file at a time.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &File, framing: Framing, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut record = vec![0; length];
    match (Rest { file, offset }).read_exact(&mut record) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(framing.content(&record).map(<[u8]>::to_vec)),
    }
}

/// The part of a file that starts at an offset. Reading it does not move the file's own position,
/// which all readers of the file share.
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
