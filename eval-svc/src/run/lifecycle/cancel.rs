//! Cancels runs, and stops all runs of this process before it shuts down.

use std::time::{Duration, Instant};

use super::{drive::until_ended, store::CancelRequest};
use crate::run::{RunError, RunManager, error::invalid, record::RunRecord};

/// Maximum length of the reason of a cancellation, in bytes.
const LONGEST_REASON: usize = 1000;
/// Interval for reading the record of a run that another replica cancels.
const CANCEL_POLL: Duration = Duration::from_millis(200);
/// Maximum wait for a run to end, or to be handed over, before the process shuts down.
const LONGEST_INTERRUPTION: Duration = Duration::from_secs(10);

impl RunManager {
    /// Cancels a run and records the reason, if one is given. A run that has ended does not change.
    ///
    /// # Errors
    /// [`RunError::Unknown`]; [`RunError::Elsewhere`] if another process executes it and there is
    /// no ledger; [`RunError::NotStopped`] if its leader does not stop it in time;
    /// [`RunError::Invalid`] if the reason is too long.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<RunRecord, RunError> {
        if reason.len() > LONGEST_REASON {
            let message = format!("is {} bytes long, at most {LONGEST_REASON}", reason.len());
            return Err(invalid("reason", message));
        }
        let record = self.get(id).await?;
        if !record.is_active() {
            return Ok(record);
        }
        let Some(live) = self.live_runs().get(id) else {
            return self.cancel_elsewhere(id, reason).await;
        };
        live.cancel(reason);
        until_ended(&live).await;
        self.context().work.wait_for_cancellations().await;
        self.get(id).await
    }

    /// Cancels a run that another replica leads.
    async fn cancel_elsewhere(&self, id: &str, reason: &str) -> Result<RunRecord, RunError> {
        let CancelRequest::Recorded(within) = self.store().request_cancel(id, reason).await? else {
            return Err(RunError::Elsewhere(id.to_owned()));
        };
        let asked = Instant::now();
        loop {
            let record = self.get(id).await?;
            if !record.is_active() {
                return Ok(record);
            }
            if asked.elapsed() > within {
                return Err(RunError::NotStopped(id.to_owned()));
            }
            tokio::time::sleep(CANCEL_POLL).await;
        }
    }

    /// Stops every run of this process before the process shuts down. With a ledger the runs are
    /// handed over to the other replicas, else they are marked as interrupted. Returns when all
    /// have ended.
    pub async fn interrupt(&self) {
        for (id, live) in self.live_runs().active() {
            live.interrupt();
            if tokio::time::timeout(LONGEST_INTERRUPTION, until_ended(&live))
                .await
                .is_err()
            {
                tracing::warn!(id, "the end of this run could not be written in time");
            }
        }
        self.context().work.wait_for_cancellations().await;
        if let Some(ledger) = self.ledger()
            && let Err(error) = ledger.leave().await
        {
            tracing::warn!(%error, "cannot deregister this replica; its row is removed later");
        }
    }
}
