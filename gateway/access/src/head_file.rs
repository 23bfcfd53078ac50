//! The newest event of the audit log, in a file separate from the database.
//!
//! A database that lost acknowledged events, e.g. one that was restored from a copy, is consistent
//! in itself. Only a record elsewhere shows the loss. The file is signed (HMAC-SHA-256) with a key
//! that the first event creates in a second file.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use isomer_database::{Database, private_file};
use isomer_service_kit::Fault;
use ring::hmac;
use serde::{Deserialize, Serialize};
use tonic::Code;

use crate::{
    audit::{self, AuditEvent, AuditHead},
    key,
};

/// A file with the newest acknowledged event.
#[derive(Debug, Clone)]
pub struct HeadFile {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    seq: i64,
    hash: String,
    signature: String,
}

impl Record {
    fn signed(event: &AuditEvent, key: &hmac::Key) -> Self {
        let signature = hmac::sign(key, &message(event.seq, &event.hash));
        Self {
            seq: event.seq,
            hash: event.hash.clone(),
            signature: hex::encode(signature),
        }
    }

    fn is_genuine(&self, key: &hmac::Key) -> bool {
        let signature = hex::decode(&self.signature).unwrap_or_default();
        hmac::verify(key, &message(self.seq, &self.hash), &signature).is_ok()
    }
}

fn message(seq: i64, hash: &str) -> Vec<u8> {
    format!("{seq} {hash}").into_bytes()
}

impl HeadFile {
    /// The file at this path. Its key is at the same path with `.key` added.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Records a committed event. An older event never replaces a newer one, and the record stays
    /// if the database has lost its event. A failure is only logged: the event itself is safe, and
    /// an older record is still valid.
    pub(crate) async fn advance(&self, event: &AuditEvent, database: &Database) {
        if let Err(fault) = self.follow(event.clone(), database).await {
            tracing::error!(path = %self.path.display(), %fault, "the newest audit event is not recorded apart");
        }
    }

    async fn follow(&self, event: AuditEvent, database: &Database) -> Result<(), Fault> {
        let (reader, writer) = (self.clone(), self.clone());
        if let Some(before) = blocking(move || reader.read()).await? {
            let found = audit::page(database, before.seq - 1, 1).await?;
            if found.first().is_none_or(|found| found.hash != before.hash) {
                let message = format!("event {}, which was acknowledged, is not in the database", before.seq);
                return Err(Fault::new(Code::DataLoss, "AUDIT_BROKEN", message));
            }
        }
        blocking(move || writer.write(&event).map_err(|error| writer.unusable(&error))).await
    }

    fn unusable(&self, error: &io::Error) -> Fault {
        Fault::precondition("AUDIT_HEAD", format!("{}: {error}", self.path.display()))
            .field("access.audit_head")
            .hint("make the file and its .key readable and writable for this user")
    }

    fn write(&self, event: &AuditEvent) -> io::Result<()> {
        let mut lock = private_file().read(true).append(true).open(self.with("key"))?;
        // The lock lasts until the file is closed, because other processes write events too.
        lock.lock()?;
        let mut secret = String::new();
        lock.read_to_string(&mut secret)?;
        if secret.is_empty() {
            secret = key::secret().map_err(io::Error::other)?;
            lock.write_all(secret.as_bytes())?;
            lock.sync_all()?;
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let before = self.record()?.filter(|record| record.is_genuine(&key));
        if before.is_some_and(|before| before.seq >= event.seq) {
            return Ok(());
        }
        let partial = self.with("partial");
        let mut file = private_file().write(true).truncate(true).open(&partial)?;
        serde_json::to_writer(&mut file, &Record::signed(event, &key))?;
        file.sync_all()?;
        std::fs::rename(&partial, &self.path)?;
        sync_folder(&self.path)
    }

    /// The newest acknowledged event; `None` before the first.
    ///
    /// # Errors
    /// `DATA_LOSS` with the reason `AUDIT_BROKEN` if the file was changed, or its key is gone;
    /// `FAILED_PRECONDITION` if it cannot be read.
    pub fn read(&self) -> Result<Option<AuditHead>, Fault> {
        let path = self.path.display();
        let unusable = |error| self.unusable(&error);
        let Some(record) = self.record().map_err(unusable)? else {
            return Ok(None);
        };
        let secret = present(std::fs::read(self.with("key"))).map_err(unusable)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.unwrap_or_default());
        if !record.is_genuine(&key) {
            let message = format!("the signature of {path} is wrong: the file was changed, or its .key was replaced");
            let hint = "compare the log with the lines `audit` of the server's log, which hold each event's hash";
            return Err(Fault::new(Code::DataLoss, "AUDIT_BROKEN", message).hint(hint));
        }
        Ok(Some(AuditHead {
            seq: record.seq,
            hash: record.hash,
        }))
    }

    fn record(&self) -> io::Result<Option<Record>> {
        let Some(bytes) = present(std::fs::read(&self.path))? else {
            return Ok(None);
        };
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    fn with(&self, extension: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{extension}"));
        path.into()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Fault::internal(error.to_string())))
}

fn present<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A rename is durable only once its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
