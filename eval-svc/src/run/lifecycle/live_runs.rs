//! The runs that this process executes or has executed.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::live::LiveRun;

/// Number of ended runs whose events stay in memory.
const MAX_ENDED: usize = 64;

/// Runs of this process by id.
#[derive(Debug, Default)]
pub(super) struct LiveRuns {
    all: Mutex<HashMap<String, Arc<LiveRun>>>,
}

impl LiveRuns {
    /// Runs that have not ended.
    pub(super) fn active(&self) -> Vec<(String, Arc<LiveRun>)> {
        let all = self.all.lock();
        let active = all.iter().filter(|(_, live)| live.is_active() && !live.superseded());
        active.map(|(id, live)| (id.clone(), Arc::clone(live))).collect()
    }

    pub(super) fn insert(&self, id: &str, live: Arc<LiveRun>) {
        let mut all = self.all.lock();
        all.retain(|_, live| !live.superseded());
        let mut ended: Vec<String> = all
            .iter()
            .filter(|(_, live)| !live.is_active())
            .map(|(id, _)| id.clone())
            .collect();
        ended.sort_unstable();
        let surplus = (ended.len() + 1).saturating_sub(MAX_ENDED);
        for id in ended.into_iter().take(surplus) {
            all.remove(&id);
        }
        all.insert(id.to_owned(), live);
    }

    /// A run that this process is executing or has executed to its end.
    pub(super) fn get(&self, id: &str) -> Option<Arc<LiveRun>> {
        let live = self.all.lock().get(id).cloned();
        live.filter(|live| !live.superseded())
    }

    pub(super) fn remove(&self, id: &str) {
        self.all.lock().remove(id);
    }
}
