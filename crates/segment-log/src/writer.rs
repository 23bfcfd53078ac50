//! The segment that a process appends to.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{Format, Framing, MaxAge, SegmentFile, age::begun, list, private};

/// Approximate maximum size of the records that wait to be written.
const WAITING: usize = 1 << 18;

/// The segment that a process appends to, locked.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    begun: SystemTime,
    file: File,
    framing: Framing,
    /// Bytes in the file.
    length: u64,
    /// Records not yet written to the file.
    waiting: Vec<u8>,
}

impl Writer {
    /// Takes over a segment that no process holds, that has at most `room` bytes and that is [young
    /// enough](MaxAge::is_full), or starts one. The folder is created if missing.
    ///
    /// # Errors
    /// If the folder cannot be created or listed, or no file can be created in it.
    pub fn acquire(folder: &Path, format: &Format, room: u64, age: MaxAge) -> io::Result<Self> {
        private::create_folder(folder)?;
        for SegmentFile { path, begun, .. } in list(folder, format)? {
            if age.is_full(begun) {
                continue;
            }
            match Self::take_over(&path, begun, format.framing, room) {
                Ok(Some(writer)) => return Ok(writer),
                Ok(None) => {}
                // The segment is read-only or was removed in the meantime: try the next one.
                Err(error) => tracing::debug!(segment = %path.display(), %error, "cannot take over this cache segment"),
            }
        }
        let path = folder.join(format!("{}{}{}", format.prefix, uuid::Uuid::now_v7(), format.suffix));
        let file = private::create_file(&path)?;
        // The name is unique to this process. If the file system has no locks, no other process can
        // take over the segment either.
        if let Err(error) = file.try_lock() {
            tracing::debug!(segment = %path.display(), %error, "the cache segment cannot be locked");
        }
        Ok(Self {
            begun: begun(&path, format, SystemTime::now()),
            path,
            file,
            framing: format.framing,
            length: 0,
            waiting: Vec::new(),
        })
    }

    fn take_over(path: &Path, begun: SystemTime, framing: Framing, room: u64) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let length = file.metadata()?.len();
        // The file may have been removed between opening and locking, and later writes would be
        // lost. Names are not reused.
        if length > room || !path.exists() {
            return Ok(None);
        }
        // Its last writer may have been killed while writing a record. No reader has read past the
        // last whole record.
        let whole = framing.end_of_last(&file, length)?;
        if whole < length {
            file.set_len(whole)?;
        }
        Ok(Some(Self {
            path: path.to_owned(),
            begun,
            file,
            framing,
            length: whole,
            waiting: Vec::new(),
        }))
    }

    /// The location of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it was started.
    pub fn begun(&self) -> SystemTime {
        self.begun
    }

    /// Its size in bytes, including waiting records.
    pub fn length(&self) -> u64 {
        self.length + self.waiting.len() as u64
    }

    /// Appends a record with this content; returns its offset and length. It is written to the file
    /// by the next [`flush`](Self::flush) at the latest.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a content that is invalid for the framing; errors of the
    /// file.
    pub fn append(&mut self, content: &[u8]) -> io::Result<(u64, usize)> {
        if !self.framing.takes(content) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the content does not fit the framing of the segment",
            ));
        }
        let (offset, start) = (self.length(), self.waiting.len());
        self.framing.put(content, &mut self.waiting);
        let length = self.waiting.len() - start;
        if self.waiting.len() >= WAITING {
            self.flush()?;
        }
        Ok((offset, length))
    }

    /// Writes the waiting records to the file. A record that could be written only in part is
    /// removed again.
    ///
    /// # Errors
    /// Errors of the file. The waiting records are lost.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.waiting);
        let bytes = std::mem::take(&mut self.waiting).len() as u64;
        if let Err(error) = written {
            if let Err(undo) = self.file.set_len(self.length) {
                tracing::warn!(segment = %self.path.display(), error = %undo, "cannot take back half a record of the cache");
            }
            return Err(error);
        }
        self.length += bytes;
        Ok(())
    }

    /// Syncs written data to the disk (`fsync`).
    pub fn sync(&self) {
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(segment = %self.path.display(), %error, "cannot sync the cache segment");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(segment = %self.path.display(), %error, "the cache cannot be written");
        }
    }
}
