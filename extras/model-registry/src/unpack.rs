//! Third-party archives: extracts the files of an encoder from a tar, within bounds and inside a
//! folder.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path},
};

use crate::{
    error::{RegistryError, Result},
    fetch::Bounds,
    locate,
    registry::StoredFile,
};

/// The compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    Gzip,
    /// Zstandard.
    Zstd,
}

/// The result of unpacking an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnpackOutcome {
    /// All its files. Those that an encoder may need ([`locate::may_be_fetched`]) are in the
    /// folder.
    Files(Vec<StoredFile>),
    /// It is unreadable, or contains forbidden content.
    Unsupported(String),
    /// It exceeds a bound.
    Refused(String),
}

/// Unpacks an archive into a folder. Links, devices and owners are not created, and a path outside
/// the folder ends the unpacking. Bytes are counted as they are extracted, because an archive's own
/// sizes are not trusted.
///
/// # Errors
/// If a file cannot be written.
pub fn unpack(archive: impl Read, compression: Compression, to: &Path, bounds: Bounds) -> Result<UnpackOutcome> {
    let broken = |error: io::Error| UnpackOutcome::Unsupported(format!("its archive cannot be read: {error}"));
    // One more byte than permitted, to distinguish the bound from the end of the archive.
    let limit = bounds.bytes.saturating_add(1);
    let plain: Box<dyn Read + '_> = match compression {
        Compression::None => Box::new(archive.take(limit)),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(archive).take(limit)),
        Compression::Zstd => match zstd::stream::read::Decoder::new(archive) {
            Ok(decoder) => Box::new(decoder.take(limit)),
            Err(error) => return Ok(broken(error)),
        },
    };
    let mut reader = CountingReader { inner: plain, bytes: 0 };
    let mut files: Vec<StoredFile> = Vec::new();
    let mut archive = tar::Archive::new(&mut reader);
    let mut ended = None;
    match archive.entries() {
        Ok(entries) => {
            for entry in entries {
                let one = match entry {
                    Ok(entry) => take(entry, to, bounds, &mut files)?,
                    Err(error) => Some(broken(error)),
                };
                if one.is_some() {
                    ended = one;
                    break;
                }
            }
        }
        Err(error) => ended = Some(broken(error)),
    }
    if reader.bytes >= limit {
        return Ok(UnpackOutcome::Refused(format!(
            "its archive holds more than {} bytes (--max-bytes)",
            bounds.bytes
        )));
    }
    Ok(ended.unwrap_or_else(|| {
        files.sort();
        UnpackOutcome::Files(files)
    }))
}

/// Processes one entry; returns the reason if the archive ends here.
fn take(
    mut entry: tar::Entry<'_, impl Read>,
    to: &Path,
    bounds: Bounds,
    files: &mut Vec<StoredFile>,
) -> Result<Option<UnpackOutcome>> {
    let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    // Images of systems contain such names, which are not folders there; no encoder needs them.
    if raw.contains(['\\', ':']) && !locate::may_be_fetched(&raw) {
        return Ok(None);
    }
    let Some(path) = plain(&raw) else {
        let shown: String = raw.chars().take(100).flat_map(char::escape_debug).collect();
        let reason = format!("its archive holds the path `{shown}`, which would leave its folder");
        return Ok(Some(UnpackOutcome::Unsupported(reason)));
    };
    if !entry.header().entry_type().is_file() || path.is_empty() {
        return Ok(None);
    }
    // A later entry with the same path replaces the earlier one, as in layers of an image.
    files.retain(|known| known.path != path);
    if files.len() >= bounds.files {
        let reason = format!("its archive has more than {} files (--max-files)", bounds.files);
        return Ok(Some(UnpackOutcome::Refused(reason)));
    }
    files.push(StoredFile {
        size: Some(entry.size()),
        tag: None,
        path: path.clone(),
    });
    if !locate::may_be_fetched(&path) {
        return Ok(None);
    }
    let file = to.join(&path);
    let mut output = created(&file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match entry.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => output
                .write_all(&buffer[..read])
                .map_err(RegistryError::io("writing", &file))?,
            Err(error) => {
                let reason = format!("its archive cannot be read: {error}");
                return Ok(Some(UnpackOutcome::Unsupported(reason)));
            }
        }
    }
}

fn created(file: &Path) -> Result<File> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(RegistryError::io("creating the folder", folder))?;
    }
    File::create(file).map_err(RegistryError::io("writing", file))
}

/// A path below the folder, with `/`; `None` if it is outside. A leading `./` is dropped.
fn plain(raw: &str) -> Option<String> {
    if raw.contains(['\\', '\0', ':']) {
        return None;
    }
    let mut parts = Vec::new();
    for part in Path::new(raw).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

struct CountingReader<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use flate2::{Compression as Level, write::GzEncoder};

    use super::*;

    const BOUNDS: Bounds = Bounds {
        bytes: 100_000,
        files: 5,
    };

    /// An archive with unmodified paths, which well-behaved programs would not write.
    fn archive(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o777);
            if *kind == tar::EntryType::Symlink {
                header.set_link_name("/etc").unwrap();
            }
            header.set_cksum();
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
        }
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    fn file<'a>(path: &'a str, content: &'a [u8]) -> (&'a str, tar::EntryType, &'a [u8]) {
        (path, tar::EntryType::Regular, content)
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn reason(bytes: &[u8], compression: Compression) -> String {
        let folder = tempfile::tempdir().unwrap();
        match unpack(bytes, compression, &folder.path().join("in"), BOUNDS).unwrap() {
            UnpackOutcome::Files(files) => panic!("{files:?}"),
            UnpackOutcome::Unsupported(reason) => format!("unsupported: {reason}"),
            UnpackOutcome::Refused(reason) => format!("refused: {reason}"),
        }
    }

    #[test]
    fn what_an_encoder_needs_is_written_and_all_is_listed() {
        let bytes = archive(&[
            ("./", tar::EntryType::Directory, b""),
            file("./model/config.json", b"{}"),
            file("./model/pytorch_model.bin", b"pickle"),
            file("usr/share/man/Foo::Bar.3pm", b""),
            ("model/link.json", tar::EntryType::Symlink, b""),
            file("model/config.json", b"[1]"),
        ]);
        for (bytes, compression) in [
            (bytes.clone(), Compression::None),
            (gzipped(&bytes), Compression::Gzip),
            (zstd::encode_all(&*bytes, 1).unwrap(), Compression::Zstd),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let UnpackOutcome::Files(files) = unpack(&*bytes, compression, folder.path(), BOUNDS).unwrap() else {
                panic!("{compression:?}");
            };
            let listed: Vec<(&str, Option<u64>)> = files.iter().map(|one| (one.path.as_str(), one.size)).collect();
            assert_eq!(
                listed,
                [("model/config.json", Some(3)), ("model/pytorch_model.bin", Some(6))]
            );
            assert_eq!(fs::read(folder.path().join("model/config.json")).unwrap(), b"[1]");
            let there: Vec<_> = fs::read_dir(folder.path().join("model")).unwrap().flatten().collect();
            assert_eq!(there.len(), 1, "neither the pickle nor the link is made");
        }
    }

    #[test]
    fn a_path_that_leaves_the_folder_ends_it() {
        for path in ["../x.json", "a/../../x.json", "/tmp/x.json", "a\\x.json", "c:x.json"] {
            let problem = reason(&archive(&[file(path, b"{}")]), Compression::None);
            assert!(
                problem.starts_with("unsupported") && problem.contains("leave its folder"),
                "{path}: {problem}"
            );
        }
        // A link out of the folder, and a file through it: the link is not created.
        let bytes = archive(&[("out", tar::EntryType::Symlink, b""), file("out/x.json", b"{}")]);
        let folder = tempfile::tempdir().unwrap();
        unpack(&*bytes, Compression::None, folder.path(), BOUNDS).unwrap();
        assert!(folder.path().join("out").is_dir() && !folder.path().join("out").is_symlink());
    }

    #[test]
    fn bounds_hold_for_what_comes_out() {
        // 100 kB of zeros take a few hundred bytes in gzip.
        let zeros = vec![0; 100_000];
        let bomb = gzipped(&archive(&[file("a.bin", &zeros)]));
        assert!(bomb.len() < 5_000, "{}", bomb.len());
        assert!(
            reason(&bomb, Compression::Gzip).starts_with("refused"),
            "{}",
            reason(&bomb, Compression::Gzip)
        );
        let many: Vec<_> = ["1", "2", "3", "4", "5", "6"].map(|name| file(name, b"")).to_vec();
        let problem = reason(&archive(&many), Compression::None);
        assert!(problem.contains("more than 5 files (--max-files)"), "{problem}");
        assert!(matches!(
            unpack(&*archive(&many[..5]), Compression::None, Path::new("/nowhere"), BOUNDS).unwrap(),
            UnpackOutcome::Files(files) if files.len() == 5
        ));
    }

    #[test]
    fn what_is_no_archive_and_what_is_cut_off_is_told() {
        let whole = archive(&[file("a.json", &[b'1'; 2_000])]);
        for (bytes, compression) in [
            (
                b"no archive at all, but long enough to be the header of one".repeat(20),
                Compression::None,
            ),
            (b"no gzip".to_vec(), Compression::Gzip),
            (b"no zstd".to_vec(), Compression::Zstd),
            (whole[..1_500].to_vec(), Compression::None),
            (gzipped(&whole)[..40].to_vec(), Compression::Gzip),
        ] {
            let problem = reason(&bytes, compression);
            assert!(problem.contains("cannot be read"), "{problem}");
        }
    }
}
