//! The audit log of changes to keys and providers. Events are written once and never changed. Each
//! has a hash over itself and the previous event.
//!
//! The hash of event n is SHA-256 over the hash of event n − 1 and the event's fields. If an event
//! is changed or removed, the chain breaks from there on. If the newest events are removed, the
//! chain contradicts the head, which is in a separate table. A person who can write the whole
//! database can create a new chain. So the newest event is also in a file ([`crate::HeadFile`]),
//! and its hash in the log.

use isomer_database::{Database, failed};
use isomer_service_kit::Fault;
use sha2::{Digest, Sha256};
use sqlx::{Any, Row, Transaction, any::AnyRow};

use crate::{access::micros_now, key};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Number of the event; the first is 1.
    pub seq: i64,
    /// Time in microseconds since 1970.
    pub at: i64,
    /// The author: a caller's name with its principal, or `local:uid N` for the command line.
    pub who: String,
    /// The act, e.g. `keys.create`.
    pub act: String,
    /// The object of the act, e.g. `key:0123456789ab`, with the change.
    pub target: String,
    /// `OK`, or the reason of the fault.
    pub outcome: String,
    /// The hash, in hexadecimal.
    pub hash: String,
}

impl AuditEvent {
    /// The hash of this event if the previous event has the hash `previous` (empty for the first
    /// event).
    pub fn seal(&self, previous: &str) -> String {
        let mut hash = Sha256::new();
        let (seq, at) = (self.seq.to_string(), self.at.to_string());
        for part in [previous, &seq, &at, &self.who, &self.act, &self.target, &self.outcome] {
            // Length prefixes separate the fields, whatever they contain.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hex::encode(hash.finalize())
    }
}

/// The newest event's number and hash; 0 and empty before the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditHead {
    /// Number of the newest event.
    pub seq: i64,
    pub hash: String,
}

/// Follows a chain of events up to the first that does not fit.
#[derive(Debug, Default)]
pub struct Verifier {
    head: AuditHead,
    /// The newest event that is known to have been acknowledged.
    acknowledged: AuditHead,
}

impl Verifier {
    /// A verifier of a chain that must contain this event, which comes from a
    /// [`HeadFile`](crate::HeadFile).
    pub fn holding(acknowledged: AuditHead) -> Self {
        Self {
            acknowledged,
            ..Self::default()
        }
    }

    /// Checks the next event, oldest first.
    ///
    /// # Errors
    /// `DATA_LOSS` with the reason `AUDIT_BROKEN` if an event before this one is missing, or this
    /// one was changed.
    pub fn follow(&mut self, event: &AuditEvent) -> Result<(), Fault> {
        let expected = self.head.seq + 1;
        if event.seq != expected {
            return Err(broken(format!("event {expected} is missing: {} comes next", event.seq)));
        }
        if event.seal(&self.head.hash) != event.hash {
            return Err(broken(format!("event {} was changed after it was written", event.seq)));
        }
        if event.seq == self.acknowledged.seq && event.hash != self.acknowledged.hash {
            return Err(broken(format!(
                "event {} is not the one that was acknowledged",
                event.seq
            )));
        }
        self.head = AuditHead {
            seq: event.seq,
            hash: event.hash.clone(),
        };
        Ok(())
    }

    /// Checks the end of the chain.
    ///
    /// # Errors
    /// Like [`Verifier::follow`], if the newest events were removed.
    pub fn end(self, head: &AuditHead) -> Result<AuditHead, Fault> {
        if self.head != *head {
            let message = format!(
                "the head says event {}, and the chain ends at {}",
                head.seq, self.head.seq
            );
            return Err(broken(message));
        }
        if self.head.seq < self.acknowledged.seq {
            let message = format!(
                "event {} was acknowledged, and the chain ends at {}",
                self.acknowledged.seq, self.head.seq
            );
            return Err(broken(message));
        }
        Ok(self.head)
    }
}

fn broken(message: String) -> Fault {
    Fault::new(
        tonic::Code::DataLoss,
        "AUDIT_BROKEN",
        format!("the audit log was tampered with, or has lost events: {message}"),
    )
    .hint("compare with a copy or with the log lines `audit`, which hold each event's hash; remove the file of access.audit_head if the database was replaced on purpose")
}

/// The record of an act.
#[derive(Debug, Clone)]
pub(crate) struct Act<'a> {
    pub(crate) who: &'a str,
    pub(crate) act: &'a str,
    pub(crate) target: &'a str,
    pub(crate) outcome: &'a str,
}

/// Appends an event within a transaction, so that an act and its record are committed together or
/// not at all.
pub(crate) async fn append(transaction: &mut Transaction<'_, Any>, act: Act<'_>) -> Result<AuditEvent, Fault> {
    // The head is written first, so that concurrent appenders wait for each other.
    let head = sqlx::query("UPDATE audit_head SET seq = seq + 1 WHERE id = 1 RETURNING seq, hash")
        .fetch_one(&mut **transaction)
        .await
        .map_err(failed)?;
    let previous: String = head.try_get(1).map_err(failed)?;
    let mut event = AuditEvent {
        seq: head.try_get(0).map_err(failed)?,
        at: micros_now(),
        who: key::without_keys(act.who),
        act: act.act.to_owned(),
        target: key::without_keys(act.target),
        outcome: key::without_keys(act.outcome),
        hash: String::new(),
    };
    event.hash = event.seal(&previous);
    let query =
        "INSERT INTO audit_events (seq, at, who, act, target, outcome, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(query)
        .bind(event.seq)
        .bind(event.at)
        .bind(&event.who)
        .bind(&event.act)
        .bind(&event.target)
        .bind(&event.outcome)
        .bind(&event.hash)
        .execute(&mut **transaction)
        .await
        .map_err(failed)?;
    sqlx::query("UPDATE audit_head SET hash = $1 WHERE id = 1")
        .bind(&event.hash)
        .execute(&mut **transaction)
        .await
        .map_err(failed)?;
    Ok(event)
}

/// Logs an event once it is in the database. An attacker who changes the database does not reach
/// this copy.
pub(crate) fn log(event: &AuditEvent) {
    tracing::info!(
        seq = event.seq,
        who = %event.who,
        act = %event.act,
        target = %event.target,
        outcome = %event.outcome,
        hash = %event.hash,
        "audit"
    );
}

/// Events after number `after`, oldest first.
pub(crate) async fn page(database: &Database, after: i64, most: i64) -> Result<Vec<AuditEvent>, Fault> {
    let query =
        "SELECT seq, at, who, act, target, outcome, hash FROM audit_events WHERE seq > $1 ORDER BY seq LIMIT $2";
    sqlx::query(query)
        .bind(after)
        .bind(most)
        .fetch_all(database.pool())
        .await
        .and_then(|rows| rows.iter().map(event).collect())
        .map_err(failed)
}

pub(crate) async fn head(database: &Database) -> Result<AuditHead, Fault> {
    let row = sqlx::query("SELECT seq, hash FROM audit_head WHERE id = 1")
        .fetch_one(database.pool())
        .await
        .map_err(failed)?;
    Ok(AuditHead {
        seq: row.try_get(0).map_err(failed)?,
        hash: row.try_get(1).map_err(failed)?,
    })
}

fn event(row: &AnyRow) -> Result<AuditEvent, sqlx::Error> {
    Ok(AuditEvent {
        seq: row.try_get(0)?,
        at: row.try_get(1)?,
        who: row.try_get(2)?,
        act: row.try_get(3)?,
        target: row.try_get(4)?,
        outcome: row.try_get(5)?,
        hash: row.try_get(6)?,
    })
}
