//! Bounds on the memory that a file of rows may take: the length of a line, and the unpacked size
//! of a compressed file.

use std::io::{self, BufRead, Read};

/// Maximum length of a line in bytes; a row with a long document has a few megabytes.
const LONGEST_LINE: usize = 16 << 20;
/// Maximum unpacked size of a compressed file sent with a request.
const INLINE: u64 = 64 << 20;
/// Unpacked size that is always permitted for a compressed file on disk, however small the file is.
const ON_DISK: u64 = 1 << 30;
/// Above that size, the maximum ratio of unpacked to packed bytes.
const RATIO: u64 = 200;

/// Maximum unpacked size of a compressed file of this size; `on_disk` is `None` for a file in
/// memory.
pub(super) fn unpacked(on_disk: Option<u64>) -> u64 {
    match on_disk {
        Some(packed) => packed.saturating_mul(RATIO).max(ON_DISK),
        None => INLINE,
    }
}

/// Reads at most this many bytes and fails on the next.
#[derive(Debug)]
pub(super) struct BoundedReader<R> {
    reader: R,
    left: u64,
    most: u64,
}

impl<R> BoundedReader<R> {
    pub(super) fn new(reader: R, most: u64) -> Self {
        Self {
            reader,
            left: most,
            most,
        }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let message = format!("it unpacks to more than {} bytes, which is the limit", self.most);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        Ok(read)
    }
}

/// Reads a line with its ending into the buffer; 0 at the end.
pub(super) fn read_line(reader: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let most = LONGEST_LINE as u64 + 1;
    let read = reader.take(most).read_until(b'\n', buffer)?;
    if read as u64 == most {
        let message = format!("a line is longer than {LONGEST_LINE} bytes, which is the limit");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_endless_line_is_not_read_to_its_end() {
        let mut buffer = Vec::new();
        let error = read_line(&mut io::BufReader::new(io::repeat(b'x')), &mut buffer).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
        assert!(buffer.len() <= LONGEST_LINE + 1);
        let mut reader = &b"one\ntwo"[..];
        for line in ["one\n", "two", ""] {
            buffer.clear();
            assert_eq!(read_line(&mut reader, &mut buffer).unwrap(), line.len());
            assert_eq!(buffer, line.as_bytes());
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused_at_the_bound() {
        let mut out = Vec::new();
        let error = BoundedReader::new(io::repeat(b'x'), 100_000)
            .read_to_end(&mut out)
            .unwrap_err();
        assert!(
            error.to_string().contains("100000 bytes") && out.len() <= 100_000,
            "{error}"
        );
        out.clear();
        assert_eq!(BoundedReader::new(&b"abc"[..], 3).read_to_end(&mut out).unwrap(), 3);
        assert_eq!((unpacked(Some(10)), unpacked(None)), (ON_DISK, INLINE));
    }
}
