//! Executes a run of this process until it has ended or is left to another replica.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use isomer_service_kit::Fault;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::{execute, live::LiveRun, queue::QueueTicket, store::INTERRUPTED};
use crate::run::{RunContext, RunError, plan::Plan, record::RunState};

/// Waits until a run's end has been written and sent to its watchers, or the run has been left to
/// another replica.
pub(super) async fn until_ended(live: &LiveRun) {
    let mut news = live.progress.events.subscribe();
    while live.progress.events.end().is_none() && !live.superseded() && news.changed().await.is_ok() {}
}

/// Executes a run until it has ended, with any outcome, or is left to another replica.
pub(super) async fn drive(
    context: RunContext,
    plan: Plan,
    live: Arc<LiveRun>,
    permits: Arc<Semaphore>,
    ticket: QueueTicket,
) {
    let saving = {
        let live = Arc::clone(&live);
        AbortOnDropHandle::new(tokio::spawn(async move { live.save_changes().await }))
    };
    let work = async {
        // The semaphore is never closed; if it were, the run would start without a permit.
        let _permit = permits.acquire().await.ok();
        drop(ticket);
        live.progress.change(|record| {
            record.state = RunState::Running;
            record.started.get_or_insert_with(Timestamp::now);
        });
        live.save().await?;
        Box::pin(execute::execute(&context, plan, &live)).await
    };
    let outcome = live
        .cancel
        .run_until_cancelled(AssertUnwindSafe(work).catch_unwind())
        .await;
    let outcome = outcome.map(|caught| {
        caught.unwrap_or_else(|_| {
            Err(RunError::Internal(
                "a stage of the run panicked; this is a bug of Isomer".to_owned(),
            ))
        })
    });
    drop(saving);
    if live.superseded() {
        return;
    }
    let interrupted = live.interrupted();
    if interrupted && outcome.is_none() && live.hand_back().await {
        tracing::info!(id = live.record().id, "a run was handed back to the other replicas");
        return;
    }
    live.end(|record| match outcome {
        Some(Ok(())) => record.state = RunState::Succeeded,
        Some(Err(error)) => {
            let fault = Fault::from(error);
            record.fail(fault.code, fault.to_string());
        }
        None if interrupted => record.fail(tonic::Code::Aborted, INTERRUPTED.to_owned()),
        None => record.cancel(live.reason()),
    })
    .await;
    let record = live.record();
    if !live.superseded() {
        tracing::info!(id = record.id, state = ?record.state, counters = ?record.counters, "run ended");
    }
}
