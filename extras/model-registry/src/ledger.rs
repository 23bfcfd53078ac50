//! The pending checks, on disk: no webhook is lost when the process ends.

use isomer_database::{Database, failed};
use isomer_service_kit::Fault;
use jiff::Timestamp;
use sqlx::Row;

/// The tables. Times are microseconds since 1970.
const STEPS: &[&str] = &["CREATE TABLE registry_checks (
        model TEXT NOT NULL,
        version TEXT NOT NULL,
        state TEXT NOT NULL,
        again BIGINT NOT NULL,
        due BIGINT NOT NULL,
        failures BIGINT NOT NULL,
        outcome TEXT NOT NULL,
        changed BIGINT NOT NULL,
        PRIMARY KEY (model, version)
    );
    CREATE INDEX registry_checks_by_due ON registry_checks (state, due);
    CREATE TABLE registry_deliveries (id TEXT NOT NULL PRIMARY KEY, received BIGINT NOT NULL)"];

/// First and longest pause, in seconds, before a failed check is retried.
const FIRST_PAUSE: i64 = 2;
const LONGEST_PAUSE: i64 = 300;
const MICROS: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub struct Ledger {
    database: Database,
}

/// A check that is due now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub model: String,
    pub version: String,
    /// Number of failures so far.
    pub failures: i64,
}

/// The result of recording a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    New,
    /// It was recorded before.
    Repeated,
}

impl Ledger {
    /// Opens the ledger. Checks that were in progress when the last process ended are due again.
    ///
    /// # Errors
    /// If the database cannot be used.
    pub async fn open(address: &str) -> Result<Self, Fault> {
        let database = Database::open(address).await?;
        database.migrate("model_registry", STEPS).await?;
        sqlx::query("UPDATE registry_checks SET state = 'queued' WHERE state = 'running'")
            .execute(database.pool())
            .await
            .map_err(failed)?;
        Ok(Self { database })
    }

    /// Records a delivery and the requested check, both or neither.
    ///
    /// # Errors
    /// If the database fails: the sender must then repeat the delivery.
    pub async fn deliver(&self, id: &str, check: Option<(&str, &str)>, kept_seconds: i64) -> Result<Delivery, Fault> {
        let now = now();
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let noted =
            sqlx::query("INSERT INTO registry_deliveries (id, received) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(id)
                .bind(now)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        if noted.rows_affected() == 0 {
            return Ok(Delivery::Repeated);
        }
        // A delivery older than this is refused because of its time.
        sqlx::query("DELETE FROM registry_deliveries WHERE received < $1")
            .bind(now - kept_seconds * MICROS)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        if let Some((model, version)) = check {
            enqueue(&mut transaction, model, version, now).await?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(Delivery::New)
    }

    /// Puts a version into the queue, unless it is already there. A version that is being checked
    /// is checked once more afterwards.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn enqueue(&self, model: &str, version: &str) -> Result<(), Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        enqueue(&mut transaction, model, version, now()).await?;
        transaction.commit().await.map_err(failed)
    }

    /// Whether a version waits or is being checked.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn is_active(&self, model: &str, version: &str) -> Result<bool, Fault> {
        let row =
            sqlx::query("SELECT 1 AS one FROM registry_checks WHERE model = $1 AND version = $2 AND state <> 'done'")
                .bind(model)
                .bind(version)
                .fetch_optional(self.database.pool())
                .await;
        row.map(|row| row.is_some()).map_err(failed)
    }

    /// Takes the check that has waited longest; `None` if none is due.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn take(&self) -> Result<Option<Job>, Fault> {
        let row = sqlx::query(
            "UPDATE registry_checks SET state = 'running', again = 0, changed = $1 WHERE state = 'queued' AND (model, version) = \
             (SELECT model, version FROM registry_checks WHERE state = 'queued' AND due <= $1 ORDER BY due, model, version LIMIT 1) \
             RETURNING model, version, failures",
        )
        .bind(now())
        .fetch_optional(self.database.pool())
        .await
        .map_err(failed)?;
        row.map(|row| {
            Ok(Job {
                model: row.try_get("model")?,
                version: row.try_get("version")?,
                failures: row.try_get("failures")?,
            })
        })
        .transpose()
        .map_err(failed)
    }

    /// Records that a check has ended. If it was requested again in the meantime, it is made once
    /// more.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn done(&self, job: &Job, outcome: &str) -> Result<(), Fault> {
        sqlx::query(
            "UPDATE registry_checks SET state = CASE WHEN again = 1 THEN 'queued' ELSE 'done' END, again = 0, failures = 0, \
             outcome = $1, changed = $2, due = $2 WHERE model = $3 AND version = $4",
        )
        .bind(outcome)
        .bind(now())
        .bind(&job.model)
        .bind(&job.version)
        .execute(self.database.pool())
        .await
        .map(drop)
        .map_err(failed)
    }

    /// Records that a check could not be made now, and when it is retried. Returns the pause in
    /// seconds.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn postpone(&self, job: &Job, why: &str) -> Result<i64, Fault> {
        let doublings = u32::try_from(job.failures.clamp(0, 30)).unwrap_or(30);
        let pause = (FIRST_PAUSE << doublings).min(LONGEST_PAUSE);
        let now = now();
        sqlx::query(
            "UPDATE registry_checks SET state = 'queued', again = 0, failures = failures + 1, outcome = $1, changed = $2, due = $3 \
             WHERE model = $4 AND version = $5",
        )
        .bind(why)
        .bind(now)
        .bind(now + pause * MICROS)
        .bind(&job.model)
        .bind(&job.version)
        .execute(self.database.pool())
        .await
        .map_err(failed)?;
        Ok(pause)
    }
}

async fn enqueue(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    model: &str,
    version: &str,
    now: i64,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO registry_checks (model, version, state, again, due, failures, outcome, changed) \
         VALUES ($1, $2, 'queued', 0, $3, 0, '', $3) ON CONFLICT (model, version) DO UPDATE SET \
         state = CASE WHEN registry_checks.state = 'done' THEN 'queued' ELSE registry_checks.state END, \
         again = CASE WHEN registry_checks.state = 'running' THEN 1 ELSE 0 END, \
         due = CASE WHEN registry_checks.state = 'done' THEN $3 ELSE registry_checks.due END",
    )
    .bind(model)
    .bind(version)
    .bind(now)
    .execute(&mut **transaction)
    .await
    .map(drop)
    .map_err(failed)
}

fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn ledger() -> Ledger {
        Ledger::open("sqlite::memory:").await.unwrap()
    }

    #[tokio::test]
    async fn a_version_waits_once_however_often_it_is_asked_for() {
        let ledger = ledger().await;
        for delivery in ["a", "b", "a", "c"] {
            let wanted = if delivery == "a" { None } else { Some(Delivery::New) };
            let found = ledger.deliver(delivery, Some(("enc", "1")), 600).await.unwrap();
            assert!(wanted.is_none_or(|wanted| wanted == found));
        }
        assert_eq!(
            ledger.deliver("a", Some(("enc", "2")), 600).await.unwrap(),
            Delivery::Repeated
        );
        let job = ledger.take().await.unwrap().unwrap();
        assert_eq!((job.model.as_str(), job.version.as_str()), ("enc", "1"));
        assert_eq!(ledger.take().await.unwrap(), None);
        ledger.done(&job, "pass").await.unwrap();
        assert_eq!(ledger.take().await.unwrap(), None);
        assert!(!ledger.is_active("enc", "1").await.unwrap());
    }

    #[tokio::test]
    async fn what_is_asked_for_during_a_check_is_made_after_it() {
        let ledger = ledger().await;
        ledger.enqueue("enc", "1").await.unwrap();
        let job = ledger.take().await.unwrap().unwrap();
        ledger.enqueue("enc", "1").await.unwrap();
        assert_eq!(ledger.take().await.unwrap(), None);
        ledger.done(&job, "pass").await.unwrap();
        assert_eq!(ledger.take().await.unwrap().unwrap(), job);
    }

    #[tokio::test]
    async fn a_check_that_failed_waits_longer_each_time_and_is_never_given_up() {
        let ledger = ledger().await;
        ledger.enqueue("enc", "1").await.unwrap();
        let mut job = ledger.take().await.unwrap().unwrap();
        let mut pauses = Vec::new();
        for failures in 0..12 {
            job.failures = failures;
            pauses.push(ledger.postpone(&job, "away").await.unwrap());
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE));
        // Not due yet, but not lost.
        assert_eq!(ledger.take().await.unwrap(), None);
        assert!(ledger.is_active("enc", "1").await.unwrap());
    }

    #[tokio::test]
    async fn what_was_being_checked_when_the_process_ended_is_checked_after_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.sqlite");
        let open = || Ledger::open(file.to_str().unwrap());
        let ledger = open().await.unwrap();
        ledger.enqueue("enc", "1").await.unwrap();
        let job = ledger.take().await.unwrap().unwrap();
        drop(ledger);
        let ledger = open().await.unwrap();
        assert_eq!(ledger.take().await.unwrap().unwrap(), job);
    }
}
