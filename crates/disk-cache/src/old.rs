//! The append-only files of older versions, `<prefix><uuid><suffix>`. A cache imports their
//! records.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::Key;

/// Number of bytes of a digest that serve as a checksum.
const CHECKSUM: usize = 8;
/// Characters of a checksum in hex.
const CHECKSUM_CHARS: usize = 2 * CHECKSUM;

/// The files of one cache.
#[derive(Debug, Clone)]
pub struct OldFiles {
    pub folder: PathBuf,
    pub prefix: &'static str,
    pub suffix: &'static str,
    pub framing: Framing,
    /// The key and the value of a record's content; `None` if it is not an entry.
    pub decode: fn(&[u8]) -> Option<(Key, Vec<u8>)>,
}

/// The framing of a file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Records of one size: the content, then the first 8 bytes of its SHA-256.
    Fixed {
        /// Bytes of a record's content.
        content: usize,
    },
    /// Lines: the first 8 bytes of the content's BLAKE3 in hex, a space, the content, a line feed.
    Lines,
}

/// The entries of one file.
pub(crate) struct OldEntries {
    pub(crate) path: PathBuf,
    /// When the file was started, or last changed if its name lacks the time.
    pub(crate) begun: SystemTime,
    reader: BufReader<File>,
    framing: Framing,
    decode: fn(&[u8]) -> Option<(Key, Vec<u8>)>,
}

impl OldFiles {
    /// The paths of the files. A missing folder has none.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn paths(&self) -> io::Result<Vec<PathBuf>> {
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files?,
        };
        let mut paths: Vec<_> = files.filter_map(Result::ok).map(|file| file.path()).collect();
        paths.retain(|path| self.id(path).is_some());
        paths.sort();
        Ok(paths)
    }

    fn id<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(self.prefix)?.strip_suffix(self.suffix)
    }

    /// When a file was started, if its name contains the time.
    pub fn begun(&self, path: &Path) -> Option<SystemTime> {
        let id = Uuid::parse_str(self.id(path)?).ok()?;
        let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
        Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
    }

    /// Opens a file; `None` if another process has imported it in the meantime.
    pub(crate) fn open(&self, path: PathBuf) -> io::Result<Option<OldEntries>> {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Ok(Some(OldEntries {
            begun: self.begun(&path).map_or_else(|| file.metadata()?.modified(), Ok)?,
            path,
            reader: BufReader::with_capacity(1 << 18, file),
            framing: self.framing,
            decode: self.decode,
        }))
    }
}

impl OldEntries {
    /// The next undamaged entries, at most `most`. It is empty at the end of the file.
    pub(crate) fn next(&mut self, most: usize) -> io::Result<Vec<(Key, Vec<u8>)>> {
        let (mut entries, mut record) = (Vec::new(), Vec::new());
        while entries.len() < most && self.framing.next(&mut self.reader, &mut record)? {
            entries.extend(self.framing.content(&record).and_then(self.decode));
        }
        Ok(entries)
    }
}

impl Framing {
    /// The content of a whole record, or `None` if it is damaged.
    fn content(self, record: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed { .. } => {
                let (content, sum) = record.split_last_chunk::<CHECKSUM>()?;
                Sha256::digest(content).starts_with(sum).then_some(content)
            }
            Self::Lines => {
                let (sum, content) = record.strip_suffix(b"\n")?.split_at_checked(CHECKSUM_CHARS)?;
                let content = content.strip_prefix(b" ")?;
                let digest = hex::encode(&blake3::hash(content).as_bytes()[..CHECKSUM]);
                (sum == digest.as_bytes()).then_some(content)
            }
        }
    }

    /// Reads the next record into `record`. Returns false if the rest is not a whole record.
    fn next(self, reader: &mut impl BufRead, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        match self {
            Self::Fixed { content } => {
                let size = content + CHECKSUM;
                Ok(reader.take(size as u64).read_to_end(record)? == size)
            }
            Self::Lines => {
                reader.read_until(b'\n', record)?;
                Ok(record.ends_with(b"\n"))
            }
        }
    }
}
