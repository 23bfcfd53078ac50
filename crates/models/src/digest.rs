//! sha256 of files, of several files together, and of tensors independent of their file.

use std::{
    fs::Metadata,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, UNIX_EPOCH},
};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    error::ModelError,
    progress::{REPORT_EVERY, Reporter},
};

/// Hex sha256 of bytes.
pub fn bytes(data: &[u8]) -> String {
    hex::encode(Sha256::digest(data))
}

/// Hex sha256 of a file's contents.
///
/// # Errors
/// [`ModelError::Io`].
pub fn file(path: &Path) -> Result<String, ModelError> {
    file_reporting(path, None)
}

pub(crate) fn file_reporting(path: &Path, reporter: Option<&Reporter>) -> Result<String, ModelError> {
    let mut file = crate::regular::open(path).map_err(ModelError::io("reading", path))?;
    let total = file.metadata().map_err(ModelError::io("reading", path))?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let what: Arc<str> = format!("checking {name}").into();
    let mut hasher = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    let (mut done, mut reported_at) = (0_u64, Instant::now());
    loop {
        let n = file.read(&mut buffer).map_err(ModelError::io("reading", path))?;
        if n == 0 {
            return Ok(hex::encode(hasher.finalize()));
        }
        hasher.update(&buffer[..n]);
        done += n as u64;
        if let Some(reporter) = reporter
            && reported_at.elapsed() >= REPORT_EVERY
        {
            reported_at = Instant::now();
            reporter.at(Arc::clone(&what), done, Some(total));
        }
    }
}

/// Hex sha256 of the tensors of a safetensors file. It is the same for equal tensors, whatever
/// their order or the header.
///
/// The digest covers, for each tensor in order of its name: the name, a zero byte, the dtype as
/// safetensors writes it, a zero byte, the number of dimensions and each dimension as u64
/// little-endian, the data. Tensors whose names start with one of `ignore` are left out.
///
/// # Errors
/// [`ModelError::Io`]; [`ModelError::NotAModel`] if the file is not valid safetensors.
pub fn tensors(path: &Path, ignore: &[String]) -> Result<String, ModelError> {
    let header = crate::folder::read_safetensors_header(path)?;
    let mut file = crate::regular::open(path).map_err(ModelError::io("reading", path))?;
    let mut hasher = Sha256::new();
    for (name, tensor) in &header.tensors {
        if ignore.iter().any(|prefix| name.starts_with(prefix.as_str())) {
            continue;
        }
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(tensor.dtype.as_bytes());
        hasher.update([0]);
        hasher.update((tensor.shape.len() as u64).to_le_bytes());
        for dim in &tensor.shape {
            hasher.update(dim.to_le_bytes());
        }
        let [begin, end] = tensor.data_offsets;
        io::Seek::seek(&mut file, io::SeekFrom::Start(header.data_start + begin))
            .map_err(ModelError::io("reading", path))?;
        let copied = io::copy(&mut Read::by_ref(&mut file).take(end - begin), &mut hasher)
            .map_err(ModelError::io("reading", path))?;
        debug_assert_eq!(copied, end - begin, "the header was compared with the file's size");
    }
    Ok(hex::encode(hasher.finalize()))
}

/// Digest of a model's weights: of the single file, or, if there are several, of the lines
/// `name sha256` in order of names.
pub(crate) fn together(mut files: Vec<(String, String)>) -> String {
    if files.len() == 1 {
        return files.remove(0).1;
    }
    files.sort();
    let lines: String = files
        .iter()
        .map(|(name, digest)| format!("{name} {digest}\n"))
        .collect();
    bytes(lines.as_bytes())
}

/// Size and modification time, which show whether a file has changed since it was digested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970; 0 if the file system does not report it.
    pub mtime_ns: u64,
}

impl Stamp {
    /// The stamp of the file at `path`, following links.
    ///
    /// # Errors
    /// [`ModelError::Io`].
    pub fn of(path: &Path) -> Result<Self, ModelError> {
        let meta = std::fs::metadata(path).map_err(ModelError::io("reading", path))?;
        Ok(Self::from(&meta))
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        let since = meta
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mtime_ns = since.and_then(|d| u64::try_from(d.as_nanos()).ok()).unwrap_or(0);
        Self {
            size: meta.len(),
            mtime_ns,
        }
    }
}

/// The inode number of a file, and the time when the file or its attributes were last changed. They
/// differ for a file that was modified or replaced even if its size and modification time were
/// restored. 0 if the system does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Inode {
    #[serde(default)]
    inode: u64,
    #[serde(default)]
    ctime_ns: i64,
}

impl From<&Metadata> for Inode {
    #[cfg(unix)]
    fn from(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            inode: meta.ino(),
            ctime_ns: meta
                .ctime()
                .saturating_mul(1_000_000_000)
                .saturating_add(meta.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn from(_: &Metadata) -> Self {
        Self::default()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct DigestRecord {
    #[serde(flatten)]
    stamp: Stamp,
    #[serde(flatten)]
    inode: Inode,
    sha256: String,
}

/// Digests of files outside the cache, stored in `<home>/digests.json` so that a folder of
/// gigabytes is read only once. Evidence does not use them ([`crate::ModelFiles`]).
///
/// Losing the file costs only time, so a failed write is only logged.
#[derive(Debug)]
pub(crate) struct DigestCache {
    path: PathBuf,
}

impl DigestCache {
    pub(crate) fn new(home: &Path) -> Self {
        Self {
            path: home.join("digests.json"),
        }
    }

    fn read(&self) -> IndexMap<PathBuf, DigestRecord> {
        std::fs::read(&self.path)
            .ok()
            .and_then(|data| serde_json::from_slice(&data).ok())
            .unwrap_or_default()
    }

    /// sha256 of the file, from the cache while size, times and inode are unchanged.
    pub(crate) fn of(&self, path: &Path, reporter: Option<&Reporter>) -> Result<String, ModelError> {
        let path = path.canonicalize().map_err(ModelError::io("reading", path))?;
        let meta = std::fs::metadata(&path).map_err(ModelError::io("reading", &path))?;
        let (stamp, inode) = (Stamp::from(&meta), Inode::from(&meta));
        if let Some(known) = self.read().get(&path)
            && (known.stamp, known.inode) == (stamp, inode)
            && stamp.mtime_ns != 0
        {
            return Ok(known.sha256.clone());
        }
        let sha256 = file_reporting(&path, reporter)?;
        let mut all = self.read();
        all.insert(
            path,
            DigestRecord {
                stamp,
                inode,
                sha256: sha256.clone(),
            },
        );
        if let Err(error) = write_json(&self.path, &all) {
            tracing::warn!(%error, "the digest of a model outside the cache could not be noted");
        }
        Ok(sha256)
    }
}

/// Writes JSON to a temporary file and renames it, so that a reader never sees a partial file.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ModelError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let io = |error: io::Error| ModelError::Io {
        doing: "writing",
        path: path.to_path_buf(),
        source: error,
    };
    std::fs::create_dir_all(folder).map_err(io)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
    serde_json::to_writer_pretty(&mut temporary, value).map_err(|error| io(error.into()))?;
    temporary.write_all(b"\n").map_err(io)?;
    temporary.persist(path).map_err(|error| io(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn sha256_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            bytes(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), b"abc").unwrap();
        assert_eq!(file(&dir.path().join("f")).unwrap(), bytes(b"abc"));
    }

    #[test]
    fn the_digest_cache_answers_until_the_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, path) = (DigestCache::new(dir.path()), dir.path().join("weights"));
        std::fs::write(&path, b"one").unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"one"));
        // The planted digest is returned while the stamp matches, so the file was not read again.
        let mut all = cache.read();
        all.get_mut(&path.canonicalize().unwrap()).unwrap().sha256 = "planted".into();
        write_json(&dir.path().join("digests.json"), &all).unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), "planted");
        std::fs::write(&path, b"three").unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"three"));
        std::fs::write(dir.path().join("digests.json"), b"{ broken").unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"three"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_with_the_old_size_and_time_but_other_bytes_is_digested_again() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, path) = (DigestCache::new(dir.path()), dir.path().join("weights"));
        let set_time = |path: &Path, time| {
            std::fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(time)
                .unwrap()
        };
        std::fs::write(&path, b"one").unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"one"));
        // Modified in place.
        std::fs::write(&path, b"two").unwrap();
        set_time(&path, time);
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"two"));
        // The file is replaced.
        let other = dir.path().join("other");
        std::fs::write(&other, b"six").unwrap();
        set_time(&other, time);
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"six"));
        // An entry of a version that recorded neither inode nor time of change.
        let stamp = Stamp::of(&path).unwrap();
        let old = serde_json::json!({ path.canonicalize().unwrap().to_str().unwrap(): {
            "size": stamp.size, "mtime_ns": stamp.mtime_ns, "sha256": "planted",
        }});
        write_json(&dir.path().join("digests.json"), &old).unwrap();
        assert_eq!(cache.of(&path, None).unwrap(), bytes(b"six"));
    }

    #[test]
    fn weights_in_several_files_are_digested_in_order_of_names() {
        let (a, b) = (("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned()));
        assert_eq!(together(vec![a.clone()]), "1");
        assert_eq!(together(vec![a.clone(), b.clone()]), together(vec![b, a]));
    }
}
