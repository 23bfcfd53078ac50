//! The fleet as a proto message.

use std::collections::BTreeSet;

use isomer_fleet::{LaneState, Overview, RunWaits, Wait, WorkerState};
use isomer_proto::eval::v1 as proto;
use isomer_service_kit::Fault;
use proto::FleetWaitReason as Reason;

use crate::run::RunManager;

/// The workers and lanes that this viewer may see.
pub(super) async fn get(runs: &RunManager, viewer: Option<&str>) -> Result<proto::GetFleetResponse, Fault> {
    Ok(match (runs.fleet(viewer).await?, viewer) {
        (None, _) => proto::GetFleetResponse::default(),
        (Some(overview), None) => response(overview),
        (Some(overview), Some(_)) => response(for_owner(overview)),
    })
}

/// The overview for a caller that sees only its own runs: the lanes that these wait for, and no
/// hosts. The runs of others have already been removed.
fn for_owner(mut overview: Overview) -> Overview {
    let waited: BTreeSet<String> = overview.runs.iter().map(|run| run.waits.lane.name()).collect();
    overview.lanes.retain(|state| waited.contains(&state.lane.name()));
    for worker in &mut overview.workers {
        worker.info.host.clear();
        // The worker's lanes for other callers' runs are removed.
        worker.info.lanes.retain(|lane| waited.contains(&lane.lane));
    }
    overview
}

/// A fleet of workers.
pub fn response(overview: Overview) -> proto::GetFleetResponse {
    proto::GetFleetResponse {
        has_workers: true,
        time: timestamp(overview.now),
        workers: overview.workers.into_iter().map(worker).collect(),
        lanes: overview.lanes.into_iter().map(lane).collect(),
        waits: overview.runs.into_iter().map(wait).collect(),
    }
}

fn timestamp(millis: u64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: i64::try_from(millis / 1000).ok()?,
        nanos: i32::try_from(millis % 1000).ok()? * 1_000_000,
    })
}

fn bounded(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn worker(worker: WorkerState) -> proto::FleetWorker {
    let info = worker.info;
    let working = info.lanes.into_iter().filter(|lane| lane.units > 0);
    proto::FleetWorker {
        start_time: timestamp(worker.since),
        work: working
            .map(|lane| proto::FleetWork {
                kind: lane.kind.to_string(),
                of: lane.of,
                units: bounded(lane.units),
                since: timestamp(worker.reported.saturating_sub(lane.oldest_millis)),
            })
            .collect(),
        id: info.id,
        host: info.host,
        version: info.version,
        arithmetic: info.class,
        max_units: info
            .kinds
            .into_iter()
            .map(|(kind, most)| (kind.to_string(), bounded(most)))
            .collect(),
    }
}

fn lane(state: LaneState) -> proto::FleetLane {
    let limit = state.limit.unwrap_or_default();
    let paused_until = state.paused_until.max(limit.paused_until);
    proto::FleetLane {
        kind: state.lane.kind.to_string(),
        of: state.lane.resource().to_owned(),
        arithmetic: state.lane.class,
        workers: bounded(state.workers),
        queued: state.queued,
        in_work: state.in_work,
        redelivered: state.redelivered,
        finished_per_second: state.finished_per_second,
        paused_until: paused_until.and_then(timestamp),
        paused_reason: match paused_until {
            Some(_) => limit.paused_why,
            None => String::new(),
        },
        calls: bounded(limit.calls),
        max_calls: bounded(limit.most_calls),
        budget_reached: limit.reached.unwrap_or_default(),
    }
}

fn wait(run: RunWaits) -> proto::FleetWait {
    let lane = run.waits.lane;
    let (reason, detail) = in_words(&run.why, lane.kind.name(), &lane.class);
    proto::FleetWait {
        run_id: run.run,
        kind: lane.kind.to_string(),
        of: lane.resource().to_owned(),
        arithmetic: lane.class,
        units: run.waits.units,
        reason: reason.into(),
        detail,
    }
}

/// The reason, as a value and as a sentence with the remedy.
fn in_words(why: &Wait, kind: &str, class: &str) -> (Reason, String) {
    match why {
        Wait::NoWorker => (
            Reason::NoWorker,
            format!("no worker takes `{kind}`: start one with isomer worker --lanes {kind}=1"),
        ),
        Wait::OtherVersion(versions) => (
            Reason::Version,
            format!(
                "workers that take `{kind}` are of version {}, and this needs {}: start workers of it",
                versions.join(", "),
                env!("CARGO_PKG_VERSION")
            ),
        ),
        Wait::OtherClass(classes) => (
            Reason::Arithmetic,
            format!(
                "workers that take `{kind}` compute in the class {}, and this needs {class}: start one on a machine of that kind",
                classes.join(", ")
            ),
        ),
        Wait::Paused { until, why } => {
            let until = i64::try_from(*until)
                .ok()
                .and_then(|until| jiff::Timestamp::from_millisecond(until).ok());
            let until = until.unwrap_or_default().strftime("%H:%M:%S UTC");
            let said = if why.is_empty() {
                String::new()
            } else {
                format!(", it said: {why}")
            };
            (
                Reason::Paused,
                format!("the generator asked not to be called before {until}{said}"),
            )
        }
        Wait::Budget(what) => (
            Reason::Budget,
            format!("the budget of the generator is spent ({what}): raise it, or wait for its next period"),
        ),
        Wait::Concurrency(most) => (
            Reason::Concurrency,
            format!("all {most} calls that the generator's limit allows are in flight"),
        ),
        Wait::Busy(places) => (
            Reason::Busy,
            format!("workers have as many units as they take at once ({places}): start more, or raise --lanes"),
        ),
        Wait::Nothing => (Reason::InWork, "workers do it now".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use isomer_fleet::{Kind, Lane, LaneActivity, Waits, WorkerInfo};

    use super::*;

    fn lane_of(of: &str) -> Lane {
        Lane {
            kind: Kind::Encode,
            of: format!("{of} space"),
            class: "avx2".to_owned(),
            max_in_flight: 0,
            limit: String::new(),
        }
    }

    fn fleet() -> Overview {
        let state = |of| LaneState {
            lane: lane_of(of),
            queued: 2,
            in_work: 1,
            redelivered: 0,
            paused_until: Some(5_250),
            workers: 1,
            finished_per_second: 0.5,
            limit: None,
        };
        let activity = |of: &str| LaneActivity {
            lane: lane_of(of).name(),
            kind: Kind::Encode,
            of: of.to_owned(),
            units: 1,
            oldest_millis: 1_500,
            finished: 30,
            over_millis: 60_000,
        };
        Overview {
            now: 5_000,
            workers: vec![WorkerState {
                info: WorkerInfo {
                    id: "one".to_owned(),
                    host: "machine".to_owned(),
                    version: "0.1.0".to_owned(),
                    class: "avx2".to_owned(),
                    kinds: BTreeMap::from([(Kind::Encode, 2)]),
                    up_millis: 4_000,
                    lanes: vec![activity("mini"), activity("other")],
                },
                since: 1_000,
                reported: 4_500,
            }],
            lanes: vec![state("mini"), state("other")],
            runs: vec![RunWaits {
                run: "run".to_owned(),
                waits: Waits {
                    lane: lane_of("mini"),
                    units: 3,
                },
                why: Wait::Busy(2),
            }],
        }
    }

    #[test]
    fn an_owner_of_runs_sees_no_host_and_no_lane_of_others_and_an_administrator_does() {
        let all = response(fleet());
        assert_eq!(
            (all.lanes.len(), all.workers[0].host.as_str(), all.workers[0].work.len()),
            (2, "machine", 2)
        );
        let own = response(for_owner(fleet()));
        assert_eq!(
            (own.lanes.len(), own.workers[0].host.as_str(), own.workers[0].work.len()),
            (1, "", 1)
        );
        assert_eq!(own.lanes[0].of, "mini");
        assert_eq!((own.waits[0].units, own.waits[0].reason()), (3, Reason::Busy));
    }

    #[test]
    fn times_are_those_of_the_queue() {
        let reported = response(fleet());
        let worker = &reported.workers[0];
        let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        assert_eq!(worker.start_time, at(1, 0));
        assert_eq!(worker.work[0].since, at(3, 0));
        assert_eq!(reported.lanes[0].paused_until, at(5, 250_000_000));
    }

    #[test]
    fn every_reason_says_what_helps_or_until_when() {
        for (why, reason, says) in [
            (Wait::NoWorker, Reason::NoWorker, "--lanes encode=1"),
            (Wait::OtherVersion(vec!["0.0.9".to_owned()]), Reason::Version, "0.0.9"),
            (
                Wait::OtherClass(vec!["avx512".to_owned()]),
                Reason::Arithmetic,
                "needs avx2",
            ),
            (
                Wait::Paused {
                    until: 3_600_000,
                    why: "429 Too Many Requests".to_owned(),
                },
                Reason::Paused,
                "01:00:00 UTC, it said: 429",
            ),
            (
                Wait::Budget("5 of 5 requests".to_owned()),
                Reason::Budget,
                "5 of 5 requests",
            ),
            (Wait::Concurrency(4), Reason::Concurrency, "all 4 calls"),
            (Wait::Busy(2), Reason::Busy, "(2)"),
            (Wait::Nothing, Reason::InWork, "now"),
        ] {
            let (reported, words) = in_words(&why, "encode", "avx2");
            assert_eq!(reported, reason);
            assert!(words.contains(says), "{words}");
        }
    }
}
