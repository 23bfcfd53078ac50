//! The workers and lanes of a fleet, as the page shows them.

use isomer_proto::eval::v1::{FleetLane, FleetWait, FleetWaitReason, FleetWorker, GetFleetResponse};
use prost_types::Timestamp;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct FleetView {
    workers: Vec<WorkerRow>,
    lanes: Vec<LaneRow>,
}

#[derive(Serialize)]
struct WorkerRow {
    name: String,
    version: String,
    arithmetic: String,
    /// Kinds of work, each with its maximum number of concurrent units.
    takes: String,
    since: String,
    work: Vec<String>,
}

#[derive(Serialize)]
struct LaneRow {
    name: String,
    arithmetic: String,
    workers: u32,
    queued: u64,
    in_work: u64,
    redelivered: u64,
    finished_per_second: String,
    calls: Option<String>,
    /// The reason why nothing is delivered.
    stopped: Option<String>,
}

/// The fleet's view; `None` if no workers process runs.
pub(super) fn view(fleet: &GetFleetResponse) -> Option<FleetView> {
    let now = fleet.time.as_ref().map_or(0, seconds);
    fleet.has_workers.then(|| FleetView {
        workers: fleet.workers.iter().map(|worker| worker_row(worker, now)).collect(),
        lanes: fleet.lanes.iter().map(lane_row).collect(),
    })
}

/// The reasons why a run waits, one line per lane. Lanes with units in progress come last.
pub(super) fn waits(fleet: &GetFleetResponse, run: &str) -> Vec<String> {
    let of_run = || fleet.waits.iter().filter(|wait| wait.run_id == run);
    let works = |wait: &&FleetWait| wait.reason() == FleetWaitReason::InWork;
    let line = |wait: &FleetWait| format!("{} with {} ({} units): {}", wait.kind, wait.of, wait.units, wait.detail);
    let waiting = of_run().filter(|wait| !works(wait)).map(line);
    waiting.chain(of_run().filter(works).map(line)).collect()
}

fn worker_row(worker: &FleetWorker, now: i64) -> WorkerRow {
    let id = worker.id.rsplit('-').next().unwrap_or_default();
    let mut kinds: Vec<(&String, &u32)> = worker.max_units.iter().collect();
    kinds.sort_unstable();
    let takes: Vec<String> = kinds.into_iter().map(|(kind, most)| format!("{kind} {most}")).collect();
    let work = worker.work.iter().map(|work| {
        let since = work.since.as_ref().map_or(now, seconds);
        format!(
            "{} with {}: {} for {}",
            work.kind,
            work.of,
            work.units,
            span(now - since)
        )
    });
    WorkerRow {
        name: match worker.host.as_str() {
            "" => id.to_owned(),
            host => format!("{host} ({id})"),
        },
        version: worker.version.clone(),
        arithmetic: worker.arithmetic.clone(),
        takes: takes.join(", "),
        since: worker.start_time.as_ref().map(moment).unwrap_or_default(),
        work: work.collect(),
    }
}

fn lane_row(lane: &FleetLane) -> LaneRow {
    let paused = lane.paused_until.as_ref().map(|until| {
        let said = if lane.paused_reason.is_empty() {
            String::new()
        } else {
            format!(": {}", lane.paused_reason)
        };
        format!("paused until {}{said}", moment(until))
    });
    let spent = (!lane.budget_reached.is_empty()).then(|| format!("budget spent: {}", lane.budget_reached));
    let unserved = (lane.workers == 0).then(|| "no worker".to_owned());
    LaneRow {
        name: format!("{} with {}", lane.kind, lane.of),
        arithmetic: lane.arithmetic.clone(),
        workers: lane.workers,
        queued: lane.queued,
        in_work: lane.in_work,
        redelivered: lane.redelivered,
        finished_per_second: format!("{:.2}", lane.finished_per_second),
        calls: (lane.max_calls > 0).then(|| format!("{} of {}", lane.calls, lane.max_calls)),
        stopped: paused.or(spent).or(unserved),
    }
}

fn seconds(time: &Timestamp) -> i64 {
    time.seconds
}

fn moment(time: &Timestamp) -> String {
    let time = jiff::Timestamp::new(time.seconds, time.nanos).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `5 s`, `3 min`, `2 h`.
fn span(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;

    use isomer_proto::eval::v1::FleetWork;

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn wait(run: &str, reason: FleetWaitReason, detail: &str) -> FleetWait {
        FleetWait {
            run_id: run.to_owned(),
            kind: "encode".to_owned(),
            of: "mini".to_owned(),
            units: 3,
            reason: reason.into(),
            detail: detail.to_owned(),
            ..FleetWait::default()
        }
    }

    #[test]
    fn a_server_that_does_the_work_itself_has_no_fleet_to_show() {
        assert!(view(&GetFleetResponse::default()).is_none());
        let empty = GetFleetResponse {
            has_workers: true,
            ..GetFleetResponse::default()
        };
        assert!(view(&empty).unwrap().workers.is_empty());
    }

    #[test]
    fn a_worker_shows_what_it_does_and_since_when() {
        let fleet = GetFleetResponse {
            has_workers: true,
            time: at(1000),
            workers: vec![FleetWorker {
                id: "018f-aa".to_owned(),
                host: "machine".to_owned(),
                start_time: at(0),
                max_units: HashMap::from([("transform".to_owned(), 4), ("encode".to_owned(), 2)]),
                work: vec![FleetWork {
                    kind: "encode".to_owned(),
                    of: "mini".to_owned(),
                    units: 2,
                    since: at(700),
                }],
                ..FleetWorker::default()
            }],
            ..GetFleetResponse::default()
        };
        let shown = view(&fleet).unwrap();
        let row = &shown.workers[0];
        assert_eq!(
            (row.name.as_str(), row.takes.as_str()),
            ("machine (aa)", "encode 2, transform 4")
        );
        assert_eq!(row.since, "1970-01-01 00:00:00 UTC");
        assert_eq!(row.work, ["encode with mini: 2 for 5 min"]);
    }

    #[test]
    fn a_lane_says_why_nothing_is_delivered() {
        let stopped = |lane: FleetLane| lane_row(&lane).stopped;
        let lane = || FleetLane {
            workers: 1,
            ..FleetLane::default()
        };
        assert_eq!(stopped(lane()), None);
        assert_eq!(stopped(FleetLane::default()), Some("no worker".to_owned()));
        let spent = FleetLane {
            budget_reached: "5 of 5 requests".to_owned(),
            ..lane()
        };
        assert_eq!(stopped(spent), Some("budget spent: 5 of 5 requests".to_owned()));
        let paused = FleetLane {
            paused_until: at(60),
            paused_reason: "429".to_owned(),
            ..lane()
        };
        assert_eq!(
            stopped(paused),
            Some("paused until 1970-01-01 00:01:00 UTC: 429".to_owned())
        );
    }

    #[test]
    fn a_run_shows_its_own_waits_and_those_that_hold_it_back_first() {
        let fleet = GetFleetResponse {
            waits: vec![
                wait("a", FleetWaitReason::InWork, "workers do it now"),
                wait("b", FleetWaitReason::Paused, "another run"),
                wait("a", FleetWaitReason::NoWorker, "no worker"),
            ],
            ..GetFleetResponse::default()
        };
        assert_eq!(
            waits(&fleet, "a"),
            [
                "encode with mini (3 units): no worker",
                "encode with mini (3 units): workers do it now"
            ]
        );
    }
}
