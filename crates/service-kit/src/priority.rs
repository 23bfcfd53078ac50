//! The order in which waiting calls are served.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// While both kinds wait, bulk work gets every n-th turn, so that it is never starved.
pub const BATCH_TURN: usize = 4;

/// The priority of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// A user is waiting for the result.
    #[default]
    Interactive,
    /// Bulk work.
    Batch,
}

/// The priority of a piece of work. It rises when a caller of a higher priority joins the callers
/// that wait for it. Clones share it.
#[derive(Debug, Clone)]
pub struct Urgency(Arc<AtomicBool>);

impl Urgency {
    /// Work with this priority.
    pub fn new(priority: Priority) -> Self {
        Self(Arc::new(AtomicBool::new(priority == Priority::Interactive)))
    }

    /// Adds another caller that waits for the work.
    pub fn join(&self, priority: Priority) {
        if priority == Priority::Interactive {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    pub fn priority(&self) -> Priority {
        if self.0.load(Ordering::Relaxed) {
            Priority::Interactive
        } else {
            Priority::Batch
        }
    }
}

/// A queue ordered by priority and then by arrival. It has no locks and no clock.
#[derive(Debug)]
pub struct Line<T> {
    waiting: VecDeque<(Urgency, T)>,
    /// Consecutive interactive turns while bulk work waited.
    turns: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            turns: 0,
        }
    }
}

impl<T> Line<T> {
    /// Number of waiting items.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All waiting items, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, one)| one)
    }

    /// Adds an item at the end of its priority.
    pub fn push(&mut self, urgency: Urgency, one: T) {
        self.waiting.push_back((urgency, one));
    }

    /// Keeps the items that are still wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(_, one)| wanted(one));
    }

    /// The item whose turn is next.
    pub fn peek(&self) -> Option<&T> {
        self.waiting.get(self.next()?).map(|(_, one)| one)
    }

    /// Removes and returns the item whose turn is next.
    pub fn pop(&mut self) -> Option<T> {
        let next = self.next()?;
        let (urgency, one) = self.waiting.remove(next)?;
        let batch_waits = || {
            self.waiting
                .iter()
                .any(|(other, _)| other.priority() == Priority::Batch)
        };
        self.turns = match urgency.priority() {
            Priority::Interactive if batch_waits() => self.turns + 1,
            Priority::Interactive | Priority::Batch => 0,
        };
        Some(one)
    }

    fn next(&self) -> Option<usize> {
        let first = |wanted| {
            self.waiting
                .iter()
                .position(|(urgency, _)| urgency.priority() == wanted)
        };
        let (interactive, batch) = (first(Priority::Interactive), first(Priority::Batch));
        if self.turns + 1 >= BATCH_TURN {
            batch.or(interactive)
        } else {
            interactive.or(batch)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(waiting: &[(Priority, u32)]) -> Line<u32> {
        let mut line = Line::default();
        for (priority, one) in waiting {
            line.push(Urgency::new(*priority), *one);
        }
        line
    }

    fn order(mut line: Line<u32>) -> Vec<u32> {
        std::iter::from_fn(|| line.pop()).collect()
    }

    #[test]
    fn interactive_work_overtakes_and_bulk_work_is_never_starved() {
        use Priority::{Batch, Interactive};
        assert_eq!(order(line(&[(Batch, 1), (Batch, 2), (Interactive, 3)])), [3, 1, 2]);
        let mut many: Vec<(Priority, u32)> = (0..8).map(|n| (Interactive, n)).collect();
        many.extend([(Batch, 100), (Batch, 101)]);
        assert_eq!(order(line(&many)), [0, 1, 2, 100, 3, 4, 5, 101, 6, 7]);
    }

    #[test]
    fn work_that_an_interactive_caller_joins_becomes_interactive() {
        let mut line = line(&[(Priority::Batch, 1)]);
        let joined = Urgency::new(Priority::Batch);
        line.push(joined.clone(), 2);
        assert_eq!(line.peek(), Some(&1));
        joined.join(Priority::Batch);
        assert_eq!(line.peek(), Some(&1));
        joined.join(Priority::Interactive);
        assert_eq!(line.peek(), Some(&2));
        assert_eq!(order(line), [2, 1]);
    }
}
