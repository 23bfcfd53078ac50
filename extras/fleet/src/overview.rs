//! The current state of a fleet: its workers, its lanes, and the reasons why runs wait.
//!
//! All times are those of the broker, in milliseconds since 1970, because clocks of machines may
//! differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    limits::{self, LimitState},
    queue::{FleetError, Queue},
    time::millis,
    unit::{Lane, Waits},
    worker_info::WorkerInfo,
};

/// A fleet at one moment.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// The time of the overview.
    pub now: u64,
    /// Registered workers, by id.
    pub workers: Vec<WorkerState>,
    /// Lanes of this version with units, a pause or a waiting run, and lanes with recent activity
    /// of a worker; by name.
    pub lanes: Vec<LaneState>,
    pub runs: Vec<RunWaits>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerState {
    /// Its own record.
    pub info: WorkerInfo,
    /// When it was started.
    pub since: u64,
    /// When the record was written.
    pub reported: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LaneState {
    pub lane: Lane,
    /// Number of waiting units.
    pub queued: u64,
    /// Number of units that workers have begun.
    pub in_work: u64,
    /// Number of these that were delivered before.
    pub redelivered: u64,
    /// End of its pause in delivery.
    pub paused_until: Option<u64>,
    /// Number of workers that take its units.
    pub workers: usize,
    /// Number of units that workers finish per second, over their last minute.
    pub finished_per_second: f64,
    /// The limit of its generator, if processes share one.
    pub limit: Option<LimitState>,
}

/// The wait of a run in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunWaits {
    pub run: String,
    /// The lane, and the number of its units that the run has requested.
    pub waits: Waits,
    /// The reason why the next of them waits.
    pub why: Wait,
}

/// The reason why the next unit of a lane waits. The first that applies is reported, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// No worker takes this kind of work.
    NoWorker,
    /// Only workers of these other versions take it.
    OtherVersion(Vec<String>),
    /// Only workers of these other classes of arithmetic take it.
    OtherClass(Vec<String>),
    /// The generator requested a pause until a time, with its message.
    Paused { until: u64, why: String },
    /// A budget is spent; the value names it.
    Budget(String),
    /// The maximum number of calls is in flight.
    Concurrency(usize),
    /// Every worker of the lane has its maximum number of concurrent units; the value is their
    /// total.
    Busy(usize),
    /// No wait: workers have units of the lane in progress, or take them now.
    Nothing,
}

impl Wait {
    /// The reason why the next unit of a lane waits.
    pub(crate) fn of(lane: &LaneState, workers: &[WorkerState], now: u64) -> Self {
        let kind = lane.lane.kind;
        let infos = || workers.iter().map(|worker| &worker.info);
        let accepting: Vec<&WorkerInfo> = infos().filter(|worker| worker.accepts(&lane.lane)).collect();
        if accepting.is_empty() {
            let of_kind = || infos().filter(|worker| worker.kinds.contains_key(&kind));
            let named = |names: BTreeSet<&String>| names.into_iter().cloned().collect();
            let version = env!("CARGO_PKG_VERSION");
            let classes: BTreeSet<&String> = of_kind()
                .filter(|worker| worker.version == version)
                .map(|worker| &worker.class)
                .collect();
            if !classes.is_empty() {
                return Self::OtherClass(named(classes));
            }
            let versions: BTreeSet<&String> = of_kind().map(|worker| &worker.version).collect();
            return match versions.is_empty() {
                true => Self::NoWorker,
                false => Self::OtherVersion(named(versions)),
            };
        }
        let limit = lane.limit.clone().unwrap_or_default();
        if let Some(until) = lane.paused_until.max(limit.paused_until).filter(|until| *until > now) {
            return Self::Paused {
                until,
                why: limit.paused_why,
            };
        }
        if let Some(what) = limit.reached {
            return Self::Budget(what);
        }
        if limit.most_calls > 0 && limit.calls >= limit.most_calls {
            return Self::Concurrency(limit.most_calls);
        }
        let places: usize = accepting.iter().filter_map(|worker| worker.kinds.get(&kind)).sum();
        let taken = |worker: &&WorkerInfo| -> usize {
            let of_kind = worker.lanes.iter().filter(|lane| lane.kind == kind);
            of_kind.map(|lane| lane.units).sum()
        };
        if lane.queued > 0 && accepting.iter().map(taken).sum::<usize>() >= places {
            return Self::Busy(places);
        }
        Self::Nothing
    }
}

impl Queue {
    /// The current state of the fleet.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn overview(&self) -> Result<Overview, FleetError> {
        let now = self.now().await?;
        let workers: Vec<WorkerState> = self
            .present_workers()
            .await?
            .into_iter()
            .map(|(info, reported)| WorkerState {
                since: reported.saturating_sub(info.up_millis),
                info,
                reported,
            })
            .collect();
        let runs = self.runs().await?;
        let mut lanes: BTreeMap<String, LaneState> = BTreeMap::new();
        for lane in self.all_lanes().await? {
            // A lane whose consumer is gone is created again by the run that needs it.
            let Ok(consumer) = self.consumer(&lane).await else {
                continue;
            };
            let info = consumer.cached_info();
            let left = info.pause_remaining.filter(|_| info.paused);
            let mut state = LaneState::empty(lane);
            state.queued = info.num_pending;
            state.in_work = info.num_ack_pending as u64;
            state.redelivered = info.num_redelivered as u64;
            state.paused_until = left.map(|left| now.saturating_add(millis(left)));
            lanes.insert(state.lane.name(), state);
        }
        for waits in runs.values().flatten() {
            let name = waits.lane.name();
            lanes
                .entry(name)
                .or_insert_with(|| LaneState::empty(waits.lane.clone()));
        }
        let keys: BTreeSet<&str> = lanes
            .values()
            .map(|state| state.lane.limit.as_str())
            .filter(|key| !key.is_empty())
            .collect();
        let limits = limits::states(self, &keys).await?;
        for (name, state) in &mut lanes {
            state.limit = limits.get(&state.lane.limit).cloned();
            state.workers = workers.iter().filter(|worker| worker.info.accepts(&state.lane)).count();
            let reported = workers.iter().flat_map(|worker| &worker.info.lanes);
            state.finished_per_second = reported
                .filter(|reported| reported.lane == *name && reported.over_millis > 0)
                .map(|reported| reported.finished as f64 / Duration::from_millis(reported.over_millis).as_secs_f64())
                .sum();
        }
        let mut waiting = Vec::new();
        for (run, waits) in runs {
            for waits in waits {
                if let Some(lane) = lanes.get(&waits.lane.name()) {
                    let why = Wait::of(lane, &workers, now);
                    let run = run.clone();
                    waiting.push(RunWaits { run, waits, why });
                }
            }
        }
        let waited: BTreeSet<String> = waiting.iter().map(|waiting| waiting.waits.lane.name()).collect();
        let worked: BTreeSet<&str> = workers
            .iter()
            .flat_map(|worker| &worker.info.lanes)
            .map(|lane| lane.lane.as_str())
            .collect();
        lanes.retain(|name, state| {
            let busy = state.queued + state.in_work > 0 || state.paused_until.is_some();
            busy || waited.contains(name) || worked.contains(name.as_str())
        });
        Ok(Overview {
            now,
            workers,
            lanes: lanes.into_values().collect(),
            runs: waiting,
        })
    }
}

impl LaneState {
    fn empty(lane: Lane) -> Self {
        Self {
            lane,
            queued: 0,
            in_work: 0,
            redelivered: 0,
            paused_until: None,
            workers: 0,
            finished_per_second: 0.0,
            limit: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{activity::LaneActivity, unit::Kind};

    const NOW: u64 = 1_000_000;

    fn lane() -> LaneState {
        let lane = Lane {
            kind: Kind::Encode,
            of: "mini".to_owned(),
            class: "avx2".to_owned(),
            max_in_flight: 0,
            limit: "key".to_owned(),
        };
        LaneState {
            queued: 3,
            ..LaneState::empty(lane)
        }
    }

    /// A worker with two places, one of which is taken.
    fn worker(kind: Kind, class: &str) -> WorkerState {
        let mut info = WorkerInfo::here(class, &BTreeMap::from([(kind, 2)]));
        info.lanes = vec![LaneActivity {
            lane: "another".to_owned(),
            kind,
            of: "other".to_owned(),
            units: 1,
            oldest_millis: 0,
            finished: 0,
            over_millis: 1,
        }];
        WorkerState {
            info,
            since: 0,
            reported: NOW,
        }
    }

    fn limited(limit: LimitState) -> LaneState {
        LaneState {
            limit: Some(limit),
            ..lane()
        }
    }

    #[test]
    fn a_lane_without_workers_says_whether_the_kind_the_class_or_the_version_is_missing() {
        assert_eq!(Wait::of(&lane(), &[], NOW), Wait::NoWorker);
        assert_eq!(Wait::of(&lane(), &[worker(Kind::Judge, "avx2")], NOW), Wait::NoWorker);
        let mut old = worker(Kind::Encode, "avx2");
        old.info.version = "0.0.9".to_owned();
        assert_eq!(
            Wait::of(&lane(), std::slice::from_ref(&old), NOW),
            Wait::OtherVersion(vec!["0.0.9".to_owned()])
        );
        let other = [old, worker(Kind::Encode, "avx512"), worker(Kind::Encode, "avx512")];
        assert_eq!(
            Wait::of(&lane(), &other, NOW),
            Wait::OtherClass(vec!["avx512".to_owned()])
        );
        // The duplicate: one worker of the lane is enough.
        assert_eq!(Wait::of(&lane(), &[worker(Kind::Encode, "avx2")], NOW), Wait::Nothing);
    }

    #[test]
    fn a_pause_a_spent_budget_and_calls_in_flight_hold_a_lane_back_and_others_do_not() {
        let workers = [worker(Kind::Encode, "avx2")];
        let paused = LimitState {
            paused_until: Some(NOW + 1),
            paused_why: "429".to_owned(),
            ..LimitState::default()
        };
        assert_eq!(
            Wait::of(&limited(paused.clone()), &workers, NOW),
            Wait::Paused {
                until: NOW + 1,
                why: "429".to_owned()
            }
        );
        assert_eq!(
            Wait::of(&limited(paused), &workers, NOW + 1),
            Wait::Nothing,
            "the pause is over"
        );
        let spent = LimitState {
            reached: Some("5 of 5 requests".to_owned()),
            ..LimitState::default()
        };
        assert_eq!(
            Wait::of(&limited(spent), &workers, NOW),
            Wait::Budget("5 of 5 requests".to_owned())
        );
        let calls = |calls| LimitState {
            most_calls: 4,
            calls,
            ..LimitState::default()
        };
        assert_eq!(Wait::of(&limited(calls(4)), &workers, NOW), Wait::Concurrency(4));
        assert_eq!(
            Wait::of(&limited(calls(3)), &workers, NOW),
            Wait::Nothing,
            "one is free"
        );
    }

    #[test]
    fn a_lane_whose_workers_are_all_busy_waits_for_a_place() {
        let mut full = worker(Kind::Encode, "avx2");
        full.info.lanes[0].units = 2;
        assert_eq!(Wait::of(&lane(), std::slice::from_ref(&full), NOW), Wait::Busy(2));
        let emptied = LaneState { queued: 0, ..lane() };
        assert_eq!(Wait::of(&emptied, std::slice::from_ref(&full), NOW), Wait::Nothing);
        let two = [full, worker(Kind::Encode, "avx2")];
        assert_eq!(Wait::of(&lane(), &two, NOW), Wait::Nothing, "one place is free");
    }
}
