//! The connection of a process to the file of a cache. Its calls block.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use futures::executor::block_on;
use parking_lot::Mutex;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::private;

/// Maximum wait for another process's write.
const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: u64 = 4096;
/// The number of pages after which SQLite moves the WAL into the file, unless the cache is small.
const CHECKPOINT: u64 = 1000;
const TABLES: &str = "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, space BIGINT NOT NULL, key BLOB NOT NULL, \
     made BIGINT NOT NULL, used BIGINT NOT NULL, sum BLOB NOT NULL, value BLOB NOT NULL, UNIQUE (space, key));\
     CREATE INDEX IF NOT EXISTS entries_by_use ON entries (used);\
     CREATE INDEX IF NOT EXISTS entries_by_age ON entries (made);";

/// Primary result codes (<https://www.sqlite.org/rescode.html>).
const BUSY: u32 = 5;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const NOT_A_DATABASE: u32 = 26;

#[derive(Debug)]
pub(crate) struct CacheFile {
    path: PathBuf,
    /// Maximum size of the WAL after a checkpoint, in pages.
    wal_pages: u64,
    /// The connection; `None` after a failure. SQLite may have ended a transaction then, which sqlx
    /// does not notice.
    connection: Mutex<Option<SqliteConnection>>,
}

impl CacheFile {
    /// Opens or creates the file. `bytes` is the size limit of the cache; 0: unlimited.
    pub(crate) fn open(path: PathBuf, bytes: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder)?;
        }
        let file = Self {
            path,
            wal_pages: match bytes {
                0 => CHECKPOINT,
                bytes => (bytes / 16 / PAGE).clamp(8, CHECKPOINT),
            },
            connection: Mutex::default(),
        };
        file.with(async |_| Ok(()))?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `call` with the connection. A file that SQLite cannot read is removed, and `call` is
    /// repeated with a new one.
    pub(crate) fn with<T>(&self, call: impl AsyncFn(&mut SqliteConnection) -> sqlx::Result<T>) -> io::Result<T> {
        let mut held = self.connection.lock();
        let mut done = self.once(&mut held, &call);
        if done
            .as_ref()
            .is_err_and(|error| [CORRUPT, NOT_A_DATABASE].contains(&code(error)))
        {
            tracing::warn!(file = %self.path.display(), "the cache is damaged; it is removed, and its entries are computed again");
            self.remove()?;
            done = self.once(&mut held, &call);
        }
        done.map_err(io_error)
    }

    fn once<T>(
        &self,
        held: &mut Option<SqliteConnection>,
        call: &impl AsyncFn(&mut SqliteConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        block_on(async {
            let mut connection = match held.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let value = call(&mut connection).await?;
            *held = Some(connection);
            Ok(value)
        })
    }

    async fn connect(&self) -> sqlx::Result<SqliteConnection> {
        private::create_file(&self.path).map_err(sqlx::Error::Io)?;
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .busy_timeout(PATIENCE)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        // `auto_vacuum` comes before the first write.
        let settings = format!(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; \
             PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA wal_autocheckpoint = {}; \
             PRAGMA journal_size_limit = {}; {TABLES}",
            self.wal_pages,
            self.wal_pages * PAGE
        );
        // SQLite does not wait for a lock when it changes the mode of a file that another
        // connection has open.
        let begun = Instant::now();
        while let Err(error) = sqlx::raw_sql(AssertSqlSafe(settings.clone()))
            .execute(&mut connection)
            .await
        {
            if begun.elapsed() > PATIENCE || code(&error) != BUSY {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(5));
        }
        isomer_database::allocate_shared_memory(&self.path).map_err(sqlx::Error::Io)?;
        Ok(connection)
    }

    fn remove(&self) -> io::Result<()> {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.path.as_os_str().to_owned();
            name.push(suffix);
            match fs::remove_file(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.get_mut().take()
            && let Err(error) = block_on(connection.close())
        {
            tracing::warn!(file = %self.path.display(), %error, "the cache cannot be closed");
        }
    }
}

/// The primary result code of a failure; 0 if it is not SQLite's.
fn code(error: &sqlx::Error) -> u32 {
    let code = error.as_database_error().and_then(|error| error.code()?.parse().ok());
    code.map_or(0, |code: u32| code & 0xff)
}

fn io_error(error: sqlx::Error) -> io::Error {
    match error {
        sqlx::Error::Io(error) => error,
        error if code(&error) == FULL => io::Error::new(io::ErrorKind::StorageFull, error),
        error => io::Error::other(error),
    }
}
