//! Runs on disk: `<state_dir>/<run id>/{run.json, lock, report.*}` and
//! `<state_dir>/requests/<digest>` for idempotency.
//!
//! A process holds the lock of a run while it executes it. If a run is active on disk and its lock
//! is free, its process died; the next reader marks the run as interrupted.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tonic::Code;

use super::record::{Failure, RunRecord, RunState, SCHEMA};

const RECORD: &str = "run.json";
const LOCK: &str = "lock";
/// Prefix of the name of a folder that is being removed.
const GONE: &str = ".gone-";
/// How often the removal of a folder is tried.
const REMOVALS: usize = 5;
const REQUESTS: &str = "requests";

/// Message of a run whose process ended before the run did.
pub const INTERRUPTED: &str = "interrupted; start it again, finished units are kept";

/// A failure of the store, with the file it concerns.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct StoreError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the operating system or the parser said.
    #[source]
    pub source: io::Error,
}

/// The folder of all runs.
#[derive(Debug, Clone)]
pub(super) struct RunStore {
    root: PathBuf,
}

/// Held while a run is executed; it is released when it is dropped or when the process dies.
#[derive(Debug)]
pub(super) struct RunLock {
    _file: File,
}

impl RunStore {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub(super) fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
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
    pub(super) fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// Creates a run's folder, takes its lock and writes its record.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn create(&self, record: &RunRecord) -> Result<RunLock, StoreError> {
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
    /// When the disk refuses.
    pub(super) fn save(&self, record: &RunRecord) -> Result<(), StoreError> {
        let path = self.folder(&record.id).join(RECORD);
        let json = serde_json::to_vec_pretty(record).map_err(|error| at(&path)(error.into()))?;
        write_atomically(&path, &json).map_err(at(&path))
    }

    /// Reads a run. A run whose process died is returned, and saved, as failed.
    ///
    /// # Errors
    /// When the record is unreadable; a missing run is `None`.
    pub(super) fn load(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        let Some(record) = self.read(id)? else { return Ok(None) };
        if !record.state.is_active() {
            return Ok(Some(record));
        }
        let path = self.folder(id).join(LOCK);
        let lock = open_lock(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {
                // The process may have ended the run properly between the read and the lock, so
                // read again.
                let Some(mut record) = self.read(id)? else {
                    return Ok(None);
                };
                if record.state.is_active() {
                    record.state = RunState::Failed;
                    record.failure = Some(Failure {
                        code: Code::Aborted as i32,
                        message: INTERRUPTED.to_owned(),
                    });
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
    pub(super) fn ids(&self) -> Result<Vec<String>, StoreError> {
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
    pub(super) fn by_request(&self, request: &str) -> Option<String> {
        let id = fs::read_to_string(self.request_path(request)).ok()?;
        is_id(&id).then_some(id)
    }

    /// Deletes a run.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn delete(&self, record: &RunRecord) -> Result<(), StoreError> {
        if let Some(request) = &record.request_id {
            let path = self.request_path(request);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
        let folder = self.folder(&record.id);
        // A report that was begun before its run was cancelled may still be written to the folder.
        // Nothing new is written under the other name.
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
    /// When the disk refuses.
    pub(super) fn write_file(&self, id: &str, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.folder(id).join(name);
        write_atomically(&path, content).map_err(at(&path))
    }

    /// Reads a file of a run's folder.
    ///
    /// # Errors
    /// When it is missing or unreadable.
    pub(super) fn read_file(&self, id: &str, name: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.folder(id).join(name);
        fs::read(&path).map_err(at(&path))
    }

    fn request_path(&self, request: &str) -> PathBuf {
        self.root
            .join(REQUESTS)
            .join(blake3::hash(request.as_bytes()).to_hex().as_str())
    }
}

/// Whether this is a run id, a UUID: nothing else becomes a path.
fn is_id(id: &str) -> bool {
    id.len() == 36 && uuid::Uuid::try_parse(id).is_ok()
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError {
        path: path.to_owned(),
        source,
    }
}

/// Writes beside the target and renames, so that neither a reader nor a crash leaves half a file.
pub(super) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    // The folder stores the new name, so it is synced too.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::{super::record::RunRequest, *};

    fn record(request_id: Option<&str>) -> RunRecord {
        let id = uuid::Uuid::now_v7().to_string();
        RunRecord::new(
            id,
            request_id.map(str::to_owned),
            RunRequest::default(),
            Timestamp::now(),
        )
    }

    #[test]
    fn a_run_whose_process_died_is_found_interrupted_and_one_that_lives_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        let record = record(None);
        let lock = store.create(&record).unwrap();
        let other = RunStore::open(folder.path()).unwrap();
        assert_eq!(other.load(&record.id).unwrap().unwrap().state, RunState::Pending);
        drop(lock);
        let found = other.load(&record.id).unwrap().unwrap();
        assert_eq!(found.state, RunState::Failed);
        assert_eq!(found.failure.unwrap().message, INTERRUPTED);
    }

    #[test]
    fn runs_are_listed_newest_first_and_found_by_request_id() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        let (first, second) = (record(Some("../../etc/passwd")), record(None));
        drop((store.create(&first).unwrap(), store.create(&second).unwrap()));
        assert_eq!(store.ids().unwrap(), [second.id.clone(), first.id.clone()]);
        assert_eq!(store.by_request("../../etc/passwd"), Some(first.id.clone()));
        store.delete(&first).unwrap();
        assert_eq!(store.by_request("../../etc/passwd"), None);
        assert_eq!(store.ids().unwrap(), [second.id]);
    }

    #[test]
    fn an_id_that_is_a_path_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        assert!(store.load("../../../../../../../../../../etc/ssl").unwrap().is_none());
    }

    #[test]
    fn a_run_is_deleted_while_its_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        for _ in 0..50 {
            let record = record(None);
            let _lock = store.create(&record).unwrap();
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| while store.write_file(&record.id, "report.json", b"{}").is_ok() {});
                std::thread::sleep(std::time::Duration::from_millis(2));
                store.delete(&record).unwrap();
                writer.join().unwrap();
            });
            assert_eq!(store.ids().unwrap(), [""; 0]);
        }
        // A file written in the meantime is removed when the store is next opened.
        RunStore::open(folder.path()).unwrap();
        let mut left = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert!(left.all(|name| !name.to_string_lossy().starts_with(GONE)));
    }
}
