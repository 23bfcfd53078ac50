//! Follows one run to its end.

use std::{future::Future, pin::Pin, time::Duration};

use isomer_access::{Access, DeferredCharge};
use isomer_proto::eval::v1::{
    CancelRunRequest, GetRunRequest, Run, WatchRunRequest, run_service_client::RunServiceClient,
    watch_run_response::Event,
};
use isomer_service_kit::{CallDeadline, Fault};
use tokio::time::Instant;
use tonic::{Code, Request, Status};

use super::{Intervals, PREFIX, ended, used};
use crate::proxy::Servers;

/// Maximum wait for an answer of the server that executes the run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a reason, well below RunService's limit.
const LONGEST_REASON: usize = 900;

/// A run's deferred charge, and the state for following the run.
#[derive(Debug)]
pub(super) struct RunFollower {
    pub(super) access: Access,
    pub(super) runs: RunServiceClient<Servers>,
    pub(super) intervals: Intervals,
    pub(super) deferred: DeferredCharge,
}

type Ending = Pin<Box<dyn Future<Output = Option<Run>> + Send>>;

impl RunFollower {
    /// Charges the run's usage until the run has ended or another process has taken over its
    /// deferred charge. The end is both watched and polled, because a run may be deleted the moment
    /// it has ended.
    pub(super) async fn follow(mut self) {
        let id = self.deferred.work().trim_start_matches(PREFIX).to_owned();
        let mut ending = end_of(self.runs.clone(), id.clone(), Duration::ZERO);
        let mut wait = self.intervals.look;
        let mut last: Option<Run> = None;
        let mut stopping = false;
        loop {
            let seen = match last.take() {
                // The run has ended but could not be charged; try again.
                Some(run) => {
                    tokio::time::sleep(wait).await;
                    Ok(run)
                }
                None => tokio::select! {
                    run = &mut ending => match run {
                        Some(run) => Ok(run),
                        None => {
                            ending = end_of(self.runs.clone(), id.clone(), wait);
                            self.look(&id).await
                        }
                    },
                    () = tokio::time::sleep(wait) => self.look(&id).await,
                },
            };
            let charged = match seen {
                Ok(run) => match self.deferred.charge(used(&run)).await {
                    Ok(true) => Ok(run),
                    Ok(false) => return,
                    Err(fault) => {
                        last = Some(run).filter(ended);
                        Err(fault)
                    }
                },
                Err(status) if status.code() == Code::NotFound => {
                    tracing::warn!(
                        run = id,
                        "the evaluation service no longer knows a run whose end was not seen"
                    );
                    return self.close().await;
                }
                Err(status) => Err(Fault::from_status(&status)),
            };
            match charged {
                Ok(run) if ended(&run) => return self.close().await,
                Ok(_) => {
                    wait = self.intervals.look;
                    if let Err(fault) = self.deferred.check().await
                        && fault.code != Code::Unavailable
                    {
                        self.stop(&id, &fault, &mut stopping).await;
                    }
                }
                Err(fault) => {
                    if wait == self.intervals.look {
                        tracing::warn!(run = id, %fault, "what a run uses cannot be charged now; trying again");
                    }
                    wait = (wait * 2).min(self.intervals.longest);
                }
            }
        }
    }

    async fn look(&mut self, id: &str) -> Result<Run, Status> {
        let mut request = Request::new(GetRunRequest { id: id.to_owned() });
        request.extensions_mut().insert(CallDeadline(Instant::now() + PATIENCE));
        let answer = self.runs.get_run(request).await?.into_inner();
        answer.run.ok_or_else(|| Status::internal("the answer has no run"))
    }

    /// Cancels the run because its payer has lost its permission, and audits the cancellation once.
    async fn stop(&mut self, id: &str, fault: &Fault, stopping: &mut bool) {
        let mut request = Request::new(CancelRunRequest {
            id: id.to_owned(),
            reason: reason(fault),
        });
        request.extensions_mut().insert(CallDeadline(Instant::now() + PATIENCE));
        let done = self.runs.cancel_run(request).await;
        let failed = done.err().map(|status| Fault::from_status(&status));
        if std::mem::replace(stopping, true) {
            return;
        }
        tracing::warn!(run = id, payer = self.deferred.principal(), reason = %fault.reason, failed = ?failed, "a run is stopped");
        let target = format!("run:{id} of {}: {}", self.deferred.principal(), fault.reason);
        let outcome = failed.as_ref().map_or(Ok(()), Err);
        if let Err(fault) = self
            .access
            .keys()
            .audit("gateway", "runs.cancel", &target, outcome)
            .await
        {
            tracing::warn!(run = id, %fault, "the cancellation of a run was not written to the audit log");
        }
    }

    async fn close(&self) {
        if let Err(fault) = self.deferred.close().await {
            // The process that takes it over finds that the run has ended and that nothing is left
            // to charge.
            tracing::warn!(work = self.deferred.work(), %fault, "a deferred charge stays open");
        }
    }
}

/// The reason for the cancellation in the run's status.
fn reason(fault: &Fault) -> String {
    let mut reason = format!("{fault}; finished work is kept");
    let mut end = reason.len().min(LONGEST_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    reason
}

/// The run in its final state; `None` if the server's stream ends first.
fn end_of(mut runs: RunServiceClient<Servers>, id: String, wait: Duration) -> Ending {
    Box::pin(async move {
        tokio::time::sleep(wait).await;
        let request = WatchRunRequest {
            id,
            // The start is beyond the last event, because earlier events are not needed.
            after_sequence: u64::MAX,
        };
        let mut events = runs.watch_run(request).await.ok()?.into_inner();
        while let Ok(Some(event)) = events.message().await {
            if let Some(Event::Ended(run)) = event.event {
                return Some(run);
            }
        }
        None
    })
}
