//! The events of a run, for the callers that watch it.

use std::collections::VecDeque;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::run::record::{RunRecord, StageProgress};

/// Number of events kept. A watcher that is further behind misses the oldest events. Progress is
/// sent at most a few times per second.
pub(crate) const MAX_EVENTS: usize = 8_192;

/// One event.
#[derive(Debug, Clone)]
pub struct Event {
    /// Counted from 1 within the run.
    pub sequence: u64,
    /// Time of the event.
    pub time: Timestamp,
    /// The event's content.
    pub kind: EventKind,
}

/// The content of an event.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A stage made progress.
    Progress(StageProgress),
    /// A message for a human reader.
    Message(String),
    /// The run in its final state; the last event.
    Ended(Box<RunRecord>),
}

/// Events of one run. Writers never wait; watchers read the new events at their own speed.
#[derive(Debug)]
pub(crate) struct EventLog {
    events: Mutex<VecDeque<Event>>,
    /// Sequence number of the newest event before the first one in this log.
    before: u64,
    latest: watch::Sender<u64>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self::starting_after(0)
    }
}

impl EventLog {
    /// An empty log whose first event follows a sequence number.
    pub(crate) fn starting_after(before: u64) -> Self {
        Self {
            events: Mutex::default(),
            before,
            latest: watch::Sender::new(before),
        }
    }

    /// Sequence number of the last event before the start of this log.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Appends an event and wakes the watchers.
    pub(crate) fn push(&self, time: Timestamp, kind: EventKind) {
        let mut events = self.events.lock();
        let sequence = events.back().map_or(self.before, |last| last.sequence) + 1;
        if events.len() == MAX_EVENTS {
            events.pop_front();
        }
        events.push_back(Event { sequence, time, kind });
        drop(events);
        self.latest.send_replace(sequence);
    }

    /// Events after a sequence number, in order.
    pub(crate) fn after(&self, sequence: u64) -> Vec<Event> {
        let events = self.events.lock();
        let start = events.partition_point(|event| event.sequence <= sequence);
        events.iter().skip(start).cloned().collect()
    }

    /// The last event of a run that has ended.
    pub(crate) fn end(&self) -> Option<Event> {
        let events = self.events.lock();
        events
            .back()
            .filter(|event| matches!(event.kind, EventKind::Ended(_)))
            .cloned()
    }

    /// Wakes the watchers without an event.
    pub(crate) fn wake(&self) {
        self.latest.send_modify(|_| ());
    }

    /// Notifies of new events.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_gets_what_came_after_its_number() {
        let log = EventLog::default();
        for text in ["a", "b", "c"] {
            log.push(Timestamp::UNIX_EPOCH, EventKind::Message(text.into()));
        }
        let numbers: Vec<u64> = log.after(1).iter().map(|event| event.sequence).collect();
        assert_eq!(numbers, [2, 3]);
        assert!(log.after(3).is_empty());
    }

    #[test]
    fn a_watcher_far_behind_gets_the_oldest_kept() {
        let log = EventLog::default();
        for _ in 0..MAX_EVENTS + 10 {
            log.push(Timestamp::UNIX_EPOCH, EventKind::Message(String::new()));
        }
        assert_eq!(log.after(0).len(), MAX_EVENTS);
        assert_eq!(log.after(0).first().map(|event| event.sequence), Some(11));
    }
}
