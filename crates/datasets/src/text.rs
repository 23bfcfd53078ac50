//! Texts of a data set. They are in memory or, for a large corpus, in a file that the operating
//! system reads on demand and evicts when memory is short.

use std::{
    borrow::Borrow,
    fmt,
    fs::File,
    hash::{Hash, Hasher},
    io::{self, BufWriter, Write},
    ops::Deref,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use memmap2::Mmap;

/// Bytes of texts that are kept in memory; a larger corpus goes to a file.
const IN_MEMORY: u64 = 64 << 20;

/// A text. Cheap to clone.
#[derive(Clone)]
pub struct Text(TextStorage);

#[derive(Clone)]
enum TextStorage {
    Memory(Arc<str>),
    File {
        file: Arc<OnceLock<Mmap>>,
        at: u64,
        bytes: u32,
    },
}

impl Text {
    pub fn as_str(&self) -> &str {
        match &self.0 {
            TextStorage::Memory(text) => text,
            TextStorage::File { file, at, bytes } => {
                let all: &[u8] = file.get().map_or(&[], |map| map);
                let begin = usize::try_from(*at).unwrap_or(usize::MAX);
                let text = all
                    .get(begin..begin.saturating_add(*bytes as usize))
                    .unwrap_or_default();
                // SAFETY: these bytes were a `str` when `Spool::keep` wrote them, and the file has
                // no name, so no other process changes them.
                unsafe { std::str::from_utf8_unchecked(text) }
            }
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(TextStorage::Memory(text.into()))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(TextStorage::Memory(text.into()))
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Collects the texts of a corpus one after another.
///
/// The file is in the folder that `TMPDIR` names, else in `/var/tmp`, which unlike `/tmp` is on a
/// disk on every common Linux system. It has no name there, so nothing is left behind however this
/// process ends.
pub(super) struct Spool {
    kept: u64,
    most: u64,
    writer: Option<Writer>,
    /// Set if no file could be created; then the rest stays in memory.
    without: bool,
}

struct Writer {
    writer: BufWriter<File>,
    at: u64,
    file: Arc<OnceLock<Mmap>>,
}

impl Default for Spool {
    fn default() -> Self {
        Self::with(IN_MEMORY)
    }
}

impl Spool {
    /// A spool without a file.
    pub(super) fn in_memory() -> Self {
        Self::with(u64::MAX)
    }

    /// A spool with a limit on the bytes in memory.
    pub(super) fn with(most: u64) -> Self {
        Self {
            kept: 0,
            most,
            writer: None,
            without: false,
        }
    }

    /// Stores a text. A text in the file can be read once the spool is [finished](Self::finish).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn keep(&mut self, text: String) -> io::Result<Text> {
        self.kept += text.len() as u64;
        if self.kept <= self.most || self.without {
            return Ok(text.into());
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => match folder().and_then(tempfile::tempfile_in) {
                Ok(file) => none.insert(Writer {
                    writer: BufWriter::with_capacity(1 << 20, file),
                    at: 0,
                    file: Arc::default(),
                }),
                Err(error) => {
                    tracing::warn!(%error, "a large corpus stays in memory: no file for it can be created; name a folder in TMPDIR");
                    self.without = true;
                    return Ok(text.into());
                }
            },
        };
        let bytes = u32::try_from(text.len()).map_err(io::Error::other)?;
        writer.writer.write_all(text.as_bytes())?;
        let at = writer.at;
        writer.at += u64::from(bytes);
        let file = Arc::clone(&writer.file);
        Ok(Text(TextStorage::File { file, at, bytes }))
    }

    /// Makes the texts in the file readable.
    ///
    /// # Errors
    /// If the file cannot be written or mapped.
    pub(super) fn finish(self) -> io::Result<()> {
        let Some(Writer { writer, file, .. }) = self.writer else {
            return Ok(());
        };
        let written = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        // SAFETY: the file has no name and no other handle, so nothing changes or truncates it
        // while it is mapped.
        let map = unsafe { Mmap::map(&written)? };
        // No second spool can have set it, because the cell belongs to this one.
        let _ = file.set(map);
        Ok(())
    }
}

fn folder() -> io::Result<PathBuf> {
    let disk = PathBuf::from("/var/tmp");
    Ok(match std::env::var_os("TMPDIR") {
        None if disk.is_dir() => disk,
        _ => std::env::temp_dir(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_the_same_in_memory_and_in_a_file() {
        let texts: Vec<String> = (0..500)
            .map(|n| format!("Text {n}: {}", "äß€🦀".repeat(n % 7)))
            .collect();
        for most in [u64::MAX, 0, 3_000] {
            let mut spool = Spool::with(most);
            let kept: Vec<Text> = texts.iter().map(|text| spool.keep(text.clone()).unwrap()).collect();
            spool.finish().unwrap();
            let in_file = kept
                .iter()
                .filter(|text| matches!(text.0, TextStorage::File { .. }))
                .count();
            match most {
                u64::MAX => assert_eq!(in_file, 0),
                0 => assert_eq!(in_file, texts.len()),
                _ => assert!((1..texts.len()).contains(&in_file)),
            }
            assert_eq!(kept, texts);
            // The texts and the spool may outlive each other.
            let last = kept.last().unwrap().clone();
            drop(kept);
            assert_eq!(last, texts[499]);
        }
    }
}
