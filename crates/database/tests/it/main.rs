//! Writes while the disk is full, and afterwards.
//!
//! The process may not write files beyond a size, as on a full disk. The limit applies to the whole
//! process, so this executable has one test.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "limits of a process are set through libc"
)]

use std::{collections::BTreeSet, fs, path::Path};

use isomer_database::{Database, failed};
use sqlx::Row;

fn limit_file_size(bytes: libc::rlim_t) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result, and no other code of this process uses the
    // signal's disposition.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit), 0);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

/// Writes a row in a transaction with a row of ballast, which does not fit on a full disk.
async fn write(database: &Database, name: &str, ballast: usize) -> Result<(), sqlx::Error> {
    let mut transaction = database.pool().begin().await?;
    for (name, size) in [(name, 0), ("ballast", ballast)] {
        sqlx::query("INSERT INTO things (name, text) VALUES ($1, $2)")
            .bind(name)
            .bind("x".repeat(size))
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

async fn names(database: &Database) -> BTreeSet<String> {
    let rows = sqlx::query("SELECT name FROM things").fetch_all(database.pool()).await;
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

fn size_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.sqlite");
    let database = Database::open(path.to_str().unwrap()).await.unwrap();
    let steps = &["CREATE TABLE things (name TEXT NOT NULL, text TEXT NOT NULL)"];
    database.migrate("things", steps).await.unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..6_usize {
        limit_file_size(size_of(folder.path()) + 20_000);
        let mut refused = 0;
        let writers = (0..12_usize).map(|n| {
            let (database, name) = (database.clone(), format!("full-{round}-{n}"));
            tokio::spawn(async move {
                let written = write(&database, &name, 3_000 + n * 9_000).await.map_err(failed);
                (name, written.is_ok())
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                (name, true) => drop(acknowledged.insert(name)),
                _ => refused += 1,
            }
        }
        assert!(refused > 0, "the disk was not full in round {round}");
        limit_file_size(libc::RLIM_INFINITY);
        for n in 0..12 {
            let (name, undone) = (format!("free-{round}-{n}"), format!("undone-{round}-{n}"));
            match write(&database, &name, 10).await.map_err(failed) {
                Ok(()) => drop(acknowledged.insert(name)),
                Err(fault) => println!("{name}: {fault}"),
            }
            if let Ok(mut transaction) = database.pool().begin().await {
                let insert = sqlx::query("INSERT INTO things (name, text) VALUES ($1, '')").bind(undone);
                let _ = insert.execute(&mut *transaction).await;
                drop(transaction);
            }
            let alone = format!("alone-{round}-{n}");
            let insert = sqlx::query("INSERT INTO things (name, text) VALUES ($1, '')").bind(&alone);
            if insert.execute(database.pool()).await.map_err(failed).is_ok() {
                acknowledged.insert(alone);
            }
        }
        // Another process reads the content of the file, and can write.
        let other = Database::open(path.to_str().unwrap()).await.unwrap();
        let found = names(&other).await;
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
        assert!(
            !found.iter().any(|name| name.starts_with("undone")),
            "rolled back and kept"
        );
        let after = format!("other-{round}");
        write(&other, &after, 0).await.unwrap();
        acknowledged.insert(after);
    }
    // Once there is space, nothing is refused.
    let free = acknowledged.iter().filter(|name| name.starts_with("free"));
    assert_eq!(free.count(), 6 * 12);
}
