//! Erases records in place, whichever process appends to their segment.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader},
    path::Path,
};

use crate::Format;

/// The erased records, or those that would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erasure {
    pub records: u64,
    pub bytes: u64,
}

/// Whether records are erased or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are counted.
    Count,
    /// They are overwritten, and the disk has been synced.
    Erase,
}

/// Overwrites the records of a segment whose content is `unwanted`, even if another process appends
/// to it: written records never move. A damaged record is erased too, because its content is
/// unknown. Readers skip an erased record, and those that knew it find that it has changed. A
/// missing segment has no records.
///
/// # Errors
/// If the segment cannot be opened, read or written.
pub fn erase(path: &Path, format: &Format, mode: Mode, mut unwanted: impl FnMut(&[u8]) -> bool) -> io::Result<Erasure> {
    let opened = OpenOptions::new().read(true).write(mode == Mode::Erase).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Erasure::default()),
        Err(error) => return Err(error),
    };
    let mut erased = Erasure::default();
    let mut reader = BufReader::with_capacity(1 << 18, File::open(path)?);
    let (mut offset, mut record) = (0, Vec::new());
    while format.framing.next(&mut reader, &mut record)? {
        let length = record.len() as u64;
        let erase = !format.framing.is_erased(&record) && format.framing.content(&record).is_none_or(&mut unwanted);
        if erase {
            erased.records += 1;
            erased.bytes += length;
            if mode == Mode::Erase {
                format.framing.erase(&mut record);
                write_at(&file, &record, offset)?;
            }
        }
        offset += length;
    }
    if erased.records > 0 && mode == Mode::Erase {
        file.sync_data()?;
    }
    Ok(erased)
}

/// Removes a segment, or overwrites the whole segment if another process appends to it.
///
/// # Errors
/// If the segment cannot be removed or written.
pub fn wipe(path: &Path) -> io::Result<()> {
    if crate::remove_unless_written(path)? {
        return Ok(());
    }
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let (length, zeros) = (file.metadata()?.len(), vec![0; 1 << 16]);
    let mut offset = 0;
    while offset < length {
        let next = usize::try_from(length - offset).map_or(zeros.len(), |left| left.min(zeros.len()));
        write_at(&file, &zeros[..next], offset)?;
        offset += next as u64;
    }
    file.sync_data()
}

fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        #[cfg(unix)]
        let written = std::os::unix::fs::FileExt::write_at(file, bytes, offset)?;
        #[cfg(windows)]
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
