//! Decides which gateway makes the missing variants of a text if several gateways share a database.
//!
//! A claim is a row with a lease. It is taken before the variants are made, renewed meanwhile, and
//! released afterwards. So if several gateways want the same variants at once, only one of them
//! calls the generator and pays. The claim of a gateway that died ends with its lease.

use std::time::Duration;

use isomer_access::micros_now;
use isomer_database::{Database, failed};
use isomer_service_kit::Fault;
use uuid::Uuid;

/// How long a claim lasts without renewal.
const LEASE: Duration = Duration::from_secs(60);
/// How often a claim is renewed.
const RENEW: Duration = Duration::from_secs(20);

const STEPS: &[&str] = &[
    // work: a digest in hexadecimal. lease: when the claim ends, in microseconds since 1970.
    "CREATE TABLE variant_claims (work TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, lease BIGINT NOT NULL)",
];

/// Brings the table up to date.
pub(crate) async fn prepare(database: &Database) -> Result<(), Fault> {
    database.migrate("variant_claims", STEPS).await
}

/// The claims of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    database: Database,
    holder: String,
}

impl Claims {
    /// # Errors
    /// If the database cannot be read or written.
    pub(crate) async fn open(database: Database) -> Result<Self, Fault> {
        prepare(&database).await?;
        Ok(Self {
            database,
            holder: Uuid::new_v4().to_string(),
        })
    }

    /// Does a piece of work, unless another process is doing it: then `None`.
    ///
    /// # Errors
    /// If the database cannot be read or written; nothing was done then.
    pub(crate) async fn only_here<T>(
        &self,
        work: &[u8; 32],
        doing: impl Future<Output = T>,
    ) -> Result<Option<T>, Fault> {
        let work = hex::encode(work);
        if !self.take(&work).await? {
            return Ok(None);
        }
        let mut doing = std::pin::pin!(doing);
        let done = loop {
            tokio::select! {
                done = &mut doing => break done,
                () = tokio::time::sleep(RENEW) => {
                    // Without the database the lease may end, and another process may begin the
                    // same work. The result of this process is valid all the same.
                    let _ = self.take(&work).await;
                }
            }
        };
        self.give_up(&work).await;
        Ok(Some(done))
    }

    /// Takes or renews a claim; false if another process holds it.
    async fn take(&self, work: &str) -> Result<bool, Fault> {
        let now = micros_now();
        // This is one statement, so only one of several processes succeeds.
        let query = "INSERT INTO variant_claims (work, holder, lease) VALUES ($1, $2, $3) ON CONFLICT (work) DO UPDATE SET \
                     holder = excluded.holder, lease = excluded.lease WHERE variant_claims.lease < $4 OR \
                     variant_claims.holder = excluded.holder";
        let done = sqlx::query(query)
            .bind(work)
            .bind(&self.holder)
            .bind(now + LEASE.as_micros() as i64)
            .bind(now)
            .execute(self.database.pool())
            .await
            .map_err(failed)?;
        Ok(done.rows_affected() == 1)
    }

    /// Also removes claims of processes that died.
    async fn give_up(&self, work: &str) {
        let query = sqlx::query("DELETE FROM variant_claims WHERE (work = $1 AND holder = $2) OR lease < $3")
            .bind(work)
            .bind(&self.holder)
            .bind(micros_now());
        if let Err(error) = query.execute(self.database.pool()).await {
            tracing::warn!(fault = %failed(error), "a claim could not be given up; it ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use tokio::sync::Notify;

    use super::*;

    const WORK: [u8; 32] = [7; 32];

    async fn two() -> [Claims; 2] {
        let database = Database::open("sqlite::memory:").await.unwrap();
        let first = Claims::open(database.clone()).await.unwrap();
        [first, Claims::open(database).await.unwrap()]
    }

    #[tokio::test]
    async fn of_two_that_begin_together_one_does_it_and_later_either_may_again() {
        let [one, other] = two().await;
        let (done, left) = (AtomicU32::new(0), Notify::new());
        // The work continues until the other process has released it.
        let both = async |claims: &Claims| {
            let work = async {
                left.notified().await;
                done.fetch_add(1, SeqCst)
            };
            let outcome = claims.only_here(&WORK, work).await.unwrap();
            left.notify_one();
            outcome.is_some()
        };
        let (first, second) = tokio::join!(both(&one), both(&other));
        assert!(first != second);
        assert_eq!(done.load(SeqCst), 1);
        // A different piece of work, and then the same one again.
        for (claims, work) in [(&other, [8; 32]), (&other, WORK), (&one, WORK)] {
            assert!(claims.only_here(&work, async {}).await.unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn a_claim_of_a_process_that_died_ends_and_one_that_is_renewed_does_not() {
        let [dead, heir] = two().await;
        let work = hex::encode(WORK);
        assert!(dead.take(&work).await.unwrap() && !heir.take(&work).await.unwrap());
        assert!(dead.take(&work).await.unwrap(), "the holder renews it");
        let expired = sqlx::query("UPDATE variant_claims SET lease = $1").bind(micros_now() - 1);
        expired.execute(heir.database.pool()).await.unwrap();
        assert!(heir.take(&work).await.unwrap());
        // If the first process was only slow, it neither takes the claim back nor releases the
        // other's claim.
        assert!(!dead.take(&work).await.unwrap());
        dead.give_up(&work).await;
        assert!(!dead.take(&work).await.unwrap());
    }
}
