//! The second level of the store of scores: the same files in a store shared by several machines.
//!
//! A file that this machine lacks is fetched before it is read, together with others; a file that
//! was written here is copied to the store in the background. A failing store costs time, not
//! scores. Each class of arithmetic has separate files, because vectors of two classes may differ
//! in the last bit.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use isomer_blobs::{BlobStore, SpareStore};
use isomer_retention::{Digest, Hold, Kind};
use isomer_service_kit::Tenant;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::run::atomic_file::write_atomically;

/// Maximum wait for one request to the store.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests to the store.
const AT_ONCE: usize = 16;
/// Maximum wait for the last copies of a run.
const FLUSHING: Duration = Duration::from_secs(60);

/// Files of the store of scores in a shared store, for one run. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SecondLevel {
    store: SpareStore,
    class: Arc<str>,
    /// Scope of the tenant to which the files are visible; absent: visible to all.
    scope: Option<Arc<str>>,
    hold: Hold,
    copies: TaskTracker,
    permits: Arc<Semaphore>,
}

/// A file of the store of scores.
#[derive(Debug, Clone)]
pub(crate) struct UnitFile {
    /// Path on this machine.
    pub path: PathBuf,
    /// The kind of file, for example `score`.
    pub part: &'static str,
    /// The address of the file's inputs, 64 hexadecimal digits.
    pub address: String,
}

impl SecondLevel {
    /// For a run of a tenant; `class` names the arithmetic of this process.
    pub(crate) fn new(blobs: BlobStore, class: &Arc<str>, hold: Hold, tenant: &Tenant) -> Self {
        Self {
            store: SpareStore::new(blobs, PATIENCE, crate::metric_names::STORE_FAILURES),
            class: Arc::clone(class),
            scope: tenant.scope().map(Arc::from),
            hold,
            copies: TaskTracker::new(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The digest and the name of a file in the store.
    fn name(&self, file: &UnitFile) -> Option<(Digest, String)> {
        let digest = Digest::parse(&file.address)?;
        let digest = match &self.scope {
            None => digest,
            Some(scope) => Digest::from(*blake3::hash(format!("tenant {scope} {digest}").as_bytes()).as_bytes()),
        };
        let place = Kind::Scores.place(&self.class, &digest);
        Some((digest, format!("{place}/{digest}.{}", file.part)))
    }

    /// Fetches the files that this machine lacks, if the store has them.
    pub(crate) async fn fetch(&self, files: Vec<UnitFile>) {
        let (mut lacking, mut here) = (Vec::new(), Vec::new());
        for file in files {
            let Some((digest, name)) = self.name(&file) else {
                continue;
            };
            if file.path.is_file() {
                here.push(digest);
            } else {
                lacking.push((digest, name, file.path));
            }
        }
        if !here.is_empty() {
            // The run relies on them, also when it continues on another machine.
            self.hold.hold_soon(here);
        }
        if lacking.is_empty() {
            return;
        }
        let digests = lacking.iter().map(|(digest, ..)| *digest).collect();
        if self.store.attempt(self.hold.hold(digests)).await.is_none() {
            return;
        }
        let fetched = stream::iter(lacking).map(|(_, name, path)| async move {
            let found = self.store.attempt(self.store.blobs().get(&name)).await;
            (path, found.flatten())
        });
        let mut fetched = fetched.buffer_unordered(AT_ONCE);
        while let Some((path, found)) = fetched.next().await {
            let Some(bytes) = found else { continue };
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            if let Err(error) = folder.and_then(|()| write_atomically(&path, &bytes)) {
                tracing::warn!(path = %path.display(), %error, "a score of the store cannot be kept here; computing it again");
            }
        }
    }

    /// Copies a file to the store in the background. The file must be complete.
    pub(crate) fn copy(&self, file: &UnitFile) {
        let Some((digest, name)) = self.name(file) else { return };
        let (own, path) = (self.clone(), file.path.clone());
        self.copies.spawn(async move {
            // The semaphore is never closed.
            let _permit = own.permits.acquire().await.ok();
            if own.store.attempt(own.hold.hold(vec![digest])).await.is_none() {
                return;
            }
            match fs::read(&path) {
                Ok(bytes) => drop(own.store.attempt(own.store.blobs().put_new(&name, &bytes)).await),
                Err(error) => tracing::warn!(path = %path.display(), %error, "a score cannot be copied to the store"),
            }
        });
    }

    /// Waits until all copies are written, for at most a minute.
    pub(crate) async fn flush(&self) {
        self.copies.close();
        if tokio::time::timeout(FLUSHING, self.copies.wait()).await.is_err() {
            tracing::warn!("scores could not be copied to the store in time; other machines compute them again");
        }
        self.copies.reopen();
    }
}
