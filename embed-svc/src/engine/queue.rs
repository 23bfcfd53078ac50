//! The queue that forms batches. A plain data structure: no threads, no clock.

use std::collections::VecDeque;

use isomer_service_kit::priority::BATCH_TURN;
pub use isomer_service_kit::priority::Priority;

/// Two bounded queues that share one bound on tokens.
#[derive(Debug)]
pub struct Queue<T> {
    interactive: VecDeque<(usize, T)>,
    bulk: VecDeque<(usize, T)>,
    tokens: usize,
    bound: usize,
    turn: usize,
}

impl<T> Queue<T> {
    /// An empty queue that holds at most `bound` tokens.
    pub fn new(bound: usize) -> Self {
        Self {
            interactive: VecDeque::new(),
            bulk: VecDeque::new(),
            tokens: 0,
            bound,
            turn: 0,
        }
    }

    /// Tokens waiting.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.interactive.is_empty() && self.bulk.is_empty()
    }

    /// Adds all units of a request, or none. A request larger than the bound is accepted only when
    /// nothing else waits, since it could never be accepted otherwise.
    ///
    /// # Errors
    /// Returns the units if there is no room.
    pub fn push(&mut self, priority: Priority, units: Vec<(usize, T)>) -> Result<(), Vec<(usize, T)>> {
        let tokens: usize = units.iter().map(|(tokens, _)| tokens).sum();
        if !self.is_empty() && self.tokens.saturating_add(tokens) > self.bound {
            return Err(units);
        }
        self.tokens += tokens;
        match priority {
            Priority::Interactive => self.interactive.extend(units),
            Priority::Batch => self.bulk.extend(units),
        }
        Ok(())
    }

    /// Drops units for which `wanted` is false, to make room.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        for queue in [&mut self.interactive, &mut self.bulk] {
            queue.retain(|(_, unit)| wanted(unit));
        }
        self.tokens = self
            .interactive
            .iter()
            .chain(&self.bulk)
            .map(|(tokens, _)| tokens)
            .sum();
    }

    /// Takes the next batch: as many units as fit into `budget` tokens, but at least one if any
    /// waits. Units for which `wanted` is false (cancelled, too late) are dropped and do not count.
    pub fn take(&mut self, budget: usize, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let bulk_first = self.turn.is_multiple_of(BATCH_TURN) && self.turn > 0;
        let (first, second) = if bulk_first {
            (&mut self.bulk, &mut self.interactive)
        } else {
            (&mut self.interactive, &mut self.bulk)
        };
        let mut batch = Vec::new();
        let mut used = 0;
        for queue in [first, second] {
            while let Some((tokens, unit)) = queue.pop_front() {
                if !wanted(&unit) {
                    self.tokens -= tokens;
                } else if batch.is_empty() || used + tokens <= budget {
                    self.tokens -= tokens;
                    used += tokens;
                    batch.push(unit);
                } else {
                    queue.push_front((tokens, unit));
                    break;
                }
            }
        }
        if !batch.is_empty() {
            self.turn = if bulk_first { 1 } else { self.turn + 1 };
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn all(_: &u32) -> bool {
        true
    }

    #[test]
    fn a_batch_is_filled_up_to_the_budget_in_order() {
        let mut queue = Queue::new(100);
        queue.push(Priority::Interactive, vec![(4, 1), (4, 2), (4, 3)]).unwrap();
        assert_eq!(queue.take(8, all), [1, 2]);
        assert_eq!(queue.take(8, all), [3]);
        assert!(queue.is_empty());
        assert_eq!(queue.tokens(), 0);
    }

    #[test]
    fn a_unit_larger_than_the_budget_runs_alone() {
        let mut queue = Queue::new(100);
        queue.push(Priority::Interactive, vec![(50, 1), (1, 2)]).unwrap();
        assert_eq!(queue.take(8, all), [1]);
        assert_eq!(queue.take(8, all), [2]);
    }

    #[test]
    fn a_full_queue_refuses_whole_requests_but_an_empty_one_takes_any() {
        let mut queue = Queue::new(10);
        queue.push(Priority::Interactive, vec![(30, 1)]).unwrap();
        assert_eq!(queue.push(Priority::Interactive, vec![(1, 2)]).unwrap_err().len(), 1);
        assert_eq!(queue.take(100, all), [1]);
        queue.push(Priority::Batch, vec![(6, 3)]).unwrap();
        assert!(queue.push(Priority::Interactive, vec![(3, 4), (2, 5)]).is_err());
        assert_eq!(queue.tokens(), 6, "a refused request leaves nothing behind");
    }

    #[test]
    fn cancelled_units_are_dropped_without_using_the_budget() {
        let mut queue = Queue::new(100);
        queue.push(Priority::Interactive, vec![(8, 1), (8, 2), (8, 3)]).unwrap();
        assert_eq!(queue.take(8, |unit| *unit == 3), [3]);
        assert_eq!(queue.tokens(), 0);
    }

    #[test]
    fn dropping_units_makes_room() {
        let mut queue = Queue::new(10);
        queue.push(Priority::Batch, vec![(6, 1), (4, 2)]).unwrap();
        queue.retain(|unit| *unit == 2);
        assert_eq!(queue.tokens(), 4);
        queue.push(Priority::Batch, vec![(6, 3)]).unwrap();
        assert_eq!(queue.take(100, all), [2, 3]);
    }

    #[test]
    fn interactive_goes_first_and_bulk_is_never_starved() {
        let mut queue = Queue::new(10_000);
        let mut order = Vec::new();
        queue.push(Priority::Batch, vec![(8, 1000), (8, 1001)]).unwrap();
        for round in 0..12 {
            queue.push(Priority::Interactive, vec![(8, round)]).unwrap();
            order.extend(queue.take(8, all));
        }
        assert_eq!(order[..4], [0, 1, 2, 3]);
        assert_eq!(order[4], 1000);
        assert!(order.contains(&1001));
    }
}
