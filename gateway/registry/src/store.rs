//! Records in the database: one row per provider.
//!
//! Each change increments `provider_changes` first. So a reader of the counter knows whether to
//! read the rows again, and changes of several processes are serialised. Renewing a lease does not
//! increment it. A process that finds a lease expired requests the deletion, which checks the
//! current row, and then reads the rows again.

use isomer_database::{Database, failed};
use isomer_proto::gateway::v1::Provider;
use isomer_service_kit::Fault;
use prost::Message;
use sqlx::{Any, Row, Transaction, any::AnyRow};

use crate::{state::Record, time::Micros};

const STEPS: &[&str] = &[
    // body: the provider's settings in protobuf, in hexadecimal. lease: its length in microseconds,
    // 0 for none.
    "CREATE TABLE providers (
        id TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL,
        etag TEXT NOT NULL,
        created BIGINT NOT NULL,
        updated BIGINT NOT NULL,
        lease BIGINT NOT NULL,
        expires BIGINT NOT NULL
    )",
    "CREATE TABLE provider_changes (one BIGINT NOT NULL PRIMARY KEY, changes BIGINT NOT NULL)",
    "INSERT INTO provider_changes (one, changes) VALUES (1, 0)",
];

/// The outcome of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertOutcome {
    Done,
    /// Its id is taken.
    Taken,
    /// The limit is reached.
    Full,
}

/// Brings the tables up to date.
///
/// # Errors
/// If the database cannot be read or written.
pub async fn prepare(database: &Database) -> Result<(), Fault> {
    database.migrate("providers", STEPS).await
}

/// The table of providers.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    pub(crate) async fn open(database: Database) -> Result<Self, Fault> {
        prepare(&database).await?;
        Ok(Self { database })
    }

    /// The number of changes so far, by any process.
    pub(crate) async fn changes(&self) -> Result<i64, Fault> {
        let row = sqlx::query("SELECT changes FROM provider_changes WHERE one = 1");
        let row = row.fetch_one(self.database.pool()).await.map_err(failed)?;
        row.try_get("changes").map_err(failed)
    }

    /// All records, including those with an expired lease.
    pub(crate) async fn all(&self) -> Result<Vec<Record>, Fault> {
        let rows = sqlx::query("SELECT id, body, etag, created, updated, expires FROM providers ORDER BY id");
        let rows = rows.fetch_all(self.database.pool()).await.map_err(failed)?;
        rows.iter().map(record).collect()
    }

    /// The live record with this id.
    pub(crate) async fn find(&self, id: &str, now: Micros) -> Result<Option<Record>, Fault> {
        let row = sqlx::query(
            "SELECT id, body, etag, created, updated, expires FROM providers
             WHERE id = $1 AND (expires = 0 OR expires > $2)",
        );
        let row = row
            .bind(id)
            .bind(now)
            .fetch_optional(self.database.pool())
            .await
            .map_err(failed)?;
        row.as_ref().map(record).transpose()
    }

    /// Adds a record, replacing one whose lease has expired. `most`: maximum number of live
    /// records.
    pub(crate) async fn insert(
        &self,
        record: &Record,
        lease: Micros,
        most: usize,
        now: Micros,
    ) -> Result<InsertOutcome, Fault> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM providers WHERE id = $1 AND expires > 0 AND expires <= $2")
            .bind(&record.settings.id)
            .bind(now)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        let inserted = sqlx::query(
            "INSERT INTO providers (id, body, etag, created, updated, lease, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(&record.settings.id)
        .bind(body(record))
        .bind(&record.etag)
        .bind(record.created)
        .bind(record.updated)
        .bind(lease)
        .bind(record.expires)
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
        if inserted.rows_affected() == 0 {
            return Ok(InsertOutcome::Taken);
        }
        let row = sqlx::query("SELECT COUNT(*) AS live FROM providers WHERE expires = 0 OR expires > $1");
        let row = row.bind(now).fetch_one(&mut *transaction).await.map_err(failed)?;
        let live: i64 = row.try_get("live").map_err(failed)?;
        if usize::try_from(live).unwrap_or(usize::MAX) > most {
            return Ok(InsertOutcome::Full);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(InsertOutcome::Done)
    }

    /// Replaces the record with the etag `before`; returns false if it is gone. `lease`: the length
    /// of the lease if it restarts; otherwise it is unchanged.
    pub(crate) async fn replace(
        &self,
        record: &Record,
        before: &str,
        lease: Option<Micros>,
        now: Micros,
    ) -> Result<bool, Fault> {
        let mut transaction = self.begin().await?;
        let query = match lease {
            Some(lease) => sqlx::query(
                "UPDATE providers SET body = $1, etag = $2, updated = $3, lease = $4, expires = $5
                 WHERE id = $6 AND etag = $7 AND (expires = 0 OR expires > $8)",
            )
            .bind(body(record))
            .bind(&record.etag)
            .bind(record.updated)
            .bind(lease)
            .bind(record.expires),
            None => sqlx::query(
                "UPDATE providers SET body = $1, etag = $2, updated = $3
                 WHERE id = $4 AND etag = $5 AND (expires = 0 OR expires > $6)",
            )
            .bind(body(record))
            .bind(&record.etag)
            .bind(record.updated),
        };
        let query = query.bind(&record.settings.id).bind(before).bind(now);
        let replaced = query.execute(&mut *transaction).await.map_err(failed)?;
        if replaced.rows_affected() == 0 {
            return Ok(false);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(true)
    }

    /// Restarts a lease; returns its end, or `None` if no live record with a lease exists.
    pub(crate) async fn renew(&self, id: &str, now: Micros) -> Result<Option<Micros>, Fault> {
        let row = sqlx::query(
            "UPDATE providers SET expires = lease + $1 WHERE id = $2 AND lease > 0 AND expires > $3 RETURNING expires",
        );
        let row = row.bind(now).bind(id).bind(now);
        let row = row.fetch_optional(self.database.pool()).await.map_err(failed)?;
        row.map(|row| row.try_get("expires").map_err(failed)).transpose()
    }

    /// Deletes the live record with this etag; returns false if there is none.
    pub(crate) async fn delete(&self, id: &str, etag: &str, now: Micros) -> Result<bool, Fault> {
        let mut transaction = self.begin().await?;
        let deleted =
            sqlx::query("DELETE FROM providers WHERE id = $1 AND etag = $2 AND (expires = 0 OR expires > $3)")
                .bind(id)
                .bind(etag)
                .bind(now)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        if deleted.rows_affected() == 0 {
            return Ok(false);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(true)
    }

    /// Deletes records with an expired lease; returns their number.
    pub(crate) async fn sweep(&self, now: Micros) -> Result<u64, Fault> {
        let mut transaction = self.begin().await?;
        let swept = sqlx::query("DELETE FROM providers WHERE expires > 0 AND expires <= $1");
        let swept = swept
            .bind(now)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?
            .rows_affected();
        if swept > 0 {
            transaction.commit().await.map_err(failed)?;
        }
        Ok(swept)
    }

    /// A transaction that has incremented the counter. No other process can change anything until
    /// it ends. Dropping it rolls it back.
    async fn begin(&self) -> Result<Transaction<'static, Any>, Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        sqlx::query("UPDATE provider_changes SET changes = changes + 1 WHERE one = 1")
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        Ok(transaction)
    }
}

fn body(record: &Record) -> String {
    hex::encode(record.settings.encode_to_vec())
}

fn record(row: &AnyRow) -> Result<Record, Fault> {
    let id: String = row.try_get("id").map_err(failed)?;
    let body: String = row.try_get("body").map_err(failed)?;
    let settings = hex::decode(&body)
        .ok()
        .and_then(|bytes| Provider::decode(bytes.as_slice()).ok());
    let settings = settings.ok_or_else(|| {
        Fault::internal(format!(
            "the record of provider `{id}` in the gateway's database is damaged"
        ))
        .hint("delete its row in the table providers and register it again")
    })?;
    Ok(Record {
        settings,
        etag: row.try_get("etag").map_err(failed)?,
        created: row.try_get("created").map_err(failed)?,
        updated: row.try_get("updated").map_err(failed)?,
        expires: row.try_get("expires").map_err(failed)?,
    })
}
