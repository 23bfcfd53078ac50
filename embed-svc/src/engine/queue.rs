//! The queue that forms batches. A plain data structure: no threads, no clock.

use std::collections::VecDeque;

use isomer_service_kit::priority::BATCH_TURN;
pub use isomer_service_kit::priority::Priority;

/// Two bounded queues that share one bound on tokens. All units of a batch have one priority: a
/// query in a batch with bulk work would wait for that work.
#[derive(Debug)]
pub struct Queue<T> {
    interactive: Line<T>,
    bulk: Line<T>,
    bound: usize,
    turn: usize,
}

/// The units of one priority.
#[derive(Debug)]
struct Line<T> {
    units: VecDeque<(usize, T)>,
    tokens: usize,
}

impl<T> Line<T> {
    fn new() -> Self {
        Self {
            units: VecDeque::new(),
            tokens: 0,
        }
    }

    /// Takes as many units as fit into `budget` tokens, but at least one if any waits.
    fn take(&mut self, budget: usize, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut batch = Vec::new();
        let mut used = 0;
        while let Some((tokens, unit)) = self.units.pop_front() {
            if !wanted(&unit) {
                self.tokens -= tokens;
            } else if batch.is_empty() || used + tokens <= budget {
                self.tokens -= tokens;
                used += tokens;
                batch.push(unit);
            } else {
                self.units.push_front((tokens, unit));
                break;
            }
        }
        batch
    }
}

impl<T> Queue<T> {
    /// An empty queue that holds at most `bound` tokens.
    pub fn new(bound: usize) -> Self {
        Self {
            interactive: Line::new(),
            bulk: Line::new(),
            bound,
            turn: 0,
        }
    }

    pub fn tokens(&self) -> usize {
        self.interactive.tokens + self.bulk.tokens
    }

    /// Waiting tokens of one priority.
    pub fn tokens_of(&self, priority: Priority) -> usize {
        match priority {
            Priority::Interactive => self.interactive.tokens,
            Priority::Batch => self.bulk.tokens,
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.interactive.units.is_empty() && self.bulk.units.is_empty()
    }

    /// Adds all units of a request, or none. A request larger than the bound is accepted only when
    /// nothing else waits, because otherwise it could never be accepted.
    ///
    /// # Errors
    /// The units, if they do not fit.
    pub fn push(&mut self, priority: Priority, units: Vec<(usize, T)>) -> Result<(), Vec<(usize, T)>> {
        let tokens: usize = units.iter().map(|(tokens, _)| tokens).sum();
        if !self.is_empty() && self.tokens().saturating_add(tokens) > self.bound {
            return Err(units);
        }
        let line = self.line(priority);
        line.tokens += tokens;
        line.units.extend(units);
        Ok(())
    }

    /// Drops units for which `wanted` is false, to make room.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        for line in [&mut self.interactive, &mut self.bulk] {
            line.units.retain(|(_, unit)| wanted(unit));
            line.tokens = line.units.iter().map(|(tokens, _)| tokens).sum();
        }
    }

    /// Takes the next batch of a priority: as many units as fit into `budget` tokens, but at least
    /// one if any waits. Units for which `wanted` is false (cancelled, too late) are dropped and
    /// not counted.
    pub fn take_of(&mut self, priority: Priority, budget: usize, wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        self.line(priority).take(budget, wanted)
    }

    /// Takes the next batch of either priority, like [`take_of`](Self::take_of). Interactive units
    /// come first, but every fourth batch is bulk.
    pub fn take(&mut self, budget: usize, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let bulk_first = self.turn.is_multiple_of(BATCH_TURN) && self.turn > 0;
        let order = if bulk_first {
            [Priority::Batch, Priority::Interactive]
        } else {
            [Priority::Interactive, Priority::Batch]
        };
        for priority in order {
            let batch = self.take_of(priority, budget, &mut wanted);
            if !batch.is_empty() {
                self.turn = if bulk_first { 1 } else { self.turn + 1 };
                return batch;
            }
        }
        Vec::new()
    }

    fn line(&mut self, priority: Priority) -> &mut Line<T> {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Batch => &mut self.bulk,
        }
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

    #[test]
    fn a_batch_is_of_one_priority() {
        let mut queue = Queue::new(100);
        queue.push(Priority::Batch, vec![(4, 1), (4, 2)]).unwrap();
        queue.push(Priority::Interactive, vec![(4, 3)]).unwrap();
        assert_eq!(
            (queue.tokens_of(Priority::Interactive), queue.tokens_of(Priority::Batch)),
            (4, 8)
        );
        assert_eq!(queue.take(100, all), [3]);
        assert_eq!(queue.take(100, all), [1, 2]);
        queue.push(Priority::Batch, vec![(4, 4)]).unwrap();
        assert!(queue.take_of(Priority::Interactive, 100, all).is_empty());
        assert_eq!(queue.take_of(Priority::Batch, 100, all), [4]);
        assert_eq!(queue.tokens(), 0);
    }
}
