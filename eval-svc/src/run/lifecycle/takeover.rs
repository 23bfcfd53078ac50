//! This process as one of several replicas of a ledger: it sends heartbeats, reads requests to
//! cancel its runs, and takes over runs whose leader has stopped or has given them up.
//!
//! **No run is abandoned.** The reply to a write that makes this replica a run's leader may be
//! lost. The run then names this replica, which does not know of the run. So a replica also takes
//! over, from itself, runs that have named it for a lease and that it does not execute.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_service_kit::Fault;
use tonic::Code;

use super::{
    live::LiveRun,
    manager::WeakRunManager,
    store::{ActiveRun, CANCEL_LOOK, Claim, Ledger, Observer},
};
use crate::{
    report::terms::JudgeCounters,
    run::{
        RunContext, RunError, RunManager,
        plan::{JudgePlan, Plan, prepare},
        record::{Counters, RunRecord, RunRequest, RunState},
    },
};

/// Waiting time at another replica after which a replica with a free place takes a run.
const WAITED: Duration = Duration::from_secs(2);
/// Maximum number of attempts to prepare a run that was taken over while a service does not
/// respond.
const TRIES: u32 = 6;
/// Minimum time limit of one turn at the ledger; the limit is half a lease.
const SHORTEST_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two of these attempts.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Takes part in the ledger of these runs, if they have one, until the runs are dropped. With a
/// ledger it must be called inside a tokio runtime.
pub(crate) fn take_part(manager: &RunManager) {
    if let Some(ledger) = manager.ledger() {
        tokio::spawn(turns(ledger.clone(), manager.downgrade()));
    }
}

async fn turns(ledger: Ledger, manager: WeakRunManager) {
    let mut replica = Replica {
        observer: Observer::new(ledger.lease()),
        beaten: Instant::now(),
        waiting: Vec::new(),
        unknown: Vec::new(),
        ledger,
    };
    let limit = (replica.ledger.lease() / 2).max(SHORTEST_LIMIT);
    let mut every = tokio::time::interval(CANCEL_LOOK);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        match tokio::time::timeout(limit, replica.turn(&manager)).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::warn!(%fault, "the ledger of runs cannot be read or written; retrying"),
            // The connection may be dead; the next turn uses another one.
            Err(_) => tracing::warn!(?limit, "the ledger of runs does not answer in time; retrying"),
        }
    }
}

struct Replica {
    ledger: Ledger,
    observer: Observer,
    beaten: Instant,
    /// Runs that wait at other replicas, with their tokens, and the time since when.
    waiting: Vec<(ActiveRun, Instant)>,
    /// Runs that name this replica but that it does not execute, and the time since when.
    unknown: Vec<(ActiveRun, Instant)>,
}

impl Replica {
    async fn turn(&mut self, manager: &RunManager) -> Result<(), Fault> {
        if self.beaten.elapsed() >= self.ledger.lease() / 5 {
            self.ledger.beat().await?;
            self.beaten = Instant::now();
        }
        for (id, reason) in self.ledger.cancelled().await? {
            if let Some(live) = manager.live_runs().get(&id) {
                live.cancel(&reason);
            }
        }
        let beats = self.ledger.beats().await?;
        let (own, others): (Vec<_>, Vec<_>) = self
            .ledger
            .active()
            .await?
            .into_iter()
            .partition(|run| run.leader == self.ledger.replica());
        // A waiting run writes nothing, so it would not detect the change by itself.
        for (id, live) in manager.live_runs().active() {
            if others.iter().any(|run| run.id == id) {
                live.supersede();
            }
        }
        let now = Instant::now();
        let leaders = others
            .iter()
            .map(|run| run.leader.as_str())
            .filter(|name| !name.is_empty());
        self.observer.observe(&beats, leaders, now);
        let unknown = self.unknown(own, manager, now);
        for run in self
            .claimable(others, now, manager.has_free_permit())
            .into_iter()
            .chain(unknown)
        {
            match self.ledger.claim(&run).await {
                Ok(Some(claim)) => continue_run(manager, &run, claim),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, id = run.id, "a run cannot be taken over; retrying"),
            }
        }
        let stopped = self.observer.stopped(now);
        let this = self.ledger.replica();
        let stopped: Vec<String> = stopped.into_iter().filter(|name| name != this).collect();
        self.ledger.forget(&stopped).await
    }

    /// The runs that have named this replica for a lease and that it does not execute.
    fn unknown(&mut self, mut own: Vec<ActiveRun>, manager: &RunManager, now: Instant) -> Vec<ActiveRun> {
        own.retain(|run| manager.live_runs().get(&run.id).is_none());
        self.unknown.retain(|(known, _)| own.contains(known));
        for run in own {
            if !self.unknown.iter().any(|(known, _)| *known == run) {
                self.unknown.push((run, now));
            }
        }
        let lease = self.ledger.lease();
        let long = self
            .unknown
            .iter()
            .filter(|(_, since)| now.duration_since(*since) >= lease);
        long.map(|(run, _)| run.clone()).collect()
    }

    /// The runs to take over: those of leaders that have stopped, and, while there is a free place,
    /// the oldest of those that were given up or that wait elsewhere.
    fn claimable(&mut self, others: Vec<ActiveRun>, now: Instant, has_place: bool) -> Vec<ActiveRun> {
        let waits = |run: &ActiveRun| run.pending && !run.leader.is_empty();
        self.waiting.retain(|(known, _)| others.contains(known));
        for run in others.iter().filter(|run| waits(run)) {
            if !self.waiting.iter().any(|(known, _)| known == run) {
                self.waiting.push((run.clone(), now));
            }
        }
        let waited = |run: &ActiveRun| {
            let since = self.waiting.iter().find(|(known, _)| known == run);
            since.is_some_and(|(_, since)| now.duration_since(*since) >= WAITED)
        };
        let mut places = usize::from(has_place);
        let mut take = Vec::new();
        for run in others {
            let stopped = !run.leader.is_empty() && self.observer.has_stopped(&run.leader, now);
            let free = run.leader.is_empty() || waits(&run) && waited(&run);
            if stopped || free && places > 0 {
                places = places.saturating_sub(1);
                take.push(run);
            }
        }
        take
    }
}

/// Continues a run from its record, in a separate task.
fn continue_run(manager: &RunManager, from: &ActiveRun, claim: Claim) {
    let Claim {
        mut record,
        sequence,
        cancel,
        leadership,
    } = claim;
    tracing::info!(
        id = record.id,
        leader = from.leader,
        fence = from.fence + 1,
        "this replica leads a run now"
    );
    metrics::counter!(crate::metric_names::TAKEOVERS).increment(1);
    let started = record.started.is_some();
    let earlier = record.counters;
    record.counters = kept_counters(&record, manager.context().work.recounts_encoding());
    record.progress.clear();
    record.state = RunState::Pending;
    let live = Arc::new(LiveRun::new(record, leadership, sequence));
    if started {
        live.progress
            .message("another replica continues this run; finished work is kept");
    }
    let id = live.record().id;
    manager.live_runs().insert(&id, Arc::clone(&live));
    let ticket = manager.queue().enter_accepted();
    let manager = manager.clone();
    tokio::spawn(async move {
        if let Some(reason) = cancel {
            live.cancel(&reason);
            return end_cancelled(&live).await;
        }
        let RunRecord { request, tenant, .. } = live.record();
        let context = manager.context().for_tenant(&tenant);
        let prepared = async {
            let context = context?;
            let plan = plan_again(&context, &request).await?;
            Ok::<_, RunError>((context, plan))
        };
        match live.cancel.run_until_cancelled(prepared).await {
            Some(Ok((context, mut plan))) => {
                let ceiling = &mut plan.stages.transform.ceiling;
                *ceiling = ceiling.continued(&earlier);
                live.progress.change(|record| {
                    let usage = both(record.trial, plan.stages.judge.as_ref().map(JudgePlan::trial_usage));
                    (record.trial, record.counters.judge) = (usage, usage);
                });
                manager.spawn(context, plan, live, ticket);
            }
            Some(Err(error)) => {
                let fault = Fault::from(error);
                let message = format!("the run could not be continued by another replica: {fault}");
                live.end(|record| record.fail(fault.code, message)).await;
            }
            None if live.interrupted() => drop(live.hand_back().await),
            None => end_cancelled(&live).await,
        }
    });
}

async fn end_cancelled(live: &LiveRun) {
    live.end(|record| record.cancel(live.reason())).await;
}

/// Plans a run again, with retries if a service does not respond.
async fn plan_again(context: &RunContext, request: &RunRequest) -> Result<Plan, RunError> {
    let mut tries = 1;
    loop {
        let error = match Box::pin(prepare::prepare(context, request)).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        if tries == TRIES || !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "a run that was taken over cannot be prepared; retrying");
        tries += 1;
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Whether an error of the preparation may be transient.
fn may_pass(error: &RunError) -> bool {
    let fault = match error {
        RunError::Encoder { fault, .. } | RunError::Transform { fault, .. } | RunError::Judge { fault, .. } => fault,
        RunError::Fleet(fault) | RunError::Memory(fault) => fault,
        RunError::Datasets { .. } => return true,
        _ => return false,
    };
    matches!(
        fault.code,
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
    )
}

/// The counts that a run keeps when another replica continues it. The usage of its generator and
/// its judge is counted again from the texts, which name the run that they were made for. Planned
/// and found texts are counted again as they occur. `recounted`: whether the usage of encoders is
/// counted again too.
fn kept_counters(record: &RunRecord, recounted: bool) -> Counters {
    if recounted {
        return Counters::default();
    }
    let before = record.counters;
    Counters {
        texts_encoded: before.texts_encoded,
        tokens_encoded: before.tokens_encoded,
        cost_nano_usd: before.cost_nano_usd,
        scores_computed: before.scores_computed,
        ..Counters::default()
    }
}

/// The combined usage of the trials before and after a change of the leader.
fn both(before: Option<JudgeCounters>, now: Option<JudgeCounters>) -> Option<JudgeCounters> {
    let (Some(before), Some(now)) = (before, now) else {
        return before.or(now);
    };
    Some(JudgeCounters {
        calls: before.calls + now.calls,
        tokens: before.tokens + now.tokens,
        generated_tokens: before.generated_tokens + now.generated_tokens,
        tokens_estimated: before.tokens_estimated || now.tokens_estimated,
        ..now
    })
}
