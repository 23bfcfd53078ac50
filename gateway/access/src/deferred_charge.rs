//! Deferred charges: charges for work that continues after its request was answered, such as a run.
//!
//! A deferred charge records in the database the payer, and how much of the work has been charged.
//! The follower of the work repeatedly reports the work's total usage. The difference is added to
//! the payer's count in the same transaction in which the charge is updated. So nothing is charged
//! twice, however often a follower is killed or replaced, and no reported usage is lost. One
//! gateway at a time holds a deferred charge. If it is not renewed, another gateway of the database
//! takes it over, or the same gateway after a restart.

use std::time::{Duration, Instant};

use isomer_database::failed;
use isomer_service_kit::Fault;
use sqlx::{Any, Row, Transaction, any::AnyRow};

use crate::{
    access::{Access, micros_now},
    calendar::day_of,
    caller::Caller,
    faults,
    meter::PeriodUsage,
    store,
};

/// How long a deferred charge is held without renewal.
const LEASE: Duration = Duration::from_secs(15);
/// Part of the lease after which a deferred charge is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(5);
/// Time without a follower after which a deferred charge is deleted: the server of the work is gone
/// for good.
const FORGET_AFTER: Duration = Duration::from_secs(90 * 86_400);

/// The total usage of some work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Tokens read and written by models.
    pub tokens: u64,
    /// Billionths of a US dollar.
    pub cost_nano_usd: u64,
}

/// The deferred charge of some work, held by this process.
#[derive(Debug)]
pub struct DeferredCharge {
    access: Access,
    work: String,
    principal: String,
    name: String,
    charged: Total,
    renewed: Instant,
}

impl Access {
    /// Opens the deferred charge of `work` (a unique name, e.g. `run:ID`) for the caller that
    /// requested the work; the usage `already` is not charged. `None` if nothing is counted for the
    /// caller, or if the work has a deferred charge already: the caller that opened it first pays.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub async fn open_deferred_charge(
        &self,
        caller: &Caller,
        work: &str,
        already: Total,
    ) -> Result<Option<DeferredCharge>, Fault> {
        if !caller.is_counted() {
            return Ok(None);
        }
        let now = micros_now();
        let query = "INSERT INTO access_tabs (work, principal, name, tokens, cost, opened, holder, lease) VALUES ($1, $2, $3, $4, $5, \
                     $6, $7, $8) ON CONFLICT (work) DO NOTHING";
        let done = sqlx::query(query)
            .bind(work)
            .bind(caller.principal())
            .bind(caller.name())
            .bind(store::count(already.tokens))
            .bind(store::count(already.cost_nano_usd))
            .bind(now)
            .bind(&self.0.holder)
            .bind(lease(now))
            .execute(self.0.database.pool())
            .await
            .map_err(failed)?;
        Ok((done.rows_affected() == 1).then(|| DeferredCharge {
            access: self.clone(),
            work: work.to_owned(),
            principal: caller.principal().to_owned(),
            name: caller.name().to_owned(),
            charged: already,
            renewed: Instant::now(),
        }))
    }

    /// Takes over the deferred charges that no process holds any more.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub async fn take_over_deferred_charges(&self) -> Result<Vec<DeferredCharge>, Fault> {
        let now = micros_now();
        let old = now - FORGET_AFTER.as_micros() as i64;
        sqlx::query("DELETE FROM access_tabs WHERE lease < $1 AND opened < $2")
            .bind(now)
            .bind(old)
            .execute(self.0.database.pool())
            .await
            .map_err(failed)?;
        // This is one statement, so only one of two competing gateways gets a deferred charge.
        let query = "UPDATE access_tabs SET holder = $1, lease = $2 WHERE lease < $3 RETURNING work, principal, name, tokens, cost";
        sqlx::query(query)
            .bind(&self.0.holder)
            .bind(lease(now))
            .bind(now)
            .fetch_all(self.0.database.pool())
            .await
            .map_err(failed)?
            .iter()
            .map(|row| self.taken(row))
            .collect()
    }

    /// Releases all deferred charges, so that another process need not wait for their leases to
    /// end. Holders in this process find that theirs are gone.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub async fn release_deferred_charges(&self) -> Result<(), Fault> {
        sqlx::query("UPDATE access_tabs SET holder = '', lease = 0 WHERE holder = $1")
            .bind(&self.0.holder)
            .execute(self.0.database.pool())
            .await
            .map_err(failed)?;
        Ok(())
    }

    fn taken(&self, row: &AnyRow) -> Result<DeferredCharge, Fault> {
        let text = |column: usize| row.try_get::<String, _>(column).map_err(failed);
        Ok(DeferredCharge {
            access: self.clone(),
            work: text(0)?,
            principal: text(1)?,
            name: text(2)?,
            charged: total(row, 3)?,
            renewed: Instant::now(),
        })
    }
}

impl DeferredCharge {
    /// The name of the work.
    pub fn work(&self) -> &str {
        &self.work
    }

    /// The payer: `key:ID` or `jwt:DIGEST`.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The part of the work's usage that has been charged.
    pub fn charged(&self) -> Total {
        self.charged
    }

    /// Charges the difference between `used`, the work's total usage, and the charged amount; a
    /// smaller total charges nothing. Returns false if this process no longer holds the deferred
    /// charge. In that case nothing was charged, and another process follows the work.
    ///
    /// # Errors
    /// If the database cannot be written. In that case nothing was charged, and the next call
    /// charges it.
    pub async fn charge(&mut self, used: Total) -> Result<bool, Fault> {
        let grown = used.tokens > self.charged.tokens || used.cost_nano_usd > self.charged.cost_nano_usd;
        if !grown && self.renewed.elapsed() < RENEW_AFTER {
            return Ok(true);
        }
        let inner = &self.access.0;
        // Counts that were taken from a meter must not be read back together with these.
        let _alone = inner.writing.lock().await;
        let mut transaction = inner.database.pool().begin().await.map_err(failed)?;
        let now = micros_now();
        // The write comes first. If two processes charge for one work, the second waits and sees
        // the first one's charge.
        let renewal = "UPDATE access_tabs SET lease = $1 WHERE work = $2 AND holder = $3 RETURNING tokens, cost";
        let row = sqlx::query(renewal)
            .bind(lease(now))
            .bind(&self.work)
            .bind(&inner.holder)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failed)?;
        let Some(row) = row else { return Ok(false) };
        let before = total(&row, 0)?;
        let after = Total {
            tokens: used.tokens.max(before.tokens),
            cost_nano_usd: used.cost_nano_usd.max(before.cost_nano_usd),
        };
        if after != before {
            let spent = PeriodUsage {
                requests: 0,
                tokens: after.tokens - before.tokens,
                cost: after.cost_nano_usd - before.cost_nano_usd,
            };
            // This is not a request, so the time of the last request is unchanged.
            store::add_usage(&mut transaction, &self.principal, day_of(now), spent, 0).await?;
            self.note(&mut transaction, after).await?;
        }
        transaction.commit().await.map_err(failed)?;
        (self.charged, self.renewed) = (after, Instant::now());
        let (meter, limits) = inner.account(&self.principal);
        if after != before && !limits.budgets.is_empty() {
            // The sums are updated before the next request is admitted, not with the next count. If
            // this fails, the next count does it.
            if let Ok((sums, _)) = store::sums(&inner.database, &self.principal, day_of(now)).await {
                meter.loaded(sums);
            }
        }
        Ok(true)
    }

    async fn note(&self, transaction: &mut Transaction<'_, Any>, charged: Total) -> Result<(), Fault> {
        sqlx::query("UPDATE access_tabs SET tokens = $1, cost = $2 WHERE work = $3")
            .bind(store::count(charged.tokens))
            .bind(store::count(charged.cost_nano_usd))
            .bind(&self.work)
            .execute(&mut **transaction)
            .await
            .map_err(failed)?;
        Ok(())
    }

    /// Checks whether work for this payer may continue: its key is not revoked, and no budget is
    /// used up. A key or token that has expired since does not stop work that it was allowed to
    /// start.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` (`BUDGET_EXCEEDED`), `UNAUTHENTICATED` (`REVOKED_KEY`), `UNAVAILABLE`
    /// (`DATABASE`).
    pub async fn check(&self) -> Result<(), Fault> {
        let inner = &self.access.0;
        if let Some(id) = self.principal.strip_prefix("key:")
            && let Some(entry) = inner.entry(id)
            && entry.record.revoked.is_some()
        {
            return Err(faults::revoked(id));
        }
        let (meter, limits) = inner.account(&self.principal);
        if limits.budgets.is_empty() {
            return Ok(());
        }
        let now = micros_now();
        if !meter.is_loaded() {
            let (sums, _) = store::sums(&inner.database, &self.principal, day_of(now)).await?;
            meter.begin(sums);
        }
        meter.check_budgets(&self.name, &limits, now)
    }

    /// Removes the deferred charge after the work has ended and all of its usage has been charged.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub async fn close(&self) -> Result<(), Fault> {
        sqlx::query("DELETE FROM access_tabs WHERE work = $1")
            .bind(&self.work)
            .execute(self.access.0.database.pool())
            .await
            .map_err(failed)?;
        Ok(())
    }
}

/// The end of a lease that begins now, in microseconds since 1970.
fn lease(now: i64) -> i64 {
    now + LEASE.as_micros() as i64
}

fn total(row: &AnyRow, first: usize) -> Result<Total, Fault> {
    let number = |column: usize| row.try_get::<i64, _>(column).map(i64::unsigned_abs).map_err(failed);
    Ok(Total {
        tokens: number(first)?,
        cost_nano_usd: number(first + 1)?,
    })
}
