//! Periodic work: writes counts, and reads the changes to keys that other processes made.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_database::failed;
use isomer_service_kit::Fault;

use crate::{
    access::{Inner, micros_now},
    calendar::day_of,
    meter::Meter,
    store,
};

/// Interval at which counts are written and other gateways' changes to keys are read. A killed
/// process loses at most one interval's counts. Another gateway's revocation takes effect here
/// after at most one interval.
const BEAT: Duration = Duration::from_millis(500);
/// Maximum number of callers whose counts are written in one transaction.
const CHUNK: usize = 200;
/// Number of callers that are tried one by one before the database counts as unreachable.
const TRIES: usize = 3;
/// A subject of an identity provider that was not seen for this long, in microseconds, is forgotten
/// until it returns.
const FORGET_AFTER: i64 = 600_000_000;

impl Inner {
    pub(crate) async fn write_counts(&self) -> Result<(), Fault> {
        let _alone = self.writing.lock().await;
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let mut outcome = Ok(());
        let mut reachable = true;
        for meters in dirty.chunks(CHUNK) {
            let mut unwritten = meters.to_vec();
            if reachable {
                if let Err(fault) = self.write_chunk(meters).await {
                    meters.iter().for_each(|meter| meter.put_back());
                    unwritten = self.write_each(meters).await;
                    reachable = unwritten.len() < meters.len();
                    outcome = outcome.and(Err(fault));
                } else {
                    unwritten.clear();
                }
            }
            for meter in &unwritten {
                meter.put_back();
            }
            self.dirty.lock().extend(unwritten);
        }
        outcome
    }

    /// Writes the counts of callers one by one, so that a caller whose counts cannot be written
    /// does not hold up the others. Returns the callers whose counts were not written. If the
    /// database refuses the first few, the rest are not tried.
    async fn write_each(&self, meters: &[Arc<Meter>]) -> Vec<Arc<Meter>> {
        let mut unwritten = Vec::new();
        for (done, meter) in meters.iter().enumerate() {
            let away = done == unwritten.len() && done >= TRIES;
            if away || self.write_chunk(std::slice::from_ref(meter)).await.is_err() {
                unwritten.push(Arc::clone(meter));
            }
        }
        unwritten
    }

    async fn write_chunk(&self, meters: &[Arc<Meter>]) -> Result<(), Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        for meter in meters {
            for (day, spent) in meter.take() {
                store::add_usage(&mut transaction, &meter.principal, day, spent, meter.last_used()).await?;
            }
            // Both are in one transaction, so that other gateways always see the usage in one of
            // the two places.
            if let Some(aside) = meter.shrink() {
                self.note(&mut transaction, meter, aside, micros_now()).await?;
            }
        }
        transaction.commit().await.map_err(failed)?;
        let today = day_of(micros_now());
        for meter in meters {
            if meter.is_holding() {
                // The reservation is renewed with the next write.
                self.queue(meter);
            }
            // The write also returns the usage that other gateways wrote. A caller without budgets
            // does not need it.
            if !meter.is_loaded() {
                meter.written();
                continue;
            }
            match store::sums(&self.database, &meter.principal, today).await {
                Ok((sums, _)) => meter.loaded(sums),
                // The usage has been written, so counting it again would be wrong.
                Err(_) => meter.written(),
            }
        }
        Ok(())
    }

    /// Removes the rows of gateways that no longer exist. Those rows do not count any more.
    async fn forget_reservations(&self) {
        let query = "DELETE FROM access_reserved WHERE holder <> '' AND lease < $1";
        let done = sqlx::query(query)
            .bind(micros_now())
            .execute(self.database.pool())
            .await;
        if let Err(error) = done {
            tracing::debug!(%error, "old reservations cannot be removed now; trying again later");
        }
    }

    fn forget_subjects(&self) {
        let now = micros_now();
        let mut subjects = self.subjects.write();
        subjects.retain(|_, meter| {
            Arc::strong_count(meter) > 1 || !meter.is_quiet() || now - meter.last_used() < FORGET_AFTER
        });
    }
}

/// Writes counts and reads changes until the last [`Access`] is dropped.
pub(crate) async fn beat(access: Weak<Inner>) {
    let mut away = false;
    let mut beats = 0_u32;
    loop {
        tokio::time::sleep(BEAT).await;
        let Some(access) = access.upgrade() else { return };
        // Revocations are read whether or not counts can be written.
        let written = access.write_counts().await;
        let outcome = access.read_changes().await.and(written);
        // Logged once when the database becomes unavailable, and once when it recovers.
        match (&outcome, away) {
            (Err(fault), false) => {
                tracing::error!(%fault, "counts wait in memory, and other gateways' keys are not seen")
            }
            (Ok(()), true) => tracing::info!("the database is available again"),
            _ => {}
        }
        away = outcome.is_err();
        beats = beats.wrapping_add(1);
        if beats.is_multiple_of(120) {
            access.forget_subjects();
            access.forget_reservations().await;
        }
    }
}
