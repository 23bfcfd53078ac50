//! Reads and writes the entries of one space.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use futures::TryStreamExt;
use serde_json::Value;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteRow};

use crate::{Key, MaxAge, OldFiles, Removal, connection::CacheFile};

/// A read of an entry is recorded if the last recorded use is older than this.
const USE: Duration = Duration::from_secs(60 * 60);
/// Entries that one transaction imports.
const IMPORTED: usize = 1000;
/// Size of the shared memory beside the file, and of the WAL of a small cache.
const BESIDE: u64 = 320 << 10;

/// Limits on the size of a file and on the age of its entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum bytes on disk; 0: unlimited.
    pub bytes: u64,
    /// Maximum age of an entry.
    pub age: MaxAge,
}

impl Bounds {
    /// Maximum bytes of the entries. The rest is for the WAL, and for writes between two checks.
    fn entries(self) -> u64 {
        (self.bytes / 4 * 3).saturating_sub(BESIDE).max(self.bytes / 4)
    }

    /// Bytes that a process writes between two checks of the size.
    fn step(self) -> u64 {
        self.bytes / 16
    }

    /// Microseconds since 1970 of the youngest expired entry.
    fn cutoff(self) -> i64 {
        self.age.cutoff().map_or(i64::MIN, micros)
    }
}

/// The erased entries, or those that would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erasure {
    pub records: u64,
    pub bytes: u64,
}

/// Whether entries are erased or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Count,
    /// They are overwritten, and the disk has been synced.
    Erase,
}

/// Counts of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries of the space.
    pub entries: u64,
    /// Size of the file, with all spaces.
    pub bytes: u64,
    /// Entries that did not match their checksum when this process read them.
    pub damaged: u64,
}

/// The place of a cache, and its limits.
#[derive(Debug, Clone)]
pub struct CacheSpec<'a> {
    pub file: PathBuf,
    pub space: &'a str,
    pub bounds: Bounds,
    /// The files of older versions.
    pub old: OldFiles,
    /// Called with the number of damaged entries that were removed.
    pub on_damaged: fn(u64),
    /// Called with the bytes of entries that were removed to keep the bounds.
    pub on_removed: fn(u64),
}

/// The entries of one space. Its calls block for some microseconds; a write may wait for another
/// process.
#[derive(Debug)]
pub struct DiskCache {
    file: CacheFile,
    space: i64,
    bounds: Bounds,
    /// Bytes written since the size was last checked.
    written: AtomicU64,
    damaged: AtomicU64,
    on_damaged: fn(u64),
    on_removed: fn(u64),
}

impl DiskCache {
    /// Opens or creates a file, imports the files of older versions, and enforces the bounds.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn open(spec: CacheSpec<'_>) -> io::Result<Self> {
        let digest = blake3::hash(spec.space.as_bytes());
        let cache = Self {
            file: CacheFile::open(spec.file, spec.bounds.bytes)?,
            space: i64::from_le_bytes(std::array::from_fn(|i| digest.as_bytes()[i])),
            bounds: spec.bounds,
            written: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            on_damaged: spec.on_damaged,
            on_removed: spec.on_removed,
        };
        for path in spec.old.paths()? {
            cache.import(&spec.old, path)?;
        }
        cache.expire()?;
        cache.make_room()?;
        Ok(cache)
    }

    fn import(&self, old: &OldFiles, path: PathBuf) -> io::Result<()> {
        let Some(mut entries) = old.open(path)? else {
            return Ok(());
        };
        let made = micros(entries.begun);
        loop {
            let next = entries.next(IMPORTED)?;
            if next.is_empty() {
                break;
            }
            self.write("INSERT OR IGNORE", &next, made)?;
        }
        match fs::remove_file(&entries.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The values of keys. A read of a value counts as its use.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn get(&self, keys: &[Key]) -> io::Result<HashMap<Key, Vec<u8>>> {
        let list = json_list(keys.iter().map(hex::encode));
        let stale = micros(SystemTime::now() - USE);
        let (found, used) = self.file.with(async |connection| {
            let mut rows = sqlx::query(
                "SELECT id, key, used, sum, value FROM entries WHERE space = $1 AND made > $2 AND \
                 key IN (SELECT unhex(value) FROM json_each($3))",
            )
            .bind(self.space)
            .bind(self.bounds.cutoff())
            .bind(&list)
            .fetch(connection);
            let (mut found, mut used) = (Vec::new(), Vec::new());
            while let Some(row) = rows.try_next().await? {
                let id: i64 = row.try_get("id")?;
                if row.try_get::<i64, _>("used")? < stale {
                    used.push(id);
                }
                found.push((id, entry_of(&row)?));
            }
            Ok((found, used))
        })?;
        let (mut values, mut damaged) = (HashMap::new(), Vec::new());
        for (id, entry) in found {
            match entry {
                Some((key, value)) => drop(values.insert(key, value)),
                None => damaged.push(id),
            }
        }
        if !damaged.is_empty() {
            self.damaged.fetch_add(damaged.len() as u64, Ordering::Relaxed);
            (self.on_damaged)(damaged.len() as u64);
            tracing::warn!(file = %self.file.path().display(), entries = damaged.len(), "removed damaged entries of the cache");
            self.remove(&damaged)?;
        }
        // A read succeeds without a record of it, for example on a full disk.
        if let Err(error) = self.record_use(&used) {
            tracing::debug!(%error, "the use of entries of the cache cannot be recorded");
        }
        Ok(values)
    }

    fn record_use(&self, ids: &[i64]) -> io::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let (list, now) = (json_list(ids.iter().copied()), micros(SystemTime::now()));
        self.file.with(async |connection| {
            let update = "UPDATE entries SET used = $1 WHERE id IN (SELECT value FROM json_each($2))";
            sqlx::query(update).bind(now).bind(&list).execute(connection).await?;
            Ok(())
        })
    }

    fn remove(&self, ids: &[i64]) -> io::Result<()> {
        let list = json_list(ids.iter().copied());
        self.file.with(async |connection| {
            let delete = "DELETE FROM entries WHERE id IN (SELECT value FROM json_each($1))";
            sqlx::query(delete).bind(&list).execute(connection).await?;
            Ok(())
        })
    }

    /// Writes entries in one transaction. When this returns, they survive the end of this process.
    ///
    /// # Errors
    /// If the file cannot be written. Then no entry is written.
    pub fn put(&self, entries: &[(Key, Vec<u8>)]) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.write("INSERT OR REPLACE", entries, micros(SystemTime::now()))?;
        let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        if self.written.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 >= self.bounds.step() {
            self.written.store(0, Ordering::Relaxed);
            self.make_room()?;
        }
        Ok(())
    }

    fn write(&self, insert: &'static str, entries: &[(Key, Vec<u8>)], made: i64) -> io::Result<()> {
        let statement =
            format!("{insert} INTO entries (space, key, made, used, sum, value) VALUES ($1, $2, $3, $3, $4, $5)");
        self.file.with(async |connection| {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            for (key, value) in entries {
                sqlx::query(sqlx::AssertSqlSafe(statement.clone()))
                    .bind(self.space)
                    .bind(&key[..])
                    .bind(made)
                    .bind(&checksum(key, value)[..])
                    .bind(&value[..])
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await
        })
    }

    /// Keys of all entries, in no particular order.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let keys: Vec<Vec<u8>> = self.file.with(async |connection| {
            sqlx::query_scalar("SELECT key FROM entries WHERE space = $1 AND made > $2")
                .bind(self.space)
                .bind(self.bounds.cutoff())
                .fetch_all(connection)
                .await
        })?;
        Ok(keys.into_iter().filter_map(|key| key.try_into().ok()).collect())
    }

    /// Counts of the cache.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stats(&self) -> io::Result<CacheStats> {
        self.file.with(async |connection| {
            let count = "SELECT count(*) FROM entries WHERE space = $1 AND made > $2";
            let entries: i64 = sqlx::query_scalar(count)
                .bind(self.space)
                .bind(self.bounds.cutoff())
                .fetch_one(&mut *connection)
                .await?;
            Ok(CacheStats {
                entries: entries.unsigned_abs(),
                bytes: bytes(connection).await?,
                damaged: self.damaged.load(Ordering::Relaxed),
            })
        })
    }

    /// Removes the least recently used entries of all spaces until the file has at most `most`
    /// bytes, or no entry.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn prune(&self, most: u64) -> io::Result<Removal> {
        self.file.with(async |connection| {
            let before = bytes(connection).await?;
            let (mut now, mut entries) = (before, 0);
            while now > most {
                let count: i64 = sqlx::query_scalar("SELECT count(*) FROM entries")
                    .fetch_one(&mut *connection)
                    .await?;
                // A part of the entries at a time, so that the WAL stays small.
                let part = (count / 32).clamp(1, 1000);
                let delete = "DELETE FROM entries WHERE id IN (SELECT id FROM entries ORDER BY used, id LIMIT $1)";
                let removed = sqlx::query(delete)
                    .bind(part)
                    .execute(&mut *connection)
                    .await?
                    .rows_affected();
                if removed == 0 {
                    break;
                }
                entries += removed;
                vacuum(connection).await?;
                now = bytes(connection).await?;
            }
            let bytes = before.saturating_sub(now);
            Ok(Removal { entries, bytes })
        })
    }

    /// Enforces the size limit.
    fn make_room(&self) -> io::Result<()> {
        if self.bounds.bytes == 0 {
            return Ok(());
        }
        let most = self.bounds.entries();
        let over = self.file.with(async |connection| Ok(bytes(connection).await? > most))?;
        if over {
            let removed = self.prune(most - most / 8)?;
            self.report(
                removed,
                "the cache is at its size limit; the least recently used entries are removed",
            );
        }
        Ok(())
    }

    /// Removes the expired entries of all spaces.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn expire(&self) -> io::Result<Removal> {
        let cutoff = self.bounds.cutoff();
        if cutoff == i64::MIN {
            return Ok(Removal::default());
        }
        let removed = self.file.with(async |connection| {
            let before = bytes(connection).await?;
            let delete = "DELETE FROM entries WHERE made <= $1";
            let entries = sqlx::query(delete)
                .bind(cutoff)
                .execute(&mut *connection)
                .await?
                .rows_affected();
            if entries > 0 {
                vacuum(connection).await?;
            }
            let bytes = before.saturating_sub(bytes(connection).await?);
            Ok(Removal { entries, bytes })
        })?;
        if removed.entries > 0 {
            self.report(removed, "removed the expired entries of the cache");
        }
        Ok(removed)
    }

    fn report(&self, removed: Removal, message: &str) {
        (self.on_removed)(removed.bytes);
        let Removal { entries, bytes } = removed;
        tracing::info!(file = %self.file.path().display(), entries, bytes, "{message}");
    }

    /// Calls `call` with the value of each entry of the space.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn each(&self, mut call: impl FnMut(&[u8])) -> io::Result<()> {
        self.scan("space = $1", |_, entry| {
            if let Some((_, value)) = entry {
                call(&value);
            }
        })
    }

    fn scan(&self, which: &str, call: impl FnMut(i64, Option<(Key, Vec<u8>)>)) -> io::Result<()> {
        let select = format!("SELECT id, key, sum, value FROM entries WHERE {which}");
        let call = parking_lot::Mutex::new(call);
        self.file.with(async |connection| {
            let mut rows = sqlx::query(sqlx::AssertSqlSafe(select.clone()))
                .bind(self.space)
                .fetch(connection);
            while let Some(row) = rows.try_next().await? {
                let (id, entry) = (row.try_get("id")?, entry_of(&row)?);
                (call.lock())(id, entry);
            }
            Ok(())
        })
    }

    /// Erases the entries of all spaces whose value is `unwanted`, also while other processes use
    /// them. A damaged entry is erased too, because its content is unknown.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn erase(&self, mode: Mode, mut unwanted: impl FnMut(&[u8]) -> bool) -> io::Result<Erasure> {
        let (mut erased, mut ids) = (Erasure::default(), Vec::new());
        self.scan("$1 IS NOT NULL", |id, entry| {
            let bytes = entry.as_ref().map_or(0, |(key, value)| key.len() + value.len());
            if entry.is_none_or(|(_, value)| unwanted(&value)) {
                erased.records += 1;
                erased.bytes += bytes as u64;
                ids.push(id);
            }
        })?;
        if mode == Mode::Count || ids.is_empty() {
            return Ok(erased);
        }
        for part in ids.chunks(IMPORTED) {
            self.remove(part)?;
        }
        let busy: i64 = self.file.with(async |connection| {
            vacuum(connection).await?;
            // The WAL contains the removed entries until it is empty.
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .fetch_one(connection)
                .await?
                .try_get(0)
        })?;
        if busy != 0 {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process reads the cache, so removed entries remain in its WAL; try again",
            ));
        }
        Ok(erased)
    }
}

/// Key and value of a row; `None` if they do not match the checksum.
fn entry_of(row: &SqliteRow) -> sqlx::Result<Option<(Key, Vec<u8>)>> {
    let key: Result<Key, _> = row.try_get::<&[u8], _>("key")?.try_into();
    let (sum, value): (&[u8], Vec<u8>) = (row.try_get("sum")?, row.try_get("value")?);
    Ok(key
        .ok()
        .filter(|key| checksum(key, &value) == sum)
        .map(|key| (key, value)))
}

fn checksum(key: &Key, value: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    let digest = hasher.finalize();
    std::array::from_fn(|i| digest.as_bytes()[i])
}

/// Size of the file.
async fn bytes(connection: &mut SqliteConnection) -> sqlx::Result<u64> {
    let size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
    let bytes: i64 = sqlx::query_scalar(size).fetch_one(connection).await?;
    Ok(bytes.unsigned_abs())
}

/// Returns free pages to the file system.
async fn vacuum(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::raw_sql("PRAGMA incremental_vacuum").execute(connection).await?;
    Ok(())
}

fn json_list<T: Into<Value>>(values: impl Iterator<Item = T>) -> String {
    values.map(Into::into).collect::<Value>().to_string()
}

fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
