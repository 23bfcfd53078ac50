//! The beat of a door: counts are written, and changes that others made to the keys are read.

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

/// How often counts are written, and changes that others made to the keys are read: what a killed
/// process loses at most, and how long another gateway's revocation takes to be seen here.
const BEAT: Duration = Duration::from_millis(500);
/// Counts are written in transactions of so many callers.
const CHUNK: usize = 200;
/// A subject of an identity provider that was not seen for so long is forgotten until it comes
/// again.
const FORGET_AFTER: i64 = 600_000_000;

impl Inner {
    pub(crate) async fn write_counts(&self) -> Result<(), Fault> {
        let _alone = self.writing.lock().await;
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let mut outcome = Ok(());
        for meters in dirty.chunks(CHUNK) {
            let written = match outcome {
                Ok(()) => self.write_chunk(meters).await,
                Err(_) => Err(Fault::unavailable("DATABASE", "not tried")),
            };
            if let Err(fault) = written {
                for meter in meters {
                    meter.put_back();
                }
                self.dirty.lock().extend(meters.iter().cloned());
                outcome = outcome.and(Err(fault));
            }
        }
        outcome
    }

    async fn write_chunk(&self, meters: &[Arc<Meter>]) -> Result<(), Fault> {
        let mut transaction = self.database.pool().begin().await.map_err(failed)?;
        for meter in meters {
            for (day, spent) in meter.take() {
                store::add_usage(&mut transaction, &meter.principal, day, spent, meter.last_used()).await?;
            }
            // In the same transaction: others see what was used either here or there, and never in
            // neither place.
            if let Some(aside) = meter.shrink() {
                self.note(&mut transaction, meter, aside, micros_now()).await?;
            }
        }
        transaction.commit().await.map_err(failed)?;
        let today = day_of(micros_now());
        for meter in meters {
            if meter.is_holding() {
                // Renewed with the next write.
                self.queue(meter);
            }
            // What other gateways wrote comes back with it. Who has no budget need not know.
            if !meter.is_loaded() {
                meter.written();
                continue;
            }
            match store::sums(&self.database, &meter.principal, today).await {
                Ok((sums, _)) => meter.loaded(sums),
                // It is written: counting it again would be wrong.
                Err(_) => meter.written(),
            }
        }
        Ok(())
    }

    /// Removes the rows of gateways that are gone. They count no more in any case.
    async fn forget_reservations(&self) {
        let query = "DELETE FROM access_reserved WHERE holder <> '' AND lease < $1";
        let done = sqlx::query(query)
            .bind(micros_now())
            .execute(self.database.pool())
            .await;
        if let Err(error) = done {
            tracing::debug!(%error, "old reservations are removed another time");
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

/// Writes counts and reads changes until the last [`Access`] is gone.
pub(crate) async fn beat(access: Weak<Inner>) {
    let mut away = false;
    let mut beats = 0_u32;
    loop {
        tokio::time::sleep(BEAT).await;
        let Some(access) = access.upgrade() else { return };
        let outcome = match access.write_counts().await {
            Ok(()) => access.read_changes().await,
            Err(fault) => Err(fault),
        };
        // Said once when it goes and once when it comes back.
        match (&outcome, away) {
            (Err(fault), false) => {
                tracing::error!(%fault, "counts wait in memory, and other gateways' keys are not seen")
            }
            (Ok(()), true) => tracing::info!("the database is back"),
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
