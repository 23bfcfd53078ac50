//! The files of a version on this machine: fetched within bounds, named by their content.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_models::{ModelKind, folder};
use sha2::{Digest, Sha256};

use crate::{
    error::{RegistryError, Result},
    locate::{self, DESCRIPTION, EncoderFiles, FileRequest},
    registry::{Registry, StoredFile, Version},
};

/// Prefix of the names of incomplete folders.
const INCOMING: &str = "incoming-";
const DAY: Duration = Duration::from_secs(86_400);
/// Maximum bytes of `MLmodel`, which is text.
const MOST_DESCRIPTION: u64 = 1 << 20;

/// Bounds on fetched files.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum bytes of all files of an encoder.
    pub bytes: u64,
    /// Maximum number of files of a version.
    pub files: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            files: 2_000,
        }
    }
}

#[derive(Debug)]
pub struct VersionFiles {
    /// sha256 (hex) over the paths, sizes and tags of all files of the version.
    pub listing: String,
    /// The result of fetching.
    pub outcome: FetchOutcome,
}

/// The result of fetching the files of a version.
#[derive(Debug)]
pub enum FetchOutcome {
    /// They are an encoder, on this machine.
    Encoder(LocalEncoder),
    /// They are not an encoder that can be checked.
    Unsupported(String),
    /// They exceed a bound.
    Refused(String),
}

/// An encoder's folder on this machine. It is removed when the last holder in any process is gone.
#[derive(Debug)]
pub struct LocalEncoder {
    pub path: PathBuf,
    /// sha256 (hex) over the paths and contents of its files.
    pub digest: String,
    lock: File,
    parent: PathBuf,
}

impl Drop for LocalEncoder {
    fn drop(&mut self) {
        // Other users of the folder hold the lock too, and remove the folder in the end.
        if self.lock.unlock().is_ok() {
            remove_unheld(&self.lock, &self.parent);
        }
    }
}

/// Removes a folder unless its lock is held. It is renamed first, so that a process that is killed
/// while removing leaves no partial folder under the final name.
fn remove_unheld(lock: &File, folder: &Path) {
    if lock.try_lock().is_err() {
        return;
    }
    let away = folder.with_file_name(format!("{INCOMING}{}", uuid::Uuid::now_v7()));
    let removed = fs::rename(folder, &away).and_then(|()| fs::remove_dir_all(&away));
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "a folder could not be removed");
    }
}

/// sha256 (hex) over the paths and sizes of files, and over the store's tags of their content.
pub fn listing_digest(files: &[StoredFile]) -> String {
    let mut sorted: Vec<&StoredFile> = files.iter().collect();
    sorted.sort();
    let mut hash = Sha256::new();
    for file in sorted {
        let size = file.size.map_or("?".to_owned(), |size| size.to_string());
        hash.update(format!("{}\0{size}", file.path));
        if let Some(tag) = &file.tag {
            hash.update(format!("\0{tag}"));
        }
        hash.update("\n");
    }
    hex::encode(hash.finalize())
}

/// The folder in which versions are stored while they are checked.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).map_err(RegistryError::io("creating the folder", &root))?;
        let root = root
            .canonicalize()
            .map_err(RegistryError::io("reading the folder", &root))?;
        Ok(Self { root })
    }

    /// Fetches the encoder of a version.
    ///
    /// # Errors
    /// If the registry or this machine fails. A problem with the version itself is a
    /// [`FetchOutcome`].
    pub async fn fetch<R: Registry>(&self, registry: &R, version: &Version, bounds: Bounds) -> Result<VersionFiles> {
        let files = match registry.files(version).await {
            Err(RegistryError::Store { uri, message }) => {
                let reason = format!("its files are at {uri}, and {message}");
                return Ok(VersionFiles {
                    listing: String::new(),
                    outcome: FetchOutcome::Unsupported(reason),
                });
            }
            Err(RegistryError::TooLarge(reason)) => {
                return Ok(VersionFiles {
                    listing: String::new(),
                    outcome: FetchOutcome::Refused(reason),
                });
            }
            files => files?,
        };
        Ok(VersionFiles {
            listing: listing_digest(&files),
            outcome: self.fetch_listed(registry, version, &files, bounds).await?,
        })
    }

    async fn fetch_listed<R: Registry>(
        &self,
        registry: &R,
        version: &Version,
        files: &[StoredFile],
        bounds: Bounds,
    ) -> Result<FetchOutcome> {
        if files.len() > bounds.files {
            return Ok(FetchOutcome::Refused(format!(
                "it has more than {} files (--max-files)",
                bounds.files
            )));
        }
        let incoming = tempfile(&self.root)?;
        let located = match self.locate(registry, version, files, incoming.path()).await? {
            Ok(located) => located,
            Err(reason) => return Ok(FetchOutcome::Unsupported(reason)),
        };
        let promised: u64 = located
            .files
            .iter()
            .filter_map(|file| file.size)
            .fold(0, u64::saturating_add);
        if promised > bounds.bytes {
            return Ok(FetchOutcome::Refused(too_large(promised, bounds)));
        }
        let encoder = incoming.path().join("encoder");
        if let Some(refusal) = download(registry, version, &located, &encoder, bounds).await? {
            return Ok(FetchOutcome::Refused(refusal));
        }
        if let Err(error) = folder::inspect(&encoder, ModelKind::Encoder) {
            // The folder is temporary, so its name would be meaningless.
            let shown = error.to_string().replace(&*encoder.to_string_lossy(), &located.folder);
            return Ok(FetchOutcome::Unsupported(shown));
        }
        let digest = content_digest(&encoder, &located.files)?;
        self.keep(version, &encoder, digest).map(FetchOutcome::Encoder)
    }

    async fn locate<R: Registry>(
        &self,
        registry: &R,
        version: &Version,
        files: &[StoredFile],
        incoming: &Path,
    ) -> Result<Result<EncoderFiles, String>> {
        let mut description = None;
        if files.iter().any(|file| file.path == DESCRIPTION) {
            let to = incoming.join(DESCRIPTION);
            let read = registry.download(version, DESCRIPTION, &to, MOST_DESCRIPTION).await?;
            if read.is_none() {
                return Ok(Err(format!("{DESCRIPTION} is longer than {MOST_DESCRIPTION} bytes")));
            }
            let bytes = fs::read(&to).map_err(RegistryError::io("reading", &to))?;
            let Ok(text) = String::from_utf8(bytes) else {
                return Ok(Err(format!("{DESCRIPTION} is not UTF-8")));
            };
            description = Some(text);
        }
        Ok(locate::locate(files, description.as_deref()))
    }

    /// Moves a fetched folder to the location of its content, unless it exists.
    fn keep(&self, version: &Version, encoder: &Path, digest: String) -> Result<LocalEncoder> {
        let parent = self.root.join(digest.get(..32).unwrap_or(&digest));
        // Reports show this name.
        let path = parent.join(folder_name(version));
        let lock_file = parent.with_extension("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_file)
            .map_err(RegistryError::io("opening", &lock_file))?;
        lock.lock_shared().map_err(RegistryError::io("locking", &lock_file))?;
        fs::create_dir_all(&parent).map_err(RegistryError::io("creating the folder", &parent))?;
        match fs::rename(encoder, &path) {
            Ok(()) => {}
            // A rename is atomic, and the name contains the digest, so an existing folder has the
            // same content.
            Err(_) if path.is_dir() => {}
            Err(error) => return Err(RegistryError::io("moving files to", &path)(error)),
        }
        Ok(LocalEncoder {
            path,
            digest,
            lock,
            parent,
        })
    }
}

/// A folder below `root` that is removed when this value is dropped.
fn tempfile(root: &Path) -> Result<PartialFolder> {
    let path = root.join(format!("{INCOMING}{}", uuid::Uuid::now_v7()));
    fs::create_dir_all(&path).map_err(RegistryError::io("creating the folder", &path))?;
    Ok(PartialFolder(path))
}

struct PartialFolder(PathBuf);

impl PartialFolder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "a folder could not be removed");
        }
    }
}

/// Removes leftovers of killed processes: folders that nobody holds and that are `unheld` old, and
/// incomplete folders that are a day old, because no process can still be fetching them.
pub fn sweep(root: &Path, unheld: Duration) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let changed = entry.metadata().and_then(|outcome| outcome.modified()).ok();
        let age = changed.and_then(|time| time.elapsed().ok()).unwrap_or_default();
        if entry.file_name().to_string_lossy().starts_with(INCOMING) {
            if age > DAY {
                drop(fs::remove_dir_all(&path));
            }
        } else if path.extension().is_some_and(|ending| ending == "lock")
            && age >= unheld
            && let Ok(lock) = File::options().write(true).open(&path)
        {
            remove_unheld(&lock, &path.with_extension(""));
        }
    }
}

fn too_large(bytes: u64, bounds: Bounds) -> String {
    format!(
        "its encoder has {bytes} bytes, and at most {} are fetched (--max-bytes)",
        bounds.bytes
    )
}

/// Downloads all files. Returns the reason if they exceed the bounds, whatever sizes the registry
/// had reported.
async fn download<R: Registry>(
    registry: &R,
    version: &Version,
    located: &EncoderFiles,
    to: &Path,
    bounds: Bounds,
) -> Result<Option<String>> {
    let mut left = bounds.bytes;
    for file in &located.files {
        let path = to.join(&file.to);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(RegistryError::io("creating the folder", folder))?;
        }
        match registry.download(version, &file.from, &path, left).await? {
            None => {
                return Ok(Some(format!(
                    "its encoder has more than {} bytes (--max-bytes)",
                    bounds.bytes
                )));
            }
            Some(size) if file.size.is_some_and(|said| said != size) => {
                // The file changed while it was fetched, or was truncated.
                return Err(RegistryError::Unavailable {
                    doing: format!("fetching {} of {}", file.from, version.shown()),
                    message: format!("{size} bytes came, {} were listed", file.size.unwrap_or_default()),
                });
            }
            Some(size) => left = left.saturating_sub(size),
        }
    }
    Ok(None)
}

fn content_digest(folder: &Path, files: &[FileRequest]) -> Result<String> {
    let mut all = Sha256::new();
    for file in files {
        let path = folder.join(&file.to);
        let one = file_digest(&path).map_err(RegistryError::io("reading", &path))?;
        all.update(format!("{}\0{one}\n", file.to));
    }
    Ok(hex::encode(all.finalize()))
}

fn file_digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// A name for people that is valid in every file system.
fn folder_name(version: &Version) -> String {
    let plain = |text: &str| -> String {
        let kept = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        text.chars().take(60).map(kept).collect()
    };
    format!("{}-v{}", plain(&version.model), plain(&version.number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    fn version(model: &str) -> Version {
        Version {
            model: model.to_owned(),
            number: "3".to_owned(),
            id: String::new(),
            files: String::new(),
            tags: BTreeMap::new(),
            run: None,
            logged_model: None,
            ready: true,
        }
    }

    #[test]
    fn a_folder_stays_as_long_as_somebody_holds_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path().to_owned()).unwrap();
        let new = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("config.json"), "{}").unwrap();
            path
        };
        let keep = |name: &str| folder.keep(&version("org/enc"), &new(name), "ab".repeat(32)).unwrap();
        let (first, second) = (keep("one"), keep("two"));
        assert_eq!(first.path, second.path);
        assert!(first.path.ends_with("org_enc-v3"), "{}", first.path.display());
        drop(first);
        assert!(second.path.join("config.json").is_file());
        let path = second.path.clone();
        drop(second);
        assert!(!path.exists());
        // The folder can be created again.
        assert!(keep("three").path.is_dir());
    }

    #[test]
    fn a_sweep_removes_what_nobody_holds_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path().to_owned()).unwrap();
        let new = root.path().join("new");
        fs::create_dir(&new).unwrap();
        let held = folder.keep(&version("enc"), &new, "ab".repeat(32)).unwrap();
        // As left by a killed process.
        let left = root.path().join("cd".repeat(16));
        fs::create_dir(&left).unwrap();
        fs::write(left.with_extension("lock"), "").unwrap();
        sweep(root.path(), DAY);
        assert!(left.is_dir());
        sweep(root.path(), Duration::ZERO);
        assert!(!left.exists() && held.path.is_dir());
    }

    #[test]
    fn the_digest_of_a_listing_changes_with_a_path_and_with_a_size_and_not_with_the_order() {
        let file = |path: &str, size| StoredFile {
            path: path.to_owned(),
            size,
            tag: None,
        };
        let one = listing_digest(&[file("a", Some(1)), file("b", Some(2))]);
        assert_eq!(one, listing_digest(&[file("b", Some(2)), file("a", Some(1))]));
        for other in [
            vec![file("a", Some(1)), file("b", Some(3))],
            vec![file("a", Some(1)), file("c", Some(2))],
            vec![file("a", Some(1))],
            vec![file("a", Some(1)), file("b", None)],
        ] {
            assert_ne!(one, listing_digest(&other), "{other:?}");
        }
        // A store with tags of the content reveals a change that keeps the size.
        let tagged = |tag: &str| {
            let mut file = file("a", Some(1));
            file.tag = Some(tag.to_owned());
            listing_digest(&[file])
        };
        assert_eq!(tagged("x"), tagged("x"));
        assert_ne!(tagged("x"), tagged("y"));
    }

    #[test]
    fn the_digest_of_the_content_changes_with_one_byte() {
        let folder = tempfile::tempdir().unwrap();
        let files = [FileRequest {
            from: "x/a.json".to_owned(),
            to: "a.json".to_owned(),
            size: None,
        }];
        fs::write(folder.path().join("a.json"), "{}").unwrap();
        let one = content_digest(folder.path(), &files).unwrap();
        fs::write(folder.path().join("a.json"), "[]").unwrap();
        assert_ne!(one, content_digest(folder.path(), &files).unwrap());
    }
}
