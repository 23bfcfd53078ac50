//! The writes of a run's leader. Every write is one transaction that starts with the row of the run
//! under the leader's fencing token: the row stays locked until the end, so no other replica
//! becomes the leader in between.

use std::time::Duration;

use isomer_database::failed;
use jiff::Timestamp;
use sqlx::{Any, Transaction, any::AnyRow};

use super::{Ledger, number, packed, state, text, unreadable, written};
use crate::run::{
    events::{Event, EventKind, MAX_EVENTS},
    lifecycle::store::{Leadership, ReportPart, StoreError},
    record::{AttemptRecord, RecordedLook, RunRecord},
};

/// Interval for writing changes, for readers at other replicas.
const SAVE_EVERY: Duration = Duration::from_millis(400);

/// The leadership of a run in the ledger.
#[derive(Debug)]
pub(super) struct LedgerLeadership {
    ledger: Ledger,
    run: String,
    fence: i64,
}

/// The change of a run's row in a write.
enum Row<'a> {
    Active(&'a RunRecord),
    Ended(&'a RunRecord),
    HandedBack(&'a RunRecord),
}

impl LedgerLeadership {
    pub(super) fn new(ledger: Ledger, run: String, fence: i64) -> Self {
        Self { ledger, run, fence }
    }

    /// A transaction that holds the row of the run under this leader's token.
    async fn fenced(&self) -> Result<Transaction<'static, Any>, StoreError> {
        let mut transaction = self.ledger.pool().begin().await.map_err(failed)?;
        // The lock is taken by a write, so that both databases lock the row, or SQLite its file.
        let held = sqlx::query("UPDATE eval_runs SET fence = $1 WHERE id = $2 AND fence = $1")
            .bind(self.fence)
            .bind(&self.run)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        if held.rows_affected() == 0 {
            return Err(StoreError::Superseded);
        }
        Ok(transaction)
    }

    async fn write(&self, row: Row<'_>, events: &[Event]) -> Result<(), StoreError> {
        let mut transaction = self.fenced().await?;
        let (record, active, leader) = match row {
            Row::Active(record) => (record, 1_i64, self.ledger.replica()),
            Row::Ended(record) => (record, 0, self.ledger.replica()),
            Row::HandedBack(record) => (record, 1, ""),
        };
        let last = events.last().map_or(0, |event| sequence(event.sequence));
        // A run that was handed over gets a new token: this leader can write nothing more.
        let query = "UPDATE eval_runs SET active = $1, state = $2, ended = $3, leader = $4, record = $5, fence = fence + $6, \
                     sequence = CASE WHEN sequence < $7 THEN $7 ELSE sequence END WHERE id = $8";
        sqlx::query(query)
            .bind(active)
            .bind(state(record))
            .bind(record.ended.map(|at| at.as_microsecond()))
            .bind(leader)
            .bind(written(record)?)
            .bind(i64::from(leader.is_empty()))
            .bind(last)
            .bind(&self.run)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        for event in events {
            // The end is stored in the record.
            if matches!(event.kind, EventKind::Ended(_)) {
                continue;
            }
            let kind = serde_json::to_string(&event.kind).map_err(|error| unreadable(&error))?;
            sqlx::query("INSERT INTO eval_run_events (run, sequence, time, event) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING")
                .bind(&self.run)
                .bind(sequence(event.sequence))
                .bind(event.time.as_microsecond())
                .bind(kind)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        if !events.is_empty() {
            sqlx::query("DELETE FROM eval_run_events WHERE run = $1 AND sequence <= $2")
                .bind(&self.run)
                .bind(last - sequence(MAX_EVENTS as u64))
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(())
    }
}

fn sequence(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[tonic::async_trait]
impl Leadership for LedgerLeadership {
    fn save_every(&self) -> Duration {
        SAVE_EVERY
    }

    fn waits_for_the_store(&self) -> bool {
        true
    }

    async fn save(&self, record: &RunRecord, events: &[Event]) -> Result<(), StoreError> {
        self.write(Row::Active(record), events).await
    }

    async fn write_files(&self, _id: &str, files: &[ReportPart]) -> Result<(), StoreError> {
        let mut transaction = self.fenced().await?;
        for (name, content) in files {
            let query = "INSERT INTO eval_run_files (run, name, content) VALUES ($1, $2, $3) \
                         ON CONFLICT (run, name) DO UPDATE SET content = excluded.content";
            sqlx::query(query)
                .bind(&self.run)
                .bind(*name)
                .bind(packed(content)?)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(())
    }

    async fn end(&self, record: &RunRecord, events: &[Event]) -> Result<(), StoreError> {
        self.write(Row::Ended(record), events).await
    }

    async fn hand_back(&self, record: &RunRecord, events: &[Event]) -> Result<bool, StoreError> {
        self.write(Row::HandedBack(record), events).await?;
        Ok(true)
    }

    async fn look(&self, _id: &str, number: usize) -> Result<Option<RecordedLook>, StoreError> {
        let row = sqlx::query("SELECT look FROM eval_run_looks WHERE run = $1 AND number = $2")
            .bind(&self.run)
            .bind(sequence(number as u64))
            .fetch_optional(self.ledger.pool())
            .await
            .map_err(failed)?;
        let Some(row) = row else { return Ok(None) };
        let look = serde_json::from_str(&text(&row, 0)?).map_err(|error| unreadable(&error))?;
        Ok(Some(look))
    }

    async fn record_look(&self, _id: &str, number: usize, look: &RecordedLook) -> Result<(), StoreError> {
        let mut transaction = self.fenced().await?;
        let written = serde_json::to_string(look).map_err(|error| unreadable(&error))?;
        sqlx::query("INSERT INTO eval_run_looks (run, number, look) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
            .bind(&self.run)
            .bind(sequence(number as u64))
            .bind(written)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(())
    }

    async fn attempt(&self, attempt: &AttemptRecord) -> Result<Vec<AttemptRecord>, StoreError> {
        let mut transaction = self.fenced().await?;
        let owner = attempt.owner.as_deref().unwrap_or_default();
        let query = "INSERT INTO eval_attempts (subject, run, owner, evidence, made) VALUES ($1, $2, $3, $4, $5) \
                     ON CONFLICT DO NOTHING";
        sqlx::query(query)
            .bind(&attempt.subject)
            .bind(&attempt.run)
            .bind(owner)
            .bind(&attempt.evidence)
            .bind(attempt.at.as_microsecond())
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        let query =
            "SELECT run, evidence, made FROM eval_attempts WHERE subject = $1 AND owner = $2 ORDER BY made, run";
        let rows = sqlx::query(query)
            .bind(&attempt.subject)
            .bind(owner)
            .fetch_all(&mut *transaction)
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        let record = |row: &AnyRow| -> Result<AttemptRecord, StoreError> {
            Ok(AttemptRecord {
                run: text(row, 0)?,
                evidence: text(row, 1)?,
                at: Timestamp::from_microsecond(number(row, 2)?).unwrap_or_default(),
                ..attempt.clone()
            })
        };
        rows.iter().map(record).collect()
    }
}
