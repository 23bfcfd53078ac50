//! Database records of services: a SQLite file by default, PostgreSQL by URL, with the same SQL for
//! both.
//!
//! SQL must be valid for both: `$1` for parameters, `BIGINT` for whole numbers (times are
//! microseconds since 1970), `TEXT` for all other columns, `INSERT … ON CONFLICT`, no types or
//! functions that only one of the two has.

mod private;
mod proof;
mod shared_memory;

use std::{path::Path, str::FromStr, sync::Arc, time::Duration};

use isomer_fault::Fault;
pub use private::private_file;
use proof::WriteProof;
use sqlx::{
    AnyPool, AssertSqlSafe, Connection,
    any::{AnyConnectOptions, AnyPoolOptions, install_default_drivers},
};

/// Maximum wait for a connection, and for another process's write to a SQLite file.
const PATIENCE: Duration = Duration::from_secs(5);
/// A PostgreSQL server ends the transaction of a process that was stopped or disconnected in the
/// middle of it. Otherwise the rows that the process has locked stay locked until TCP gives up the
/// connection, which takes hours.
const TRANSACTIONS: &str = "SET idle_in_transaction_session_timeout = '5s'";

/// A database with the tables of one or more services. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    pool: AnyPool,
    in_memory: bool,
    /// Keeps the shared memory of a SQLite file in place.
    _held: Option<AnyPool>,
}

impl Database {
    /// Opens `sqlite:PATH` (created if missing), `sqlite::memory:`, `postgres://…` or a plain path.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` with the reason `DATABASE` if the address has another form, or no
    /// database can be reached there.
    pub async fn open(address: &str) -> Result<Self, Fault> {
        install_default_drivers();
        let url = url(address)?;
        let sqlite = url.starts_with("sqlite:");
        let memory = url.starts_with("sqlite::memory:");
        let options = AnyConnectOptions::from_str(&url).map_err(|error| unusable(address, &error))?;
        let file = sqlite && !memory;
        let held = match url.strip_prefix("sqlite://").filter(|_| file) {
            Some(path) => {
                let path = Path::new(path.split('?').next().unwrap_or_default());
                let held = shared_memory::hold(path, options.clone()).await;
                Some(held.map_err(|error| unusable(address, &error))?)
            }
            None => None,
        };
        let proof = Arc::new(WriteProof::new(file));
        let (connected, acquired, released) = (Arc::clone(&proof), Arc::clone(&proof), proof);
        let pool = AnyPoolOptions::new()
            // Each connection to an in-memory database has a separate database. A file permits only
            // one writer at a time anyway.
            .max_connections(if memory { 1 } else { 4 })
            .min_connections(u32::from(memory))
            .idle_timeout((!memory).then_some(Duration::from_secs(600)))
            .max_lifetime((!memory).then_some(Duration::from_secs(3600)))
            .acquire_timeout(PATIENCE)
            // SQLite itself ends a transaction when a write fails, and sqlx does not notice: the
            // connection would treat its next commit as part of that transaction.
            .before_acquire(move |connection, meta| {
                let proof = Arc::clone(&acquired);
                Box::pin(async move {
                    Ok(!file || !connection.is_in_transaction() && proof.trusts(connection, meta.age).await?)
                })
            })
            .after_release(move |connection, meta| {
                let proof = Arc::clone(&released);
                Box::pin(async move {
                    if !file {
                        return Ok(true);
                    }
                    // A dropped transaction is rolled back by the connection's next command.
                    connection.ping().await?;
                    Ok(!connection.is_in_transaction() && proof.trusts(connection, meta.age).await?)
                })
            })
            .after_connect(move |connection, _| {
                let connected = Arc::clone(&connected);
                Box::pin(async move {
                    if sqlite {
                        // FULL: an acknowledged revocation, key or audit event survives a power
                        // cut.
                        let settings = format!(
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = {};",
                            PATIENCE.as_millis()
                        );
                        sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut *connection).await?;
                        connected.renew(connection).await?;
                    } else {
                        sqlx::raw_sql(TRANSACTIONS).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(|error| unusable(address, &error))?;
        Ok(Self {
            pool,
            in_memory: memory,
            _held: held,
        })
    }

    /// Whether it ends with the process.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    pub fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// Brings the tables of `area` up to date: step k of `steps` runs once in the life of a
    /// database, in order. If several processes start, the first one runs it. `sqlx::migrate!` is
    /// not used: it counts the steps of a whole database, and here each area has its own count.
    ///
    /// # Errors
    /// If a step fails; earlier steps remain applied.
    pub async fn migrate(&self, area: &str, steps: &'static [&'static str]) -> Result<(), Fault> {
        let table = "CREATE TABLE IF NOT EXISTS migrations (area TEXT NOT NULL, step BIGINT NOT NULL, PRIMARY KEY (area, step))";
        // If several processes create the table at the same time, PostgreSQL reports a conflict to
        // all but one of them once the table exists.
        if sqlx::raw_sql(table).execute(&self.pool).await.is_err() {
            sqlx::raw_sql(table).execute(&self.pool).await.map_err(failed)?;
        }
        for (number, step) in (1_i64..).zip(steps) {
            let mut transaction = self.pool.begin().await.map_err(failed)?;
            let done = sqlx::query("INSERT INTO migrations (area, step) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(area)
                .bind(number)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
            if done.rows_affected() == 1 {
                sqlx::raw_sql(*step).execute(&mut *transaction).await.map_err(failed)?;
            }
            transaction.commit().await.map_err(failed)?;
        }
        Ok(())
    }
}

/// The fault for a failed query: the database is unavailable or full, and the request is not to
/// blame.
pub fn failed(error: sqlx::Error) -> Fault {
    // The error may contain the address with its password. So it goes only to the log, from which
    // sqlx omits the password.
    tracing::error!(%error, "database");
    proof::count_failed_write(&error);
    Fault::unavailable("DATABASE", "the database cannot be read or written")
        .hint("see the server's log; a SQLite file needs a writable folder and free disk space")
}

fn url(address: &str) -> Result<String, Fault> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        if cfg!(feature = "postgres") {
            return Ok(address.to_owned());
        }
        return Err(Fault::precondition(
            "DATABASE",
            "PostgreSQL needs the feature `postgres`, which this build lacks",
        )
        .field("database")
        .hint("build with `--features postgres` or `--features full`, or give the path of a SQLite file"));
    }
    if address.starts_with("sqlite::memory:") {
        return Ok(address.to_owned());
    }
    let path = address
        .strip_prefix("sqlite://")
        .or_else(|| address.strip_prefix("sqlite:"));
    let path = match path {
        Some(path) => path,
        None if address.contains("://") => {
            let scheme = address.split("://").next().unwrap_or_default();
            return Err(
                Fault::invalid("database", format!("`{scheme}` is not a supported kind of database"))
                    .hint("give a path, sqlite:PATH or postgres://USER@HOST/DATABASE"),
            );
        }
        None => address,
    };
    let path = path.split('?').next().unwrap_or_default();
    if path.is_empty() {
        return Err(Fault::invalid("database", "names no file").hint("give a path, e.g. isomer.sqlite"));
    }
    if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private::create_folder(folder).map_err(|error| {
            Fault::invalid(
                "database",
                format!("the folder {} cannot be created: {error}", folder.display()),
            )
            .hint("choose another folder")
        })?;
    }
    // SQLite gives its accompanying files the same permissions.
    private::create_file(Path::new(path)).map_err(|error| {
        Fault::precondition("DATABASE", format!("the database {path} cannot be opened: {error}"))
            .field("database")
            .hint("check that this user may write the file and its folder")
    })?;
    Ok(format!("sqlite://{path}?mode=rwc"))
}

fn unusable(address: &str, error: &sqlx::Error) -> Fault {
    let shown = match address.rsplit_once('@') {
        // Between `//` and the last `@` there may be a password, which may itself contain an `@`.
        Some((_, place)) => place,
        None => address,
    };
    Fault::precondition("DATABASE", format!("the database {shown} cannot be opened: {error}"))
        .field("database")
        .hint("check that the database server is running, or that the file's folder is writable and its disk has room")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout)]
    use sqlx::Row;

    use super::*;

    #[tokio::test]
    async fn a_file_keeps_what_was_written_and_steps_run_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/records.sqlite");
        let steps = &[
            "CREATE TABLE things (name TEXT NOT NULL)",
            "INSERT INTO things (name) VALUES ('first')",
        ];
        for _ in 0..2 {
            let database = Database::open(path.to_str().unwrap()).await.unwrap();
            database.migrate("things", steps).await.unwrap();
            let rows = sqlx::query("SELECT name FROM things")
                .fetch_all(database.pool())
                .await
                .unwrap();
            assert_eq!(rows.len(), 1);
            assert_eq!(rows[0].get::<String, _>(0), "first");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_file_is_opened_by_several_at_once() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("records.sqlite").to_str().unwrap().to_owned();
            let opening: Vec<_> = (0..6)
                .map(|_| {
                    let path = path.clone();
                    tokio::spawn(async move { Database::open(&path).await })
                })
                .collect();
            for opened in opening {
                opened.await.unwrap().unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_or_is_damaged_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.sqlite");
        let whole = {
            let database = Database::open(path.to_str().unwrap()).await.unwrap();
            database
                .migrate("things", &["CREATE TABLE things (name TEXT)"])
                .await
                .unwrap();
            drop(database);
            std::fs::read(&path).unwrap()
        };
        let garbage = b"no database, but a longer text than a header".repeat(100);
        let damaged = [vec![0xff; 100], whole.get(100..).unwrap_or_default().to_vec()].concat();
        for (name, content) in [("garbage", garbage), ("damaged", damaged)] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let fault = Database::open(path.to_str().unwrap()).await.unwrap_err();
            assert_eq!(fault.reason, "DATABASE", "{name}: {fault}");
            assert!(fault.message.contains("is not a database"), "{name}: {fault}");
        }
    }

    #[tokio::test]
    async fn a_step_that_fails_is_tried_again() {
        let database = Database::open("sqlite::memory:").await.unwrap();
        let broken: &'static [&'static str] = &["CREATE TABLE t (a BIGINT)", "INSERT INTO nowhere VALUES (1)"];
        assert!(database.migrate("t", broken).await.is_err());
        database
            .migrate("t", &["CREATE TABLE t (a BIGINT)", "INSERT INTO t VALUES (1)"])
            .await
            .unwrap();
        let row = sqlx::query("SELECT a FROM t").fetch_one(database.pool()).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), 1);
    }

    #[tokio::test]
    async fn other_databases_and_unreachable_ones_are_refused_without_the_password() {
        let fault = Database::open("mysql://me:geheim@host/db").await.unwrap_err();
        assert!(
            fault.to_string().contains("mysql") && !fault.to_string().contains("geheim"),
            "{fault}"
        );
        let named = if cfg!(feature = "postgres") {
            "127.0.0.1:1"
        } else {
            "feature `postgres`"
        };
        for address in [
            "postgres://me:pa@geheim@127.0.0.1:1/db",
            "postgresql://me:geheim@127.0.0.1:1/db",
        ] {
            let fault = Database::open(address).await.unwrap_err();
            assert!(
                fault.to_string().contains(named) && !fault.to_string().contains("geheim"),
                "{fault}"
            );
        }
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn a_process_that_stands_still_in_a_transaction_does_not_keep_its_rows_locked() {
        let Ok(url) = std::env::var("ISOMER_TEST_POSTGRES") else {
            isomer_stubs::skip("no PostgreSQL");
            return;
        };
        let (stopped, other) = (Database::open(&url).await.unwrap(), Database::open(&url).await.unwrap());
        for statement in [
            "DROP TABLE IF EXISTS locked_rows",
            "CREATE TABLE locked_rows (id BIGINT, by BIGINT)",
            "INSERT INTO locked_rows VALUES (1, 0)",
        ] {
            sqlx::raw_sql(statement).execute(other.pool()).await.unwrap();
        }
        let mut transaction = stopped.pool().begin().await.unwrap();
        let lock = "UPDATE locked_rows SET by = 1 WHERE id = 1";
        sqlx::query(lock).execute(&mut *transaction).await.unwrap();
        // The second writer waits for the lock.
        let taken = sqlx::query("UPDATE locked_rows SET by = 2 WHERE id = 1")
            .execute(other.pool())
            .await
            .unwrap();
        assert_eq!(taken.rows_affected(), 1);
        assert!(transaction.commit().await.is_err());
        let row = sqlx::query("SELECT by FROM locked_rows")
            .fetch_one(other.pool())
            .await
            .unwrap();
        assert_eq!(row.get::<i64, _>(0), 2);
    }
}
