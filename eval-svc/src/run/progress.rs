//! Progress of a run and of its stages, with the estimated remaining time.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use isomer_proto::common::v1::Usage;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::run::{
    events::{EventKind, EventLog},
    record::{Counters, RunRecord, Stage, StageProgress},
};

/// Window for measuring the rate, so that it follows a generator that slows down.
const WINDOW: Duration = Duration::from_secs(30);
/// Minimum duration of the observed work before an estimate is given.
const MIN_OBSERVED: Duration = Duration::from_millis(500);
/// Minimum interval between two progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// The record and the events of a run, as its stages change them.
#[derive(Debug)]
pub(crate) struct RunProgress {
    pub(crate) record: Mutex<RunRecord>,
    pub(crate) events: EventLog,
    pub(crate) changed: Notify,
}

impl RunProgress {
    /// The progress of a run whose events continue after a sequence number.
    pub(crate) fn new(record: RunRecord, after: u64) -> Self {
        Self {
            record: Mutex::new(record),
            events: EventLog::starting_after(after),
            changed: Notify::new(),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        change(&mut self.record.lock());
        self.changed.notify_one();
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.record.lock().counters);
        self.changed.notify_one();
    }

    /// Counts texts that an encoder encoded.
    pub(crate) fn encoded(&self, texts: u64, usage: &Usage) {
        self.count(|counters| {
            counters.texts_encoded += texts;
            counters.tokens_encoded = counters.tokens_encoded.saturating_add(usage.tokens);
            counters.cost_nano_usd = counters.cost_nano_usd.saturating_add(usage.cost_nano_usd);
        });
    }

    /// The run's counters so far.
    pub(crate) fn counters(&self) -> Counters {
        self.record.lock().counters
    }

    /// Sends a message for a human reader to the watchers.
    pub(crate) fn message(&self, text: impl Into<String>) {
        self.events.push(Timestamp::now(), EventKind::Message(text.into()));
        self.changed.notify_one();
    }

    /// Reports a stage's progress, at most a few times per second.
    pub(crate) fn report(&self, meter: &mut Meter) {
        if let Some(progress) = meter.due(Instant::now()) {
            self.report_now(progress);
        }
    }

    fn report_now(&self, progress: StageProgress) {
        {
            let mut record = self.record.lock();
            match record.progress.iter_mut().find(|known| known.stage == progress.stage) {
                Some(known) => *known = progress.clone(),
                None => {
                    record.progress.push(progress.clone());
                    record.progress.sort_by_key(|known| known.stage);
                }
            }
        }
        self.events.push(Timestamp::now(), EventKind::Progress(progress));
        self.changed.notify_one();
    }

    /// Reports the start (`done` 0) or the end (`done` 1) of a stage with a single step.
    pub(crate) fn step(&self, stage: Stage, done: u64, detail: &str) {
        self.report_now(StageProgress {
            stage,
            done,
            total: 1,
            cached: 0,
            remaining_seconds: (done == 1).then_some(0.0),
            detail: detail.to_owned(),
        });
    }
}

/// Counts one stage's units. The clock is an argument.
#[derive(Debug)]
pub(crate) struct Meter {
    stage: Stage,
    done: u64,
    total: u64,
    cached: u64,
    failed: u64,
    detail: String,
    /// Times, with the number of units completed by then that did not come from a store.
    marks: VecDeque<(Instant, u64)>,
    reported: Option<Instant>,
}

impl Meter {
    /// A stage with `total` units, none done.
    pub(crate) fn new(stage: Stage, total: u64, now: Instant) -> Self {
        let marks = VecDeque::from([(now, 0)]);
        Self {
            stage,
            done: 0,
            total,
            cached: 0,
            failed: 0,
            detail: String::new(),
            marks,
            reported: None,
        }
    }

    /// Adds units that were not known before.
    pub(crate) fn grow(&mut self, more: u64) {
        self.total += more;
    }

    /// Sets the description of the current work.
    pub(crate) fn detail(&mut self, detail: impl Into<String>) {
        self.detail = detail.into();
    }

    /// Adds units, already counted as completed, that gave no result.
    pub(crate) fn fail(&mut self, failed: u64) {
        self.failed += failed;
    }

    /// Adds completed units; `cached` of them came from a store.
    pub(crate) fn add(&mut self, done: u64, cached: u64, now: Instant) {
        self.done += done;
        self.cached += cached;
        self.marks.push_back((now, self.done.saturating_sub(self.cached)));
        while self.marks.len() > 2
            && self
                .marks
                .get(1)
                .is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.marks.pop_front();
        }
    }

    /// Remaining time at the rate of the window; `None` while only stored units have been seen.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let left = self.total.saturating_sub(self.done);
        if left == 0 {
            return Some(Duration::ZERO);
        }
        let ((from, before), (to, after)) = (self.marks.front()?, self.marks.back()?);
        let (seen, made) = (to.duration_since(*from), after.saturating_sub(*before));
        if seen < MIN_OBSERVED || made == 0 {
            return None;
        }
        Some(seen.mul_f64(left as f64 / made as f64))
    }

    /// Progress, if a report is due: at the start, at the end, and a few times per second in
    /// between.
    pub(crate) fn due(&mut self, now: Instant) -> Option<StageProgress> {
        let waited = self
            .reported
            .is_none_or(|reported| now.duration_since(reported) >= REPORT_INTERVAL);
        if !waited && self.done < self.total {
            return None;
        }
        self.reported = Some(now);
        Some(self.snapshot())
    }

    /// The current progress.
    pub(crate) fn snapshot(&self) -> StageProgress {
        StageProgress {
            stage: self.stage,
            done: self.done,
            total: self.total,
            cached: self.cached,
            remaining_seconds: self.remaining().map(|left| left.as_secs_f64()),
            detail: match self.failed {
                0 => self.detail.clone(),
                failed => format!("{failed} failed, {}", self.detail),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_estimate_is_the_rate_of_new_work_and_leaves_out_what_was_cached() {
        let start = Instant::now();
        let mut meter = Meter::new(Stage::Transform, 100, start);
        meter.add(40, 40, start + Duration::from_secs(1));
        assert_eq!(meter.remaining(), None, "cached units say nothing about the rate");
        meter.add(10, 0, start + Duration::from_secs(5));
        // 10 new units in 5 s, 50 left.
        assert_eq!(meter.remaining().unwrap(), Duration::from_secs(25));
    }

    #[test]
    fn the_estimate_forgets_what_lies_before_the_window() {
        let start = Instant::now();
        let mut meter = Meter::new(Stage::Encode, 1_000, start);
        meter.add(500, 0, start + Duration::from_secs(1));
        for second in 2..=100 {
            meter.add(1, 0, start + Duration::from_secs(second));
        }
        let left = meter.remaining().unwrap().as_secs_f64();
        assert!(
            (left - 401.0).abs() < 15.0,
            "1 unit a second, 401 left, reported {left}"
        );
    }

    #[test]
    fn failed_units_stand_in_the_detail() {
        let start = Instant::now();
        let mut meter = Meter::new(Stage::Transform, 3, start);
        meter.detail("paraphrase, seed 1");
        meter.add(1, 0, start);
        assert_eq!(meter.snapshot().detail, "paraphrase, seed 1");
        meter.fail(1);
        assert_eq!(meter.snapshot().detail, "1 failed, paraphrase, seed 1");
    }

    #[test]
    fn progress_is_reported_sparingly_but_the_end_always() {
        let start = Instant::now();
        let mut meter = Meter::new(Stage::Score, 2, start);
        assert!(meter.due(start).is_some());
        meter.add(1, 0, start + Duration::from_millis(1));
        assert!(meter.due(start + Duration::from_millis(1)).is_none());
        meter.add(1, 0, start + Duration::from_millis(2));
        assert_eq!(meter.due(start + Duration::from_millis(2)).unwrap().done, 2);
    }
}
