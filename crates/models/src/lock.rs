//! Permits one fetch of a model at a time, across tasks and processes.

use std::{
    fs::{File, TryLockError},
    path::Path,
    time::Duration,
};

use crate::{error::ModelError, progress::Reporter};

const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Held while a model is fetched or repaired. The operating system releases it when the process
/// ends, however it ends.
#[derive(Debug)]
pub(crate) struct FetchLock {
    _file: File,
}

impl FetchLock {
    /// Waits for the lock file. The file is created if missing and left in place (removing it would
    /// race).
    pub(crate) async fn acquire(path: &Path, id: &str, reporter: &Reporter) -> Result<Self, ModelError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(ModelError::io("creating", folder))?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(ModelError::io("opening the lock", path))?;
        let mut reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => {
                    return Err(ModelError::Io {
                        doing: "locking",
                        path: path.to_path_buf(),
                        source,
                    });
                }
            }
            if !reported {
                reported = true;
                reporter.say(format!("waiting: `{id}` is being fetched by someone else"));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}
