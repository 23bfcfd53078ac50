//! The queue of runs that are waiting to start: a bounded number, in total and for each owner.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::run::RunError;

/// Counts the waiting runs, including those that are being validated. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RunQueue {
    counts: Arc<Mutex<Counts>>,
    most: usize,
    most_each: usize,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_owner: HashMap<String, usize>,
}

impl RunQueue {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            counts: Arc::default(),
            most,
            most_each,
        }
    }

    /// Enters the queue.
    ///
    /// # Errors
    /// [`RunError::TooMany`].
    pub(crate) fn enter(&self, owner: Option<&str>) -> Result<QueueTicket, RunError> {
        let mut counts = self.counts.lock();
        if counts.all >= self.most {
            return Err(RunError::TooMany {
                whose: "of this server",
                most: self.most,
            });
        }
        if let Some(owner) = owner {
            let own = counts.by_owner.entry(owner.to_owned()).or_default();
            if *own >= self.most_each {
                return Err(RunError::TooMany {
                    whose: "of this caller",
                    most: self.most_each,
                });
            }
            *own += 1;
        }
        counts.all += 1;
        Ok(QueueTicket {
            counts: Arc::clone(&self.counts),
            owner: owner.map(str::to_owned),
        })
    }

    /// Enters a run that another replica accepted, regardless of the bounds.
    pub(crate) fn enter_accepted(&self) -> QueueTicket {
        self.counts.lock().all += 1;
        QueueTicket {
            counts: Arc::clone(&self.counts),
            owner: None,
        }
    }
}

/// A run's place in the queue. It is dropped when the run starts or will never start.
#[derive(Debug)]
pub(crate) struct QueueTicket {
    counts: Arc<Mutex<Counts>>,
    owner: Option<String>,
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.all = counts.all.saturating_sub(1);
        let Some(owner) = self.owner.take() else { return };
        if let Some(own) = counts.by_owner.get_mut(&owner) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                counts.by_owner.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn runs_wait_up_to_a_bound_in_all_and_for_each_owner() {
        let queue = RunQueue::new(3, 2);
        let first = queue.enter(Some("key:a")).unwrap();
        let second = queue.enter(Some("key:a")).unwrap();
        assert!(matches!(
            queue.enter(Some("key:a")),
            Err(RunError::TooMany {
                whose: "of this caller",
                most: 2
            })
        ));
        let third = queue.enter(Some("key:b")).unwrap();
        for owner in [Some("key:c"), None] {
            assert!(matches!(
                queue.enter(owner),
                Err(RunError::TooMany {
                    whose: "of this server",
                    most: 3
                })
            ));
        }
        drop(first);
        let again = queue.enter(Some("key:a")).unwrap();
        drop((second, third, again));
        assert!(
            queue.counts.lock().by_owner.is_empty(),
            "owners without waiting runs are removed"
        );
    }
}
