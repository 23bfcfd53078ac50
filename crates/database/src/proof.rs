//! Controls writes to a SQLite file after the disk failed a write.
//!
//! After such a failure, a connection's next commit cannot be trusted. All connections are closed.
//! A new one may write only after a value that it wrote was read back. Before that, it only reads
//! and is closed when it is returned.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

/// The last write of this process that the disk failed: the number of failures, and the time.
static LAST: Mutex<Option<(u64, Instant)>> = Mutex::new(None);

/// Primary result codes after which SQLite may have ended a transaction: NOMEM, IOERR, CORRUPT,
/// FULL (<https://www.sqlite.org/rescode.html>).
const ENDED: [u32; 4] = [7, 10, 11, 13];

/// Counts an error after which connections cannot be trusted.
pub(crate) fn count_failed_write(error: &sqlx::Error) {
    let code = error.as_database_error().and_then(|error| error.code());
    let code = code.and_then(|code| code.parse::<u32>().ok());
    // An extended code contains the primary one in its low byte. Codes of PostgreSQL have five
    // digits.
    if code.is_some_and(|code| code < 10_000 && ENDED.contains(&(code & 0xff))) {
        let mut last = LAST.lock();
        let count = last.map_or(0, |(count, _)| count);
        *last = Some((count + 1, Instant::now()));
    }
}

/// Whether a write to a database has succeeded since the last failure.
#[derive(Debug)]
pub(crate) struct WriteProof {
    /// Whether it is a file: its disk can fail, and a new connection sees an older one's writes.
    is_file: bool,
    /// The number of failures before the last value that was read back.
    proven: AtomicU64,
}

impl WriteProof {
    pub(crate) fn new(is_file: bool) -> Self {
        Self {
            is_file,
            proven: AtomicU64::new(0),
        }
    }

    /// Whether a connection of this age is newer than the last failure, and writes have been
    /// verified since.
    fn holds_for(&self, age: Duration) -> bool {
        let last = LAST.lock().filter(|_| self.is_file);
        last.is_none_or(|(count, at)| self.proven.load(Ordering::Acquire) == count && age < at.elapsed())
    }

    /// Whether a pooled connection of this age may be used. A connection that was opened while the
    /// disk failed stays read-only, although another one has written since.
    pub(crate) async fn trusts(&self, connection: &mut AnyConnection, age: Duration) -> sqlx::Result<bool> {
        if !self.is_file || LAST.lock().is_none() {
            return Ok(true);
        }
        if !self.holds_for(age) {
            return Ok(false);
        }
        let row = sqlx::raw_sql("PRAGMA query_only").fetch_one(connection).await?;
        Ok(row.try_get::<i64, _>(0)? == 0)
    }

    /// If a write failed before, writes a value through a new connection and reads it back. If that
    /// fails, the connection is read-only.
    pub(crate) async fn renew(&self, connection: &mut AnyConnection) -> sqlx::Result<()> {
        let Some((count, _)) = LAST.lock().filter(|_| self.is_file) else {
            return Ok(());
        };
        if self.proven.load(Ordering::Acquire) == count {
            return Ok(());
        }
        match written(connection, count).await {
            Ok(true) => self.proven.store(count, Ordering::Release),
            Ok(false) | Err(_) => {
                sqlx::raw_sql("PRAGMA query_only = ON")
                    .execute(&mut *connection)
                    .await?;
            }
        }
        Ok(())
    }
}

/// Writes a number into the header of the file. No service uses that location.
async fn written(connection: &mut AnyConnection, count: u64) -> sqlx::Result<bool> {
    let number = i32::try_from(count % 1_000_000_007).unwrap_or_default();
    let write = AssertSqlSafe(format!("PRAGMA user_version = {number}"));
    sqlx::raw_sql(write).execute(&mut *connection).await?;
    let row = sqlx::raw_sql("PRAGMA user_version").fetch_one(&mut *connection).await?;
    Ok(row.try_get::<i64, _>(0)? == i64::from(number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sqlx::Connection;

    use super::*;
    use crate::Database;

    /// A failed write elsewhere must not cost the data of an in-memory database, which only its
    /// connection holds.
    #[tokio::test]
    async fn a_database_in_memory_keeps_its_connection() {
        let database = Database::open("sqlite::memory:").await.unwrap();
        let steps = &["CREATE TABLE things (name TEXT NOT NULL)"];
        database.migrate("things", steps).await.unwrap();
        *LAST.lock() = Some((1, Instant::now()));
        let found = sqlx::query("SELECT name FROM things").fetch_all(database.pool()).await;
        assert!(found.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_cannot_write_only_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.sqlite");
        let database = Database::open(path.to_str().unwrap()).await.unwrap();
        database
            .migrate("things", &["CREATE TABLE things (name TEXT NOT NULL)"])
            .await
            .unwrap();
        let mut other = sqlx::AnyConnection::connect(&format!("sqlite://{}?mode=ro", path.display()))
            .await
            .unwrap();
        *LAST.lock() = Some((7, Instant::now()));
        let proof = WriteProof::new(true);
        assert!(!proof.holds_for(Duration::from_secs(1)));
        proof.renew(&mut other).await.unwrap();
        assert!(!proof.holds_for(Duration::ZERO), "nothing was written");
        proof
            .renew(&mut database.pool().acquire().await.unwrap())
            .await
            .unwrap();
        assert!(proof.holds_for(Duration::ZERO));
        let trusted = proof.trusts(&mut other, Duration::ZERO).await.unwrap();
        assert!(!trusted, "it was opened while the disk failed");
    }
}
