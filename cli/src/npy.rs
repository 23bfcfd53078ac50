//! The .npy format of a matrix (numpy format 1.0): a header, then the elements, little endian,
//! row-major. Rows are written as they arrive; the crate `ndarray-npy` writes whole arrays only.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

const HEADER_BYTES: usize = 128;

/// Element type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Signed bytes.
    I8,
    /// Unsigned bytes.
    U8,
}

impl Element {
    fn descr(self) -> &'static str {
        match self {
            Self::F32 => "<f4",
            Self::F16 => "<f2",
            Self::I8 => "|i1",
            Self::U8 => "|u1",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }
}

/// Writes rows as they arrive; the file appears under its name only when it is complete.
pub(crate) struct Writer {
    file: BufWriter<File>,
    partial: PathBuf,
    target: PathBuf,
    rows: usize,
    cols: usize,
    element: Element,
}

impl Writer {
    /// Opens `<path>.partial` next to the target.
    pub(crate) fn create(path: &Path, cols: usize, element: Element) -> io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let mut file = BufWriter::new(File::create(&partial)?);
        file.write_all(&header(0, cols, element))?;
        Ok(Self {
            file,
            partial,
            target: path.to_owned(),
            rows: 0,
            cols,
            element,
        })
    }

    /// Number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends whole rows, given as little-endian bytes.
    pub(crate) fn append(&mut self, rows: usize, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() != rows * self.cols * self.element.bytes() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "row length differs from the matrix's",
            ));
        }
        self.rows += rows;
        self.file.write_all(bytes)
    }

    /// Writes the shape and renames the file to its final name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header(self.rows, self.cols, self.element))?;
        self.file.flush()?;
        std::fs::rename(&self.partial, &self.target)
    }
}

/// A version 1.0 header padded to a fixed length, so that the row count can be filled in at the
/// end.
fn header(rows: usize, cols: usize, element: Element) -> Vec<u8> {
    let dict = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {cols}), }}",
        element.descr()
    );
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&((HEADER_BYTES - 10) as u16).to_le_bytes());
    out.extend_from_slice(dict.as_bytes());
    out.resize(HEADER_BYTES - 1, b' ');
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_aligned_and_names_the_shape() {
        let header = header(12, 384, Element::I8);
        assert_eq!(header.len() % 64, 0);
        let text = String::from_utf8_lossy(&header[10..]);
        assert!(text.contains("'shape': (12, 384)") && text.contains("'|i1'"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_file_appears_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.npy");
        let mut writer = Writer::create(&path, 2, Element::F32).unwrap();
        writer.append(1, &[0; 8]).unwrap();
        assert!(writer.append(1, &[0; 4]).is_err());
        assert!(!path.exists());
        writer.finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 136);
    }
}
