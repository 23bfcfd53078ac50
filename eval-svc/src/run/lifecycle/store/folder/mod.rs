//! Runs in a folder: `<state_dir>/<run id>/{run.json, lock, report.*}` and
//! `<state_dir>/requests/<digest>` for idempotency; `<state_dir>/attempts.jsonl` for all runs.
//!
//! A process holds the lock of a run while it executes it. If a run is active on disk and its lock
//! is free, its process died; the next reader marks the run as interrupted.

mod attempts;
mod forget;
mod leadership;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tonic::Code;

use self::leadership::FolderLeadership;
use super::{CancelRequest, Creation, INTERRUPTED, RunEnd, RunPage, RunStore, StoreError};
use crate::run::{
    atomic_file::write_atomically,
    events::Event,
    record::{RunRecord, SCHEMA},
};

const RECORD: &str = "run.json";
const LOCK: &str = "lock";
/// The text of a suite that the caller sent; older versions keep it in the record.
const SUITE: &str = "suite.toml";
/// Prefix of the name of a folder that is being removed.
const GONE: &str = ".gone-";
/// Maximum number of attempts to remove a folder.
const REMOVALS: usize = 5;
const REQUESTS: &str = "requests";

/// The folder of all runs.
#[derive(Debug, Clone)]
pub(in crate::run) struct FolderStore {
    root: PathBuf,
}

/// Held while a run is executed; released when it is dropped or when the process dies.
#[derive(Debug)]
struct RunLock {
    _file: File,
}

impl FolderStore {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub(in crate::run) fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let requests = root.join(REQUESTS);
        fs::create_dir_all(&requests).map_err(at(&requests))?;
        for entry in fs::read_dir(&root).map_err(at(&root))? {
            let entry = entry.map_err(at(&root))?;
            if entry.file_name().to_string_lossy().starts_with(GONE) {
                // Another process may be removing it.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(Self { root })
    }

    /// A run's folder.
    fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// Creates a run's folder, takes its lock and writes its record.
    ///
    /// # Errors
    /// If the disk refuses the write.
    fn create_locked(&self, record: &RunRecord) -> Result<RunLock, StoreError> {
        let folder = self.folder(&record.id);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let path = folder.join(LOCK);
        let file = open_lock(&path).map_err(at(&path))?;
        file.try_lock().map_err(io::Error::from).map_err(at(&path))?;
        self.save(record)?;
        if let Some(request) = &record.request_id {
            let path = self.request_path(request);
            write_atomically(&path, record.id.as_bytes()).map_err(at(&path))?;
        }
        Ok(RunLock { _file: file })
    }

    /// Writes a run's record.
    ///
    /// # Errors
    /// If the disk refuses the write.
    fn save(&self, record: &RunRecord) -> Result<(), StoreError> {
        if let Some(text) = record.suite_text() {
            let path = self.folder(&record.id).join(SUITE);
            if !path.exists() {
                write_atomically(&path, text.as_bytes()).map_err(at(&path))?;
            }
        }
        let path = self.folder(&record.id).join(RECORD);
        let json = serde_json::to_vec_pretty(&record.clone().outline()).map_err(|error| at(&path)(error.into()))?;
        write_atomically(&path, &json).map_err(at(&path))
    }

    /// Reads a run with the text of its suite.
    ///
    /// # Errors
    /// As [`FolderStore::outline`].
    fn load(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let Some(record) = self.stored(id)? else {
            return Ok(None);
        };
        if record.suite_text().is_some() {
            return Ok(Some(record));
        }
        let text = self.read_file(id, SUITE)?.unwrap_or_default();
        Ok(Some(
            record.with_suite_text(String::from_utf8_lossy(&text).into_owned()),
        ))
    }

    /// Reads a run without the text of its suite.
    ///
    /// # Errors
    /// If the record is unreadable; a missing run is `None`.
    fn outline(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.stored(id)?.map(RunRecord::outline))
    }

    /// Reads a run's record. A run whose process died is returned, and saved, as failed.
    fn stored(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        let Some(record) = self.read(id)? else { return Ok(None) };
        if !record.is_active() {
            return Ok(Some(record));
        }
        let path = self.folder(id).join(LOCK);
        let lock = open_lock(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {
                // The process may have ended the run properly between the read and the lock, so the
                // record is read again.
                let Some(mut record) = self.read(id)? else {
                    return Ok(None);
                };
                if record.is_active() {
                    record.fail(Code::Aborted, INTERRUPTED.to_owned());
                    record.ended = Some(Timestamp::now());
                    self.save(&record)?;
                }
                Ok(Some(record))
            }
            Err(TryLockError::WouldBlock) => Ok(Some(record)),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    fn read(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let path = self.folder(id).join(RECORD);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let record: RunRecord = serde_json::from_slice(&bytes).map_err(|error| at(&path)(error.into()))?;
        if record.schema != SCHEMA {
            let message = format!("format `{}`, this version reads `{SCHEMA}`", record.schema);
            return Err(at(&path)(io::Error::new(io::ErrorKind::InvalidData, message)));
        }
        Ok(Some(record))
    }

    /// Ids of all runs, newest first.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn ids(&self) -> Result<Vec<String>, StoreError> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(at(&self.root))? {
            let name = entry.map_err(at(&self.root))?.file_name();
            if let Some(name) = name.to_str().filter(|name| is_id(name)) {
                ids.push(name.to_owned());
            }
        }
        // Version 7 ids begin with the time.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// The run that a request id started.
    fn find_request(&self, request: &str) -> Option<String> {
        let id = fs::read_to_string(self.request_path(request)).ok()?;
        is_id(&id).then_some(id)
    }

    /// Deletes a run.
    ///
    /// # Errors
    /// If the disk refuses the write.
    fn remove(&self, record: &RunRecord) -> Result<(), StoreError> {
        if let Some(request) = &record.request_id {
            let path = self.request_path(request);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
        let folder = self.folder(&record.id);
        // A report that was started before its run was cancelled may still be written to the
        // folder. No new file is written under the other name.
        let gone = self.root.join(format!("{GONE}{}", record.id));
        fs::rename(&folder, &gone).map_err(at(&folder))?;
        for _ in 0..REMOVALS {
            match fs::remove_dir_all(&gone) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&gone)(error)),
                _ => return Ok(()),
            }
        }
        // The run is deleted. A file that was written in the meantime is removed when the folder of
        // all runs is next opened.
        Ok(())
    }

    /// Writes a file into a run's folder.
    ///
    /// # Errors
    /// If the disk refuses the write.
    fn write_file(&self, id: &str, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.folder(id).join(name);
        write_atomically(&path, content).map_err(at(&path))
    }

    /// Reads a file of a run's folder.
    ///
    /// # Errors
    /// If it is missing or unreadable.
    fn read_file(&self, id: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder(id).join(name);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path)(error)),
        }
    }

    fn request_path(&self, request: &str) -> PathBuf {
        self.root
            .join(REQUESTS)
            .join(blake3::hash(request.as_bytes()).to_hex().as_str())
    }
}

/// Runs a function on the folder on a blocking thread.
async fn blocking<T: Send + 'static>(
    store: &FolderStore,
    work: impl FnOnce(FolderStore) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (store, root) = (store.clone(), store.root.clone());
    let done = tokio::task::spawn_blocking(move || work(store)).await;
    done.unwrap_or_else(|error| Err(at(&root)(io::Error::other(error))))
}

#[tonic::async_trait]
impl RunStore for FolderStore {
    async fn create(&self, record: &RunRecord) -> Result<Creation, StoreError> {
        let record = record.clone();
        blocking(self, move |store| {
            let lock = store.create_locked(&record)?;
            Ok(Creation::New(Box::new(FolderLeadership { store, _lock: lock })))
        })
        .await
    }

    async fn load(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let id = id.to_owned();
        blocking(self, move |store| store.load(&id)).await
    }

    async fn page(&self, before: Option<&str>, viewer: Option<&str>, size: usize) -> Result<RunPage, StoreError> {
        let (before, viewer) = (before.map(str::to_owned), viewer.map(str::to_owned));
        blocking(self, move |store| {
            let mut runs = Vec::new();
            for id in store.ids()? {
                if before.as_ref().is_some_and(|before| id >= *before) {
                    continue;
                }
                match store.outline(&id) {
                    Ok(Some(record)) if record.is_seen_by(viewer.as_deref()) => {
                        if runs.len() == size {
                            return Ok(RunPage { runs, has_more: true });
                        }
                        runs.push(record);
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, id, "a run is left out of the list"),
                }
            }
            Ok(RunPage { runs, has_more: false })
        })
        .await
    }

    async fn ends(&self) -> Result<Vec<RunEnd>, StoreError> {
        blocking(self, |store| {
            let ids = store.ids()?.into_iter();
            // A record that cannot be read never expires.
            let ended = |id: &str| store.outline(id).ok()??.ended;
            Ok(ids.map(|id| RunEnd { ended: ended(&id), id }).collect())
        })
        .await
    }

    async fn by_request(&self, request: &str) -> Result<Option<String>, StoreError> {
        let request = request.to_owned();
        blocking(self, move |store| Ok(store.find_request(&request))).await
    }

    async fn file(&self, id: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (id, name) = (id.to_owned(), name.to_owned());
        blocking(self, move |store| store.read_file(&id, &name)).await
    }

    async fn events(&self, _id: &str, _after: u64) -> Result<Option<Vec<Event>>, StoreError> {
        Ok(None)
    }

    async fn request_cancel(&self, _id: &str, _reason: &str) -> Result<CancelRequest, StoreError> {
        Ok(CancelRequest::Unsupported)
    }

    async fn delete(&self, record: &RunRecord) -> Result<(), StoreError> {
        let record = record.clone();
        blocking(self, move |store| store.remove(&record)).await
    }

    async fn expire_attempts(&self, before: Timestamp) -> Result<(), StoreError> {
        blocking(self, move |store| store.retain_attempts(|one| one.at >= before)).await
    }
}

/// Whether this is a run id, a UUID: no other string becomes a path.
fn is_id(id: &str) -> bool {
    id.len() == 36 && uuid::Uuid::try_parse(id).is_ok()
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::File {
        path: path.to_owned(),
        source,
    }
}
