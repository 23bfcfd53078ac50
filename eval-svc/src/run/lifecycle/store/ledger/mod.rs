//! Runs in a database that several replicas share.
//!
//! **One leader.** A replica executes a run while the row of the run names it as the leader. Each
//! change of the leader increments the run's fencing token (`fence`). Every write of a leader names
//! its token, in one transaction with the row of the run; a leader that was superseded while it
//! hung or was cut off writes nothing.
//!
//! **No clocks.** A replica shows that it is alive by incrementing a number in its own row. Whether
//! a number has been unchanged for a lease is measured on the monotonic clock of the replica that
//! observes it ([`Observer`]), so clocks of machines may differ.
//!
//! **Requests reach the leader through the row**: a cancellation is written there, and the leader
//! reads it within [`CANCEL_LOOK`].

mod forget;
mod leadership;
mod observer;
mod schema;
mod store;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use isomer_database::{Database, failed};
use isomer_service_kit::Fault;
use sqlx::{
    Any, Row,
    any::{AnyArguments, AnyRow},
};

use super::{Leadership, StoreError};
use crate::{
    config::LedgerConfig,
    run::record::{RunRecord, SCHEMA},
};

pub(in crate::run) use forget::forget;
pub(in crate::run) use observer::Observer;

/// Interval at which a leader checks for requests to cancel its runs.
pub(in crate::run) const CANCEL_LOOK: Duration = Duration::from_millis(500);

type Query<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

/// A ledger of runs, opened by one replica. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    /// Id of this replica.
    replica: String,
    lease: Duration,
    /// Held while a SQLite ledger is open, so that no second replica opens it.
    _sole: Option<File>,
}

impl Ledger {
    /// Opens the ledger and creates its tables if they are missing.
    ///
    /// # Errors
    /// If the database cannot be opened, or if it is a SQLite file that another process has opened
    /// as its ledger.
    pub async fn open(config: &LedgerConfig) -> Result<Self, Fault> {
        let Some(url) = config.url.expose() else {
            return Err(Fault::invalid("eval.ledger.url", "is empty")
                .hint("give postgres://USER@HOST/DATABASE, or leave eval.ledger out"));
        };
        let sole = sole_user(url)?;
        let database = Database::open(url).await?;
        Self::join(database, config.lease(), sole).await
    }

    /// A new replica of the ledger in a database.
    async fn join(database: Database, lease: Duration, sole: Option<File>) -> Result<Self, Fault> {
        database.migrate("eval_runs", schema::STEPS).await?;
        let ledger = Self {
            inner: Arc::new(Inner {
                database,
                replica: uuid::Uuid::now_v7().to_string(),
                lease,
                _sole: sole,
            }),
        };
        ledger.beat().await?;
        Ok(ledger)
    }

    /// Id of this replica.
    pub(in crate::run) fn replica(&self) -> &str {
        &self.inner.replica
    }

    /// Time after which other replicas take over the runs of a replica without heartbeats.
    pub(in crate::run) fn lease(&self) -> Duration {
        self.inner.lease
    }

    fn pool(&self) -> &sqlx::AnyPool {
        self.inner.database.pool()
    }

    /// Executes a statement and returns the number of rows that it affected.
    async fn execute(&self, query: Query<'_>) -> Result<u64, Fault> {
        let done = query.execute(self.pool()).await.map_err(failed)?;
        Ok(done.rows_affected())
    }

    async fn rows(&self, query: Query<'_>) -> Result<Vec<AnyRow>, Fault> {
        query.fetch_all(self.pool()).await.map_err(failed)
    }

    async fn row(&self, query: Query<'_>) -> Result<Option<AnyRow>, Fault> {
        query.fetch_optional(self.pool()).await.map_err(failed)
    }

    /// Shows the other replicas that this one is alive.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub(in crate::run) async fn beat(&self) -> Result<(), Fault> {
        let query = "INSERT INTO eval_replicas (id, beat) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET beat = eval_replicas.beat + 1";
        self.execute(sqlx::query(query).bind(self.replica())).await?;
        Ok(())
    }

    /// The heartbeat number of each replica.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(in crate::run) async fn beats(&self) -> Result<HashMap<String, i64>, Fault> {
        let rows = self.rows(sqlx::query("SELECT id, beat FROM eval_replicas")).await?;
        rows.iter().map(|row| Ok((text(row, 0)?, number(row, 1)?))).collect()
    }

    /// Removes the rows of replicas that lead no run.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub(in crate::run) async fn forget(&self, replicas: &[String]) -> Result<(), Fault> {
        for replica in replicas {
            let query = "DELETE FROM eval_replicas WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM eval_runs WHERE leader = $1 AND active = 1)";
            self.execute(sqlx::query(query).bind(replica)).await?;
        }
        Ok(())
    }

    /// Every run that has not ended, whichever replica leads it; oldest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(in crate::run) async fn active(&self) -> Result<Vec<ActiveRun>, Fault> {
        let query = "SELECT id, leader, fence, state FROM eval_runs WHERE active = 1 ORDER BY id";
        let rows = self.rows(sqlx::query(query)).await?;
        rows.iter()
            .map(|row| {
                Ok(ActiveRun {
                    id: text(row, 0)?,
                    leader: text(row, 1)?,
                    fence: number(row, 2)?,
                    pending: text(row, 3)? == "pending",
                })
            })
            .collect()
    }

    /// Takes the leadership of a run whose fencing token was read. `None` if another replica was
    /// faster, or if the run has ended.
    ///
    /// # Errors
    /// When the database fails, or the record cannot be read.
    pub(in crate::run) async fn claim(&self, run: &ActiveRun) -> Result<Option<Claim>, StoreError> {
        let fence = run.fence + 1;
        // One statement, because a claim whose record could not be read would leave a run that no
        // replica executes.
        let query = "UPDATE eval_runs SET leader = $1, fence = $2 WHERE id = $3 AND fence = $4 AND active = 1 \
                     RETURNING record, sequence, cancel";
        let row = self
            .row(
                sqlx::query(query)
                    .bind(self.replica())
                    .bind(fence)
                    .bind(&run.id)
                    .bind(run.fence),
            )
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        Ok(Some(Claim {
            record: parsed(&text(&row, 0)?)?,
            sequence: u64::try_from(number(&row, 1)?).unwrap_or_default(),
            cancel: row.try_get(2).map_err(failed)?,
            leadership: Box::new(leadership::LedgerLeadership::new(self.clone(), run.id.clone(), fence)),
        }))
    }

    /// Runs of this replica that are to be cancelled, with the reasons.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(in crate::run) async fn cancelled(&self) -> Result<Vec<(String, String)>, Fault> {
        let query = "SELECT id, cancel FROM eval_runs WHERE active = 1 AND leader = $1 AND cancel IS NOT NULL";
        let rows = self.rows(sqlx::query(query).bind(self.replica())).await?;
        rows.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?))).collect()
    }

    /// Removes this replica's row. Its runs must have ended or been handed back.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub(in crate::run) async fn leave(&self) -> Result<(), Fault> {
        self.forget(&[self.replica().to_owned()]).await
    }
}

/// A run that has not ended, as visible to other replicas in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run) struct ActiveRun {
    pub id: String,
    /// The replica that leads it; empty if it was handed back.
    pub leader: String,
    /// Its fencing token.
    pub fence: i64,
    /// Whether it is waiting in the queue.
    pub pending: bool,
}

/// A run that this replica has taken over.
#[derive(Debug)]
pub(in crate::run) struct Claim {
    /// The record last written by the earlier leader.
    pub record: RunRecord,
    /// Sequence number of the last event.
    pub sequence: u64,
    /// The reason of a cancellation that the earlier leader did not read.
    pub cancel: Option<String>,
    /// The right to execute it.
    pub leadership: Box<dyn Leadership>,
}

/// The lock of the only process that may use a SQLite file as its ledger; `None` for PostgreSQL.
fn sole_user(url: &str) -> Result<Option<File>, Fault> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(None);
    }
    let path = url
        .strip_prefix("sqlite://")
        .or_else(|| url.strip_prefix("sqlite:"))
        .unwrap_or(url);
    let path = path.split('?').next().unwrap_or_default();
    if path.is_empty() || path.contains(":memory:") || path.contains("://") {
        let fault = Fault::invalid(
            "eval.ledger.url",
            "is not a PostgreSQL address or the path of a SQLite file",
        );
        return Err(fault.hint("give postgres://USER@HOST/DATABASE, or a path such as /var/lib/isomer/runs.sqlite"));
    }
    let lock = PathBuf::from(format!("{path}.lock"));
    let unusable = |error: &dyn std::fmt::Display| {
        Fault::precondition(
            "LEDGER",
            format!("the lock of the ledger, {}, cannot be used: {error}", lock.display()),
        )
        .field("eval.ledger.url")
        .hint("check that its folder exists and can be written by this user")
    };
    if let Some(folder) = lock.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock)
        .map_err(|error| unusable(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => {
            let message = format!("another process uses the ledger {path}, and a SQLite ledger serves one replica");
            Err(Fault::precondition("LEDGER_IN_USE", message)
                .field("eval.ledger.url")
                .hint("give all replicas the same postgres://… ledger, or start one replica only"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(unusable(&error)),
    }
}

/// A request id may be long and may contain anything, so its digest is stored.
fn request_digest(request: &str) -> String {
    blake3::hash(request.as_bytes()).to_hex().to_string()
}

fn state(record: &RunRecord) -> String {
    let state = serde_json::to_value(record.state).ok();
    state
        .and_then(|state| state.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn written(record: &RunRecord) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|error| unreadable(&error))
}

fn parsed(record: &str) -> Result<RunRecord, StoreError> {
    let record: RunRecord = serde_json::from_str(record).map_err(|error| unreadable(&error))?;
    if record.schema == SCHEMA {
        return Ok(record);
    }
    let message = format!(
        "a run has the format `{}`, and this version reads `{SCHEMA}`",
        record.schema
    );
    Err(Fault::precondition("LEDGER_FORMAT", message).into())
}

fn unreadable(error: &dyn std::fmt::Display) -> StoreError {
    Fault::internal(format!("an entry of the ledger cannot be read or written: {error}")).into()
}

fn text(row: &AnyRow, column: usize) -> Result<String, Fault> {
    row.try_get(column).map_err(failed)
}

fn number(row: &AnyRow, column: usize) -> Result<i64, Fault> {
    row.try_get(column).map_err(failed)
}

/// Bytes as text that both databases accept: compressed, then base64.
fn packed(content: &[u8]) -> Result<String, StoreError> {
    let packed = zstd::encode_all(content, 3).map_err(|error| unreadable(&error))?;
    Ok(STANDARD.encode(packed))
}

fn unpacked(content: &str) -> Result<Vec<u8>, StoreError> {
    let packed = STANDARD.decode(content).map_err(|error| unreadable(&error))?;
    zstd::decode_all(packed.as_slice()).map_err(|error| unreadable(&error))
}
