//! Append-only files of checksummed records that several processes share. The disk caches are built
//! on them.
//!
//! **Layout.** A log is a folder of *segments*, files of one [`Format`]. A process appends to one
//! segment, which it holds locked. The lock ends with the process, and the next process continues
//! the segment. **Reading.** [`Segment::read_on`] returns the records added since the last call, so
//! entries of other processes are found. An incomplete last record is left for the next call. A
//! record that does not match its checksum is reported as damaged and skipped. **Removing.**
//! [`remove_unless_written`] removes a segment under its lock, so it never removes one that a
//! process writes to. **Erasing.** [`erase`] overwrites single records in any segment, whichever
//! process writes to it. **Age.** The name of a segment contains its starting time. [`MaxAge`] ends
//! segments, and [`remove_over`] removes them, by that time.
//!
//! This crate does not know the meaning of records, the maximum size of a log, or the order in
//! which segments are removed.

mod age;
mod erase;
mod format;
mod private;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

pub use age::{Hourly, MaxAge, Removal, remove_over};
pub use erase::{Erasure, Mode, erase, wipe};
pub use format::{Format, Framing};
pub use segment::{Segment, SegmentRecord, read};
pub use writer::Writer;

/// A segment in a folder.
#[derive(Debug, Clone)]
pub struct SegmentFile {
    /// The location of the file.
    pub path: PathBuf,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was last changed: written to, or [touched](Segment::touch).
    pub changed: SystemTime,
    /// When it was started.
    pub begun: SystemTime,
}

/// The paths of the segments of a folder.
///
/// # Errors
/// If the folder cannot be listed.
pub fn paths(folder: &Path, format: &Format) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| format.names(path)).collect())
}

/// The segments of a folder with their sizes. A segment that is removed during the call is left
/// out.
///
/// # Errors
/// If the folder cannot be listed.
pub fn list(folder: &Path, format: &Format) -> io::Result<Vec<SegmentFile>> {
    let listed = |path: PathBuf| {
        let metadata = fs::metadata(&path).ok()?;
        let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(SegmentFile {
            begun: age::begun(&path, format, changed),
            path,
            bytes: metadata.len(),
            changed,
        })
    };
    Ok(paths(folder, format)?.into_iter().filter_map(listed).collect())
}

/// Removes a segment under its lock: a process that tries to take it over finds it locked or gone.
/// Returns false if a process writes to it, or if it is already gone.
///
/// # Errors
/// If it cannot be opened, locked or removed.
pub fn remove_unless_written(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
