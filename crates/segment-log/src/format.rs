//! The layout of records in a segment, and the detection of damaged ones.

use std::{
    fs::File,
    io::{self, BufRead, Read, Seek, SeekFrom},
    path::Path,
};

use sha2::{Digest, Sha256};

/// Number of bytes of a digest that serve as a checksum.
const CHECKSUM: usize = 8;
/// Characters of a checksum in hex.
const CHECKSUM_CHARS: usize = 2 * CHECKSUM;

/// The names of a log's segments, and the layout of their records. Both are fixed by files that
/// older versions wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Prefix of a segment's name.
    pub prefix: &'static str,
    /// Suffix of a segment's name.
    pub suffix: &'static str,
    /// The framing of its records.
    pub framing: Framing,
}

/// The framing of a segment's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Records of one size: the content, then the first 8 bytes of its SHA-256.
    Fixed {
        /// Bytes of a record's content, which may not be 0.
        content: usize,
    },
    /// Lines: the first 8 bytes of the content's BLAKE3 in hex, a space, the content, a line feed.
    /// The content has no line feed.
    Lines,
}

impl Format {
    /// Whether a path has the name of a segment of this format.
    pub fn names(&self, path: &Path) -> bool {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(self.prefix) && name.ends_with(self.suffix))
    }
}

impl Framing {
    /// Adds a record with this content to `bytes`.
    pub(crate) fn put(self, content: &[u8], bytes: &mut Vec<u8>) {
        match self {
            Self::Fixed { .. } => {
                bytes.extend_from_slice(content);
                bytes.extend_from_slice(&sha256(content));
            }
            Self::Lines => {
                bytes.extend_from_slice(blake3(content).as_bytes());
                bytes.push(b' ');
                bytes.extend_from_slice(content);
                bytes.push(b'\n');
            }
        }
    }

    /// Whether this content is valid for a record.
    pub(crate) fn takes(self, content: &[u8]) -> bool {
        match self {
            Self::Fixed { content: bytes } => content.len() == bytes,
            Self::Lines => !content.contains(&b'\n'),
        }
    }

    /// Bytes of a record whose content has `content` bytes.
    pub fn record_bytes(self, content: usize) -> usize {
        match self {
            Self::Fixed { .. } => content + CHECKSUM,
            Self::Lines => CHECKSUM_CHARS + 1 + content + 1,
        }
    }

    /// The content of a whole record, or `None` if it is damaged.
    pub(crate) fn content(self, record: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed { .. } => {
                let (content, sum) = record.split_last_chunk::<CHECKSUM>()?;
                (sha256(content) == *sum).then_some(content)
            }
            Self::Lines => {
                let (sum, content) = record.strip_suffix(b"\n")?.split_at_checked(CHECKSUM_CHARS)?;
                let content = content.strip_prefix(b" ")?;
                (sum == blake3(content).as_bytes()).then_some(content)
            }
        }
    }

    /// Overwrites a record: its content is removed, and it remains a single record.
    pub(crate) fn erase(self, record: &mut [u8]) {
        match self {
            Self::Fixed { .. } => record.fill(0),
            Self::Lines => {
                let last = record.len().saturating_sub(1);
                record[..last].fill(b' ');
            }
        }
    }

    pub(crate) fn is_erased(self, record: &[u8]) -> bool {
        match self {
            Self::Fixed { .. } => record.iter().all(|byte| *byte == 0),
            Self::Lines => record
                .strip_suffix(b"\n")
                .is_some_and(|line| line.iter().all(|byte| *byte == b' ')),
        }
    }

    /// Reads the next record into `record`. Returns false if the rest is not a whole record.
    pub(crate) fn next(self, reader: &mut impl BufRead, record: &mut Vec<u8>) -> io::Result<bool> {
        record.clear();
        match self {
            Self::Fixed { content } => {
                let size = self.record_bytes(content);
                let read = reader.take(size as u64).read_to_end(record)?;
                Ok(read == size)
            }
            Self::Lines => {
                reader.read_until(b'\n', record)?;
                Ok(record.ends_with(b"\n"))
            }
        }
    }

    /// The end of the last whole record of a file with this length.
    pub(crate) fn end_of_last(self, file: &File, length: u64) -> io::Result<u64> {
        match self {
            Self::Fixed { content } => Ok(length - length % self.record_bytes(content) as u64),
            Self::Lines => end_of_last_line(file, length),
        }
    }
}

fn sha256(content: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(content);
    std::array::from_fn(|i| digest[i])
}

fn blake3(content: &[u8]) -> String {
    hex::encode(&blake3::hash(content).as_bytes()[..CHECKSUM])
}

/// Offset just after the last line feed.
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
