//! Watches a run, whichever process executes it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc::Sender;

use super::{
    RunManager,
    events::{Event, EventKind},
    live::Live,
    record::{RunRecord, StageProgress},
};

/// Interval for reading the record of another process's run.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The reason why a watch stops following one process.
#[derive(PartialEq, Eq)]
enum Stopped {
    /// The run has ended, or the watcher has left.
    Finished,
    /// Another process executes the run now.
    Moved,
}

/// Sends a run's events after a sequence number, then new events until its end. Each watcher has
/// its own channel: when it is full, only this task waits.
pub(super) async fn watch(manager: RunManager, id: String, mut after: u64, sender: Sender<Event>) {
    let mut told = Vec::new();
    loop {
        let stopped = match manager.led_here(&id) {
            Some(live) => {
                if after < live.events.before() && !send_stored(&manager, &id, &mut after, &sender).await {
                    return;
                }
                follow(&manager, &live, &mut after, &sender).await
            }
            None => look(&manager, &id, &mut after, &mut told, &sender).await,
        };
        if stopped == Stopped::Finished {
            return;
        }
    }
}

/// Follows a run of this process.
async fn follow(manager: &RunManager, live: &Live, after: &mut u64, sender: &Sender<Event>) -> Stopped {
    let mut news = live.events.subscribe();
    loop {
        news.mark_unchanged();
        // A watcher that returns with a sequence number beyond the end still receives the last
        // event.
        let mut fresh = live.events.after(*after);
        if fresh.is_empty() {
            fresh.extend(live.events.end());
        }
        for event in fresh {
            *after = event.sequence;
            let last = matches!(event.kind, EventKind::Ended(_));
            let event = with_suite(manager, event).await;
            if sender.send(event).await.is_err() || last {
                return Stopped::Finished;
            }
        }
        if live.superseded() {
            return Stopped::Moved;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Stopped::Finished },
            () = sender.closed() => return Stopped::Finished,
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
/// process's run. `told`: the progress sent so far, if the store keeps no events.
async fn look(
    manager: &RunManager,
    id: &str,
    after: &mut u64,
    told: &mut Vec<StageProgress>,
    sender: &Sender<Event>,
) -> Stopped {
    loop {
        // Read before the events, because the end follows all of them.
        let record = match manager.get(id).await {
            Ok(record) => record,
            Err(error) => {
                tracing::debug!(%error, id, "a watched run cannot be read any more");
                return Stopped::Finished;
            }
        };
        let events = match manager.stored_events(id, *after).await {
            Ok(Some(events)) => events,
            Ok(None) => progress_of(&record, told, *after),
            Err(error) => {
                tracing::debug!(%error, id, "the events of a watched run cannot be read; retrying");
                Vec::new()
            }
        };
        for event in events {
            *after = (*after).max(event.sequence);
            if sender.send(event).await.is_err() {
                return Stopped::Finished;
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
            return Stopped::Finished;
        }
        if manager.led_here(id).is_some() {
            return Stopped::Moved;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = sender.closed() => return Stopped::Finished,
        }
    }
}

/// Progress of a run whose events are not stored, if it differs from the progress sent before.
fn progress_of(record: &RunRecord, told: &mut Vec<StageProgress>, after: u64) -> Vec<Event> {
    let fresh = record.progress.iter().filter(|progress| !told.contains(progress));
    let events = fresh.cloned().zip(1..).map(|(progress, number)| Event {
        sequence: after.saturating_add(number),
        time: record.ended.unwrap_or_else(Timestamp::now),
        kind: EventKind::Progress(progress),
    });
    let events = events.collect();
    told.clone_from(&record.progress);
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
    use super::{
        super::record::{RunRequest, Stage},
        *,
    };

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
