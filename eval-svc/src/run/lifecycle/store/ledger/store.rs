//! Creates, reads and deletes the runs of a ledger.

use futures::TryStreamExt;
use isomer_database::failed;
use isomer_service_kit::Fault;
use jiff::Timestamp;
use sqlx::Row;

use super::{
    CANCEL_LOOK, Ledger, leadership::LedgerLeadership, number, parsed, request_digest, state, text, unpacked,
    unreadable, written,
};
use crate::run::{
    events::{Event, EventKind},
    lifecycle::store::{CancelRequest, Creation, RunEnd, RunPage, RunStore, StoreError},
    record::RunRecord,
};

#[tonic::async_trait]
impl RunStore for Ledger {
    async fn create(&self, record: &RunRecord) -> Result<Creation, StoreError> {
        let request = record.request_id.as_deref().map(request_digest);
        let query = "INSERT INTO eval_runs (id, request, owner, active, state, ended, leader, fence, record, sequence) \
                     VALUES ($1, $2, $3, 1, $4, NULL, $5, 1, $6, 0) ON CONFLICT DO NOTHING";
        let created = self
            .execute(
                sqlx::query(query)
                    .bind(&record.id)
                    .bind(&request)
                    .bind(&record.owner)
                    .bind(state(record))
                    .bind(self.replica())
                    .bind(written(record)?),
            )
            .await?;
        if created == 0 {
            let before = match &record.request_id {
                Some(request) => self.by_request(request).await?,
                None => None,
            };
            let before = before.ok_or_else(|| {
                // Two replicas cannot draw the same random id.
                Fault::internal("a run that the ledger refused as a repetition is not there")
            })?;
            return Ok(Creation::Existing(before));
        }
        let leadership = LedgerLeadership::new(self.clone(), record.id.clone(), 1);
        Ok(Creation::New(Box::new(leadership)))
    }

    async fn load(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let row = self
            .row(sqlx::query("SELECT record FROM eval_runs WHERE id = $1").bind(id))
            .await?;
        row.map(|row| parsed(&text(&row, 0)?)).transpose()
    }

    async fn page(&self, before: Option<&str>, viewer: Option<&str>, size: usize) -> Result<RunPage, StoreError> {
        // Every id is smaller than `g`: ids are hexadecimal.
        let query = "SELECT record FROM eval_runs WHERE id < $1 AND (CAST($2 AS TEXT) IS NULL OR owner = $2) ORDER BY id DESC LIMIT $3";
        // Row by row, because records contain the texts of suites, which a list does not.
        let mut rows = sqlx::query(query)
            .bind(before.unwrap_or("g"))
            .bind(viewer)
            .bind(i64::try_from(size.saturating_add(1)).unwrap_or(i64::MAX))
            .fetch(self.pool());
        let (mut runs, mut read, mut has_more) = (Vec::new(), 0, false);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            read += 1;
            if read > size {
                has_more = true;
                break;
            }
            match parsed(&text(&row, 0)?) {
                Ok(record) => runs.push(record.outline()),
                Err(error) => tracing::warn!(%error, "a run is left out of the list"),
            }
        }
        Ok(RunPage { runs, has_more })
    }

    async fn ends(&self) -> Result<Vec<RunEnd>, StoreError> {
        let rows = self
            .rows(sqlx::query("SELECT id, ended FROM eval_runs ORDER BY id DESC"))
            .await?;
        rows.iter()
            .map(|row| {
                let ended: Option<i64> = row.try_get(1).map_err(failed)?;
                Ok(RunEnd {
                    id: text(row, 0)?,
                    ended: ended.and_then(|at| Timestamp::from_microsecond(at).ok()),
                })
            })
            .collect()
    }

    async fn by_request(&self, request: &str) -> Result<Option<String>, StoreError> {
        let row = self
            .row(sqlx::query("SELECT id FROM eval_runs WHERE request = $1").bind(request_digest(request)))
            .await?;
        Ok(row.map(|row| text(&row, 0)).transpose()?)
    }

    async fn file(&self, id: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self
            .row(
                sqlx::query("SELECT content FROM eval_run_files WHERE run = $1 AND name = $2")
                    .bind(id)
                    .bind(name),
            )
            .await?;
        row.map(|row| unpacked(&text(&row, 0)?)).transpose()
    }

    async fn events(&self, id: &str, after: u64) -> Result<Option<Vec<Event>>, StoreError> {
        let query =
            "SELECT sequence, time, event FROM eval_run_events WHERE run = $1 AND sequence > $2 ORDER BY sequence";
        let rows = self
            .rows(
                sqlx::query(query)
                    .bind(id)
                    .bind(i64::try_from(after).unwrap_or(i64::MAX)),
            )
            .await?;
        let events = rows.iter().map(|row| {
            let kind: EventKind = serde_json::from_str(&text(row, 2)?).map_err(|error| unreadable(&error))?;
            Ok(Event {
                sequence: u64::try_from(number(row, 0)?).unwrap_or_default(),
                time: Timestamp::from_microsecond(number(row, 1)?).unwrap_or_default(),
                kind,
            })
        });
        Ok(Some(events.collect::<Result<_, StoreError>>()?))
    }

    async fn request_cancel(&self, id: &str, reason: &str) -> Result<CancelRequest, StoreError> {
        // The first reason is kept.
        self.execute(
            sqlx::query("UPDATE eval_runs SET cancel = $1 WHERE id = $2 AND active = 1 AND cancel IS NULL")
                .bind(reason)
                .bind(id),
        )
        .await?;
        // A leader that has died must be replaced first.
        Ok(CancelRequest::Recorded(self.lease() * 2 + CANCEL_LOOK * 4))
    }

    async fn delete(&self, record: &RunRecord) -> Result<(), StoreError> {
        let mut transaction = self.pool().begin().await.map_err(failed)?;
        for statement in [
            "DELETE FROM eval_runs WHERE id = $1 AND active = 0",
            "DELETE FROM eval_run_events WHERE run = $1",
            "DELETE FROM eval_run_looks WHERE run = $1",
            "DELETE FROM eval_run_files WHERE run = $1",
        ] {
            sqlx::query(statement)
                .bind(&record.id)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(())
    }

    async fn expire_attempts(&self, before: Timestamp) -> Result<(), StoreError> {
        self.execute(sqlx::query("DELETE FROM eval_attempts WHERE made < $1").bind(before.as_microsecond()))
            .await?;
        Ok(())
    }
}
