//! Splits a target's bytes into what its reader takes, and writes files for readers that take a
//! path.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The bytes of an input, taken from the front.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// One of several values, chosen by the next byte. Corpora write the choice as a letter: `a` is
    /// the first value.
    pub fn choice<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let byte = usize::from(self.byte().wrapping_sub(b'a'));
        of.get(byte % of.len().max(1)).copied()
    }

    /// The bytes before the next occurrence of `end`, which is consumed too; all bytes if it does
    /// not occur.
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let mut parts = self.0.splitn(2, |byte| *byte == end);
        let first = parts.next().unwrap_or_default();
        self.0 = parts.next().unwrap_or_default();
        first
    }
}

/// The bytes as text, with invalid UTF-8 replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that is removed when dropped; `None` if it cannot be created.
pub fn folder() -> Option<TempDir> {
    tempfile::tempdir().ok()
}

/// Writes a file into a folder.
pub fn file(folder: &Path, name: &str, content: &[u8]) -> Option<PathBuf> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).ok()?;
    }
    std::fs::write(&path, content).ok()?;
    Some(path)
}
