//! The shared memory of a SQLite file in WAL mode: the file `-shm` beside it.
//!
//! SQLite maps this file, and extends it by one byte per page. In a file system whose blocks are
//! smaller than pages, that leaves holes. A write into a hole of a mapped file allocates a block,
//! and kills the process (SIGBUS) if the disk is full. So all blocks of the file are allocated when
//! the database is opened. The first connection of all processes truncates the file, so one
//! connection of this process stays open.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use sqlx::{
    AnyPool,
    any::{AnyConnectOptions, AnyPoolOptions},
};

use crate::PATIENCE;

/// Number of allocated bytes: enough for a WAL of 16,384 pages.
const BYTES: u64 = 128 << 10;
/// Free bytes that are required to open a database: the shared memory, and a few pages.
const LEAST_FREE: u64 = 2 * BYTES;

/// Keeps the shared memory of a database in place, and allocates its blocks.
///
/// # Errors
/// If the disk is nearly full, or the database cannot be opened.
pub(crate) async fn hold(path: &Path, options: AnyConnectOptions) -> sqlx::Result<AnyPool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    check_free(folder.unwrap_or(Path::new("."))).map_err(sqlx::Error::Io)?;
    let held = AnyPoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await?;
    // The first query maps the file. SQLite does not wait for a lock when it changes the mode of a
    // file that another connection has open.
    let begun = Instant::now();
    while let Err(error) = sqlx::raw_sql("PRAGMA journal_mode = WAL; SELECT COUNT(*) FROM sqlite_master")
        .execute(&held)
        .await
    {
        if begun.elapsed() > PATIENCE || !is_locked(&error) {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut name = path.as_os_str().to_owned();
    name.push("-shm");
    allocate(Path::new(&name)).map_err(sqlx::Error::Io)?;
    Ok(held)
}

fn is_locked(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    let code = error
        .as_database_error()
        .and_then(|error| error.code()?.parse::<u32>().ok());
    // Extended codes have the kind in their last byte.
    code.is_some_and(|code| code & 0xff == SQLITE_BUSY)
}

#[cfg(target_os = "linux")]
fn check_free(folder: &Path) -> io::Result<()> {
    let disk = rustix::fs::statvfs(folder)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < LEAST_FREE {
        let message = format!("its disk has {free} bytes left, and at least {LEAST_FREE} are needed");
        return Err(io::Error::new(io::ErrorKind::StorageFull, message));
    }
    Ok(())
}

/// The files whose blocks were allocated, by device and inode. They stay open: a process that
/// closes a file loses all of its locks on it, including SQLite's. Another process would then
/// truncate the file.
#[cfg(target_os = "linux")]
static OPENED: parking_lot::Mutex<std::collections::BTreeMap<(u64, u64), std::fs::File>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());

#[cfg(target_os = "linux")]
fn allocate(path: &Path) -> io::Result<()> {
    use std::{collections::btree_map::Entry, fs, os::unix::fs::MetadataExt};

    use rustix::{fs::FallocateFlags, io::Errno};

    let metadata = fs::metadata(path)?;
    let mut opened = OPENED.lock();
    let file = match opened.entry((metadata.dev(), metadata.ino())) {
        Entry::Occupied(own) => own.into_mut(),
        Entry::Vacant(free) => free.insert(fs::OpenOptions::new().read(true).write(true).open(path)?),
    };
    match rustix::fs::fallocate(&*file, FallocateFlags::empty(), 0, metadata.len().max(BYTES)) {
        // Some network file systems do not support this call.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other.map_err(io::Error::from),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_free(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::Database;

    #[tokio::test]
    async fn the_shared_memory_has_all_its_blocks_and_outlives_the_pool_s_connections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.sqlite");
        let database = Database::open(path.to_str().unwrap()).await.unwrap();
        let memory = || std::fs::metadata(folder.path().join("records.sqlite-shm")).unwrap();
        assert!(memory().len() >= BYTES && memory().blocks() * 512 >= memory().len());
        // These bytes contain SQLite's locks against truncation of the memory, and against removal
        // of the log by another process.
        let locked = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            let holds = |file: u64, from: u64| locks.contains(&format!(":{file} {from} "));
            holds(memory().ino(), 128) && holds(std::fs::metadata(&path).unwrap().ino(), 0x4000_0002)
        };
        assert!(locked());
        database.pool().close().await;
        let again = Database::open(path.to_str().unwrap()).await.unwrap();
        drop(again);
        assert!(locked() && memory().len() >= BYTES);
    }

    #[tokio::test]
    async fn a_full_disk_is_named_when_a_database_is_opened() {
        // This file system has no free block, like a full disk.
        let disk = rustix::fs::statvfs("/proc").unwrap();
        assert_eq!(disk.f_bavail, 0);
        let error = check_free(Path::new("/proc")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("0 bytes left"), "{error}");
    }
}
