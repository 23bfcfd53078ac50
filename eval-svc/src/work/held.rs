//! How many vectors this process holds for runs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the values (f32) of vectors that runs hold in memory. Every holder of vectors of a run
/// owns a `Held`, which counts for as long as it lives. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct HeldVectors {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl HeldVectors {
    /// Values held now.
    pub fn now(&self) -> usize {
        self.counts.now.load(Ordering::SeqCst)
    }

    /// Most values that were held at once.
    pub fn most(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }

    /// Counts so many values until the result is dropped.
    pub(crate) fn hold(&self, values: usize) -> Held {
        let mut held = Held {
            of: Some(self.clone()),
            values: 0,
        };
        held.grow(values);
        held
    }
}

/// Values that a holder of vectors has. The default counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Held {
    of: Option<HeldVectors>,
    values: usize,
}

impl Held {
    /// Counts more values.
    pub(crate) fn grow(&mut self, values: usize) {
        let Some(of) = &self.of else { return };
        let now = of.counts.now.fetch_add(values, Ordering::SeqCst) + values;
        of.counts.most.fetch_max(now, Ordering::SeqCst);
        self.values += values;
    }

    /// Another holder, with so many values.
    pub(crate) fn beside(&self, values: usize) -> Self {
        match &self.of {
            Some(of) => of.hold(values),
            None => Self::default(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.counts.now.fetch_sub(self.values, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_held_no_longer_and_the_most_stays() {
        let held = HeldVectors::default();
        let mut first = held.hold(10);
        first.grow(5);
        let second = first.beside(7);
        assert_eq!((held.now(), held.most()), (22, 22));
        drop(first);
        assert_eq!((held.now(), held.most()), (7, 22));
        drop(second);
        assert_eq!((held.now(), held.most()), (0, 22));
    }
}
