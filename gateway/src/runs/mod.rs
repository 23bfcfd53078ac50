//! Charges runs to the callers that created them, while the runs are running.
//!
//! * [`create`]: forwards `RunService.CreateRun` for callers whose usage is counted. A run gets its
//!   deferred charge before its id is returned.
//! * [`follow`]: the follower of a run charges its usage and cancels the run when a budget is used
//!   up.
//! * This file: the runs that this process follows, including those taken over from another process
//!   or an earlier one.

mod create;
mod follow;
mod owner;

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use isomer_access::{Access, Caller, DeferredCharge, Total};
use isomer_proto::eval::v1::{Run, RunCounters, RunState, run_service_client::RunServiceClient};
use isomer_service_kit::{Fault, telemetry::unsampled};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::proxy::Servers;

pub(crate) use create::route;
pub(crate) use owner::{named, viewer};

/// How often the follower polls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    /// Interval between checks of a run's usage.
    pub(crate) look: Duration,
    /// Maximum interval for a run whose server does not answer.
    pub(crate) longest: Duration,
    /// Interval between checks for runs of other processes that have lost their follower.
    pub(crate) take_over: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            look: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            take_over: Duration::from_secs(5),
        }
    }
}

/// Follows the runs of one server for their payers. Cheap to clone; following ends when the last
/// clone is dropped.
#[derive(Debug, Clone)]
pub struct Follower(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    access: Access,
    runs: RunServiceClient<Servers>,
    intervals: Intervals,
    /// Runs that this process follows.
    followed: Arc<Mutex<HashSet<String>>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl Follower {
    /// Takes over the runs without a follower, and follows each run that is opened from now on.
    /// Must be called inside a Tokio runtime.
    pub(crate) fn start(access: Access, runs: Servers, max_message_bytes: usize, intervals: Intervals) -> Self {
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            access,
            runs: RunServiceClient::new(runs).max_decoding_message_size(max_message_bytes),
            intervals,
            followed: Arc::default(),
            _stop: stop.clone().drop_guard(),
            stop,
        });
        tokio::spawn(take_over(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Opens the deferred charge of a run that was just created, and follows the run. A run that
    /// has ended has no deferred charge any more, or never had one.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub(crate) async fn open(&self, caller: &Caller, run: &Run) -> Result<(), Fault> {
        if ended(run) {
            return Ok(());
        }
        // A repeated request leads to an existing run. Usage before the run had a payer is charged
        // to nobody.
        let already = match run.start_time {
            Some(_) => used(run),
            None => Total::default(),
        };
        let charge = self
            .0
            .access
            .open_deferred_charge(caller, &work(&run.id), already)
            .await?;
        if let Some(charge) = charge {
            self.0.follow(charge);
        }
        Ok(())
    }

    /// Waits until no run is followed, but at most `most`. It is meant for a process whose runs
    /// have just ended.
    pub async fn settled(&self, most: Duration) {
        let until = Instant::now() + most;
        while !self.0.followed.lock().is_empty() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Inner {
    fn follow(&self, charge: DeferredCharge) {
        let work = charge.work().to_owned();
        if !self.followed.lock().insert(work.clone()) {
            return;
        }
        let following = follow::RunFollower {
            access: self.access.clone(),
            runs: self.runs.clone(),
            intervals: self.intervals,
            deferred: charge,
        };
        let (stop, followed) = (self.stop.clone(), Arc::clone(&self.followed));
        let following = async move {
            Box::pin(stop.run_until_cancelled(following.follow())).await;
            followed.lock().remove(&work);
        };
        // The span is not sampled: a trace every few seconds would drown the traces of callers.
        tokio::spawn(following.instrument(unsampled()));
    }
}

/// Takes over runs without a follower until this follower is dropped.
async fn take_over(inner: Weak<Inner>) {
    let mut away = false;
    loop {
        let Some(held) = inner.upgrade() else { return };
        let taken = held.access.take_over_deferred_charges().await;
        if let Err(fault) = &taken
            && !away
        {
            tracing::warn!(%fault, "runs left by other processes cannot be looked up; trying again");
        }
        away = taken.is_err();
        taken.into_iter().flatten().for_each(|charge| held.follow(charge));
        let (wait, stop) = (held.intervals.take_over, held.stop.clone());
        drop(held);
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}

const PREFIX: &str = "run:";

/// The name of a run's deferred charge.
fn work(id: &str) -> String {
    format!("{PREFIX}{id}")
}

fn ended(run: &Run) -> bool {
    matches!(
        run.state(),
        RunState::Succeeded | RunState::Failed | RunState::Cancelled
    )
}

/// The total usage of a run.
fn used(run: &Run) -> Total {
    let Some(counters) = &run.counters else {
        return Total::default();
    };
    let RunCounters {
        tokens_encoded,
        generator_tokens,
        generated_tokens,
        judge_tokens,
        judge_generated_tokens,
        cost_nano_usd,
        ..
    } = *counters;
    let tokens = [
        tokens_encoded,
        generator_tokens,
        generated_tokens,
        judge_tokens,
        judge_generated_tokens,
    ];
    Total {
        tokens: tokens.into_iter().fold(0, u64::saturating_add),
        cost_nano_usd,
    }
}
