//! Runs, charged to those who asked for them while they go on.
//!
//! * [`create`]: the way to `RunService.CreateRun` for callers whose use is counted; the run gets a
//!   tab before its id is told.
//! * [`follow`]: whoever follows the run charges what it has used and stops it where a budget is
//!   used up.
//! * this file: what is followed here, also what another process or an earlier one has left.

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

/// How often things are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    /// What a run has used.
    pub(crate) look: Duration,
    /// A run whose server does not answer, at most.
    pub(crate) longest: Duration,
    /// Whether others have left runs that nobody follows.
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

/// Follows the runs of one server for their payers. Cheap to clone; ends with the last clone.
#[derive(Debug, Clone)]
pub struct Follower(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    access: Access,
    runs: RunServiceClient<Servers>,
    pace: Intervals,
    /// Runs that are followed here.
    followed: Arc<Mutex<HashSet<String>>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl Follower {
    /// Follows what was left, and from now on what is opened. Must be called inside a tokio
    /// runtime.
    pub(crate) fn start(access: Access, runs: Servers, max_message_bytes: usize, pace: Intervals) -> Self {
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            access,
            runs: RunServiceClient::new(runs).max_decoding_message_size(max_message_bytes),
            pace,
            followed: Arc::default(),
            _stop: stop.clone().drop_guard(),
            stop,
        });
        tokio::spawn(take_over(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Opens the tab of a run that was just asked for, and follows it. A run that has ended has no
    /// tab any more, or never had one.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub(crate) async fn open(&self, caller: &Caller, run: &Run) -> Result<(), Fault> {
        if ended(run) {
            return Ok(());
        }
        // A repeated request leads to the run that there is. What it used while it was nobody's is
        // nobody's.
        let already = match run.start_time {
            Some(_) => used(run),
            None => Total::default(),
        };
        let tab = self.0.access.open_tab(caller, &work(&run.id), already).await?;
        if let Some(tab) = tab {
            self.0.follow(tab);
        }
        Ok(())
    }

    /// Waits until nothing is followed, at most so long: for a process whose runs have just been
    /// ended.
    pub async fn settled(&self, most: Duration) {
        let until = Instant::now() + most;
        while !self.0.followed.lock().is_empty() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Inner {
    fn follow(&self, tab: DeferredCharge) {
        let work = tab.work().to_owned();
        if !self.followed.lock().insert(work.clone()) {
            return;
        }
        let following = follow::Following {
            access: self.access.clone(),
            runs: self.runs.clone(),
            pace: self.pace,
            tab,
        };
        let (stop, followed) = (self.stop.clone(), Arc::clone(&self.followed));
        let following = async move {
            Box::pin(stop.run_until_cancelled(following.follow())).await;
            followed.lock().remove(&work);
        };
        // What it asks every few seconds would drown what callers ask.
        tokio::spawn(following.instrument(unsampled()));
    }
}

/// Takes over runs that nobody follows until the follower is gone.
async fn take_over(inner: Weak<Inner>) {
    let mut away = false;
    loop {
        let Some(held) = inner.upgrade() else { return };
        let taken = held.access.take_over_tabs().await;
        if let Err(fault) = &taken
            && !away
        {
            tracing::warn!(%fault, "runs that others left are not looked for");
        }
        away = taken.is_err();
        taken.into_iter().flatten().for_each(|tab| held.follow(tab));
        let (pace, stop) = (held.pace.take_over, held.stop.clone());
        drop(held);
        if stop.run_until_cancelled(tokio::time::sleep(pace)).await.is_none() {
            return;
        }
    }
}

const PREFIX: &str = "run:";

/// The name of a run's tab.
fn work(id: &str) -> String {
    format!("{PREFIX}{id}")
}

fn ended(run: &Run) -> bool {
    matches!(
        run.state(),
        RunState::Succeeded | RunState::Failed | RunState::Cancelled
    )
}

/// What a run has used in all.
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
