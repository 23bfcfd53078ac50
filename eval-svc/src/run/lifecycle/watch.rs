//! Watches a run, whichever process executes it.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use tokio::sync::mpsc::Sender;
use tokio_stream::wrappers::ReceiverStream;

use super::live::LiveRun;
use crate::run::{
    RunError, RunManager,
    events::{Event, EventKind},
    record::{RunRecord, StageProgress},
};

/// Interval for reading the record of another process's run.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Number of messages that a watcher may be behind before its forwarding task waits for it. The run
/// never waits.
const WATCH_BUFFER: usize = 64;

impl RunManager {
    /// A run's events after a sequence number, then new events as they occur, until the run ends.
    ///
    /// # Errors
    /// [`RunError::Unknown`], or a record that cannot be read.
    pub async fn watch(&self, id: &str, after: u64) -> Result<BoxStream<'static, Event>, RunError> {
        self.get(id).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WATCH_BUFFER);
        tokio::spawn(watch(self.clone(), id.to_owned(), after, sender));
        Ok(ReceiverStream::new(receiver).boxed())
    }
}

/// The reason why a watch stops following one process.
#[derive(PartialEq, Eq)]
enum WatchEnd {
    /// The run has ended, or the watcher has left.
    Finished,
    /// Another process executes the run now.
    LedElsewhere,
}

/// Sends a run's events after a sequence number, then new events until its end. Each watcher has
/// its own channel: when it is full, only this task waits.
async fn watch(manager: RunManager, id: String, mut after: u64, sender: Sender<Event>) {
    let mut sent = Vec::new();
    loop {
        let end = match manager.live_runs().get(&id) {
            Some(live) => {
                if after < live.progress.events.before() && !send_stored(&manager, &id, &mut after, &sender).await {
                    return;
                }
                follow(&manager, &live, &mut after, &sender).await
            }
            None => look(&manager, &id, &mut after, &mut sent, &sender).await,
        };
        if end == WatchEnd::Finished {
            return;
        }
    }
}

/// Follows a run of this process.
async fn follow(manager: &RunManager, live: &LiveRun, after: &mut u64, sender: &Sender<Event>) -> WatchEnd {
    let mut news = live.progress.events.subscribe();
    loop {
        news.mark_unchanged();
        // A watcher that returns with a sequence number beyond the end still receives the last
        // event.
        let mut fresh = live.progress.events.after(*after);
        if fresh.is_empty() {
            fresh.extend(live.progress.events.end());
        }
        for event in fresh {
            *after = event.sequence;
            let last = matches!(event.kind, EventKind::Ended(_));
            let event = with_suite(manager, event).await;
            if sender.send(event).await.is_err() || last {
                return WatchEnd::Finished;
            }
        }
        if live.superseded() {
            return WatchEnd::LedElsewhere;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return WatchEnd::Finished },
            () = sender.closed() => return WatchEnd::Finished,
        }
    }
}

/// The event; the record in an end event includes the suite's text again.
async fn with_suite(manager: &RunManager, mut event: Event) -> Event {
    if let EventKind::Ended(record) = &mut event.kind
        && let Ok(whole) = manager.get(&record.id).await
    {
        **record = whole;
    }
    event
}

/// Watches a run that this process does not execute: a run that ended before a restart, or another
/// process's run. `sent`: the progress sent so far, if the store keeps no events.
async fn look(
    manager: &RunManager,
    id: &str,
    after: &mut u64,
    sent: &mut Vec<StageProgress>,
    sender: &Sender<Event>,
) -> WatchEnd {
    loop {
        // Read before the events, because the end follows all of them.
        let record = match manager.get(id).await {
            Ok(record) => record,
            Err(error) => {
                tracing::debug!(%error, id, "a watched run cannot be read any more");
                return WatchEnd::Finished;
            }
        };
        let events = match manager.stored_events(id, *after).await {
            Ok(Some(events)) => events,
            Ok(None) => progress_of(&record, sent, *after),
            Err(error) => {
                tracing::debug!(%error, id, "the events of a watched run cannot be read; retrying");
                Vec::new()
            }
        };
        for event in events {
            *after = (*after).max(event.sequence);
            if sender.send(event).await.is_err() {
                return WatchEnd::Finished;
            }
        }
        if !record.is_active() {
            let end = Event {
                sequence: after.saturating_add(1),
                time: record.ended.unwrap_or_else(Timestamp::now),
                kind: EventKind::Ended(Box::new(record)),
            };
            // A watcher that has left does not need the end event.
            let _ = sender.send(end).await;
            return WatchEnd::Finished;
        }
        if manager.live_runs().get(id).is_some() {
            return WatchEnd::LedElsewhere;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = sender.closed() => return WatchEnd::Finished,
        }
    }
}

/// Progress of a run whose events are not stored, if it differs from the progress sent before.
fn progress_of(record: &RunRecord, sent: &mut Vec<StageProgress>, after: u64) -> Vec<Event> {
    let fresh = record.progress.iter().filter(|progress| !sent.contains(progress));
    let events = fresh.cloned().zip(1..).map(|(progress, number)| Event {
        sequence: after.saturating_add(number),
        time: record.ended.unwrap_or_else(Timestamp::now),
        kind: EventKind::Progress(progress),
    });
    let events = events.collect();
    sent.clone_from(&record.progress);
    events
}

/// Sends the events that an earlier leader stored. Returns whether the watcher is still connected.
async fn send_stored(manager: &RunManager, id: &str, after: &mut u64, sender: &Sender<Event>) -> bool {
    let stored = match manager.stored_events(id, *after).await {
        Ok(stored) => stored.unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, id, "earlier events of a run cannot be read; its watcher misses them");
            Vec::new()
        }
    };
    for event in stored {
        *after = event.sequence;
        if sender.send(event).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::record::{RunRequest, Stage};

    #[test]
    fn a_watcher_may_begin_after_the_last_number_there_is() {
        let mut record = RunRecord::new("a".to_owned(), None, RunRequest::default(), Timestamp::UNIX_EPOCH);
        record.progress = vec![
            StageProgress {
                stage: Stage::Plan,
                done: 1,
                total: 1,
                cached: 0,
                remaining_seconds: None,
                detail: String::new(),
            };
            2
        ];
        let sequences = |after| {
            let events = progress_of(&record, &mut Vec::new(), after);
            events.iter().map(|event| event.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(3), [4, 5]);
        assert_eq!(sequences(u64::MAX), [u64::MAX; 2]);
    }
}
