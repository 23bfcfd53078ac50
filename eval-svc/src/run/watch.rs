//! Sends the events of a run to its watchers.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::mpsc::Sender;

use super::{
    RunManager,
    events::{Event, EventKind},
    live::Live,
    record::{RunRecord, StageProgress},
};

/// How often the record of another process's run is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Follows a run of this process. Each watcher has its own channel: when it is full, only this task
/// waits.
pub(super) async fn follow(live: Arc<Live>, mut after: u64, sender: Sender<Event>) {
    let mut news = live.events.subscribe();
    loop {
        news.mark_unchanged();
        // A watcher that returns with a sequence number beyond the end still receives the last
        // event.
        let mut fresh = live.events.after(after);
        if fresh.is_empty() {
            fresh.extend(live.events.end());
        }
        for event in fresh {
            after = event.sequence;
            let last = matches!(event.kind, EventKind::Ended(_));
            if sender.send(event).await.is_err() || last {
                return;
            }
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

/// Watches a run that this process does not execute: a run that ended before a restart, or another
/// process's run.
pub(super) async fn look(manager: RunManager, mut record: RunRecord, sender: Sender<Event>) {
    let mut sequence = 0;
    let mut told: Vec<StageProgress> = Vec::new();
    loop {
        let mut events: Vec<EventKind> = record
            .progress
            .iter()
            .filter(|p| !told.contains(p))
            .cloned()
            .map(EventKind::Progress)
            .collect();
        told.clone_from(&record.progress);
        let ended = !record.state.is_active();
        if ended {
            events.push(EventKind::Ended(Box::new(record.clone())));
        }
        for kind in events {
            sequence += 1;
            let time = record.ended.unwrap_or_else(Timestamp::now);
            if sender.send(Event { sequence, time, kind }).await.is_err() {
                return;
            }
        }
        if ended {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        match manager.get(&record.id) {
            Ok(newer) => record = newer,
            Err(_) => return,
        }
    }
}
