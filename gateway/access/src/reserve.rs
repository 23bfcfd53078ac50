//! Reservations: the maximum usage of a request is reserved while it is in flight, and the rest is
//! released when it ends.
//!
//! A request is admitted while less than the budget is spent or reserved, so that concurrent
//! requests overdraw a budget by at most the last of them. Gateways of one database share this:
//! each has a row of `access_reserved` per caller, with its reservations and its unwritten counts.
//! Only its own gateway changes a row. The row without a holder is the lock that gateways take
//! before they read each other's rows.
//!
//! Asking the database for each request would be slow. So a gateway reserves somewhat more than it
//! needs (a grant), and serves later requests from the grant. With each write of counts the grant
//! shrinks to the amount in use.

use std::sync::Arc;

use isomer_database::failed;
use isomer_service_kit::Fault;
use sqlx::{Any, Transaction};

use crate::{
    access::{Inner, micros_now},
    calendar::{self, day_of},
    caller::Identity,
    faults,
    limits::Limits,
    meter::{Meter, PeriodUsage, Sums},
    store,
};

/// How long a row counts without renewal, so that the reservations of a killed gateway soon expire.
const LEASE_MICROS: i64 = 15_000_000;
/// Besides the request itself, a grant takes this fraction of the budget's rest, so that several
/// gateways can each have a grant.
const SHARE: u64 = 8;

/// A request's reservation. Dropping it releases the unused part.
#[derive(Debug)]
#[must_use = "dropping it releases the reservation"]
pub struct Reservation {
    access: Arc<Inner>,
    meter: Arc<Meter>,
    most: PeriodUsage,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.meter.release(self.most);
        self.access.queue(&self.meter);
    }
}

impl Inner {
    /// Reserves the maximum usage of a request; reserves nothing for a caller without budgets.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        identity: &Identity,
        meter: &Arc<Meter>,
        name: &str,
        most: PeriodUsage,
    ) -> Result<Option<Reservation>, Fault> {
        let limits = self.limits_of(identity)?;
        if limits.budgets.is_empty() || most == PeriodUsage::default() {
            return Ok(None);
        }
        if !meter.hold_within_grant(most) {
            // One reservation at a time, and not while counts are written: a meter's values must be
            // read together.
            let _alone = self.writing.lock().await;
            if !meter.hold_within_grant(most) {
                self.grant(meter, name, &limits, most).await?;
            }
        }
        self.queue(meter);
        Ok(Some(Reservation {
            access: Arc::clone(self),
            meter: Arc::clone(meter),
            most,
        }))
    }

    async fn grant(&self, meter: &Meter, name: &str, limits: &Limits, most: PeriodUsage) -> Result<(), Fault> {
        let now = micros_now();
        match self.grant_shared(meter, name, limits, most, now).await {
            // As elsewhere, this gateway decides by its own knowledge while the database is
            // unavailable.
            Err(fault) if fault.reason == "DATABASE" => {
                let known = meter.known(day_of(now));
                decide(name, limits, &known, meter.in_use(), most, now)?;
                meter.hold(most);
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn grant_shared(
        &self,
        meter: &Meter,
        name: &str,
        limits: &Limits,
        most: PeriodUsage,
        now: i64,
    ) -> Result<(), Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        let lock = "INSERT INTO access_reserved (principal, holder, tokens, cost, lease) VALUES ($1, '', 0, 0, 0) ON CONFLICT \
                    (principal, holder) DO UPDATE SET lease = 0";
        sqlx::query(lock)
            .bind(&meter.principal)
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        let known = store::known(&mut transaction, &meter.principal, day_of(now), (&self.holder, now)).await?;
        let (own, mut aside) = (meter.in_use(), known.of_others);
        aside.add(own);
        let spare = decide(name, limits, &known.sums, aside, most, now)?;
        let mut granted = own;
        granted.add(most);
        granted.add(spare);
        self.note(&mut transaction, meter, granted, now).await?;
        transaction.commit().await.map_err(failed)?;
        meter.granted(granted, most);
        Ok(())
    }

    /// Records this gateway's reservations for a caller.
    pub(crate) async fn note(
        &self,
        transaction: &mut Transaction<'_, Any>,
        meter: &Meter,
        aside: PeriodUsage,
        now: i64,
    ) -> Result<(), Fault> {
        let query = "INSERT INTO access_reserved (principal, holder, tokens, cost, lease) VALUES ($1, $2, $3, $4, $5) ON CONFLICT \
                     (principal, holder) DO UPDATE SET tokens = excluded.tokens, cost = excluded.cost, lease = excluded.lease";
        sqlx::query(query)
            .bind(&meter.principal)
            .bind(&self.holder)
            .bind(store::count(aside.tokens))
            .bind(store::count(aside.cost))
            .bind(now + LEASE_MICROS)
            .execute(&mut **transaction)
            .await
            .map_err(failed)?;
        Ok(())
    }

    /// Queues the meter for the next write of counts.
    pub(crate) fn queue(&self, meter: &Arc<Meter>) {
        if meter.queue() {
            self.dirty.lock().push(Arc::clone(meter));
        }
    }

    fn limits_of(&self, identity: &Identity) -> Result<Limits, Fault> {
        match identity {
            Identity::Key(id) => {
                let entry = self.entry(id).ok_or_else(faults::unknown_key)?;
                Ok(entry.record.limits.clone())
            }
            Identity::Token { .. } => Ok(self.subject_limits().clone()),
        }
    }
}

/// Decides whether a request may begin if `written` is spent and `aside` is reserved. Returns how
/// much of the rest may be granted beyond it.
fn decide(
    name: &str,
    limits: &Limits,
    written: &Sums,
    aside: PeriodUsage,
    most: PeriodUsage,
    now: i64,
) -> Result<PeriodUsage, Fault> {
    let mut spare = PeriodUsage {
        requests: 0,
        tokens: u64::MAX,
        cost: u64::MAX,
    };
    let left = |budget: Option<u64>, written: u64, aside: u64| -> Result<Option<u64>, bool> {
        let Some(budget) = budget else { return Ok(None) };
        match budget.saturating_sub(written.saturating_add(aside)) {
            0 => Err(written >= budget),
            left => Ok(Some(left)),
        }
    };
    for budget in &limits.budgets {
        let spent = written.of(budget.per, day_of(now));
        let refused = |what: String, spent: bool| match spent {
            true => faults::over_budget(name, budget.per, &what, calendar::until_end(budget.per, now)),
            false => faults::budget_reserved(name, budget.per, &what),
        };
        let tokens = left(budget.tokens, spent.tokens, aside.tokens)
            .map_err(|spent| refused(format!("{} tokens", budget.tokens.unwrap_or_default()), spent))?;
        let cost = left(budget.nano(), spent.cost, aside.cost)
            .map_err(|spent| refused(format!("{} US dollars", budget.cost_usd.unwrap_or_default()), spent))?;
        for (left, most, spare) in [
            (tokens, most.tokens, &mut spare.tokens),
            (cost, most.cost, &mut spare.cost),
        ] {
            if let Some(left) = left {
                *spare = (*spare).min(left.saturating_sub(most) / SHARE);
            }
        }
    }
    // A quantity without a budget needs no grant. It must not keep the next request from being
    // served from this grant.
    let bounded = |spare: u64| if spare == u64::MAX { i64::MAX as u64 / 4 } else { spare };
    Ok(PeriodUsage {
        requests: 0,
        tokens: bounded(spare.tokens),
        cost: bounded(spare.cost),
    })
}
