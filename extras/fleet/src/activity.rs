//! The current and recent activity of a worker, lane by lane.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    time::millis,
    unit::{Address, Kind, Lane},
};

/// Period over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(60);

/// The activity of a worker in one lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneActivity {
    /// Name of the lane in the queue.
    pub lane: String,
    /// Its kind of work.
    pub kind: Kind,
    /// Its generator or encoder.
    pub of: String,
    /// Number of units in progress.
    pub units: usize,
    /// How long the oldest of them has been in progress.
    pub oldest_millis: u64,
    /// Number of units that this worker finished recently.
    pub finished: u64,
    /// The length of that period.
    pub over_millis: u64,
}

/// The units of a worker. The current time is passed in.
#[derive(Debug)]
pub(crate) struct Activity {
    started: Instant,
    running: HashMap<Address, (String, Instant)>,
    lanes: HashMap<String, LaneHistory>,
}

/// A lane from which units were taken.
#[derive(Debug)]
struct LaneHistory {
    kind: Kind,
    of: String,
    /// When units finished, within the period.
    finished: VecDeque<Instant>,
}

impl Activity {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            started: now,
            running: HashMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Records the start of a unit.
    pub(crate) fn begin(&mut self, lane: &Lane, unit: &Address, now: Instant) {
        let name = lane.name();
        self.lanes.entry(name.clone()).or_insert_with(|| LaneHistory {
            kind: lane.kind,
            of: lane.resource().to_owned(),
            finished: VecDeque::new(),
        });
        self.running.insert(unit.clone(), (name, now));
    }

    /// Records the end of a unit; `finished`: it ended with an answer.
    pub(crate) fn end(&mut self, unit: &Address, finished: bool, now: Instant) {
        let Some((lane, _)) = self.running.remove(unit) else {
            return;
        };
        if let Some(seen) = self.lanes.get_mut(&lane).filter(|_| finished) {
            seen.finished.push_back(now);
        }
    }

    /// How long the worker has been running.
    pub(crate) fn up(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Lanes with units in progress, or with units that finished within the period, by name.
    pub(crate) fn lanes(&mut self, now: Instant) -> Vec<LaneActivity> {
        let over = self.up(now).min(WINDOW);
        let mut lanes: Vec<LaneActivity> = Vec::new();
        for (name, seen) in &mut self.lanes {
            while seen
                .finished
                .front()
                .is_some_and(|at| now.saturating_duration_since(*at) > WINDOW)
            {
                seen.finished.pop_front();
            }
            let begun = self.running.values().filter(|(lane, _)| lane == name);
            let ages: Vec<Duration> = begun.map(|(_, at)| now.saturating_duration_since(*at)).collect();
            if ages.is_empty() && seen.finished.is_empty() {
                continue;
            }
            lanes.push(LaneActivity {
                lane: name.clone(),
                kind: seen.kind,
                of: seen.of.clone(),
                units: ages.len(),
                oldest_millis: millis(ages.into_iter().max().unwrap_or_default()),
                finished: seen.finished.len() as u64,
                over_millis: millis(over),
            });
        }
        // A lane without recent activity is forgotten.
        let kept: Vec<&str> = lanes.iter().map(|lane| lane.lane.as_str()).collect();
        self.lanes.retain(|name, _| kept.contains(&name.as_str()));
        lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(of: &str) -> Lane {
        Lane {
            kind: Kind::Encode,
            of: of.to_owned(),
            class: "avx2".to_owned(),
            max_in_flight: 0,
            limit: String::new(),
        }
    }

    fn unit(byte: u8) -> Address {
        Address::from(isomer_retention::Digest::from([byte; 32]))
    }

    #[test]
    fn a_lane_tells_its_units_the_age_of_the_oldest_and_what_finished_within_the_window() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut activity = Activity::new(start);
        activity.begin(&lane("mini space"), &unit(1), at(1));
        activity.begin(&lane("mini space"), &unit(2), at(3));
        activity.begin(&lane("other space"), &unit(3), at(4));
        let reported = activity.lanes(at(10));
        let mini = reported
            .iter()
            .find(|lane| lane.of == "mini")
            .map(|lane| (lane.units, lane.oldest_millis));
        assert_eq!((reported.len(), mini), (2, Some((2, 9_000))));
        // Units that were handed back do not count as finished.
        activity.end(&unit(1), true, at(20));
        activity.end(&unit(2), false, at(20));
        activity.end(&unit(3), true, at(20));
        let reported = activity.lanes(at(30));
        let mini = reported
            .iter()
            .find(|lane| lane.of == "mini")
            .map(|lane| (lane.units, lane.finished, lane.over_millis));
        assert_eq!(mini, Some((0, 1, 30_000)));
        assert!(activity.lanes(at(81)).is_empty(), "all of it is older than the window");
        assert_eq!(activity.up(at(81)), Duration::from_secs(81));
    }

    #[test]
    fn a_unit_that_was_never_begun_ends_without_effect() {
        let start = Instant::now();
        let mut activity = Activity::new(start);
        activity.end(&unit(1), true, start);
        assert!(activity.lanes(start).is_empty());
    }
}
