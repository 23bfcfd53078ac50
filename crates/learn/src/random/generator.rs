//! numpy's `Generator` over PCG64.

use std::collections::HashSet;

use super::{cumulated_shares, mask_of, pcg64::Pcg64, search_right};

/// `numpy.random.default_rng(seed)`.
#[derive(Debug, Clone)]
pub struct NumpyGenerator {
    pcg: Pcg64,
}

impl NumpyGenerator {
    /// `default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        Self { pcg: Pcg64::new(seed) }
    }

    /// A number in [0, max], by Lemire's multiplication (ACM TOMACS 29, 2019).
    pub fn bounded(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        if max == u64::MAX {
            return self.pcg.next_u64();
        }
        if max == u64::from(u32::MAX) {
            return u64::from(self.pcg.next_u32());
        }
        if max < u64::from(u32::MAX) {
            let choices = max as u32 + 1;
            let mut product = u64::from(self.pcg.next_u32()) * u64::from(choices);
            if (product as u32) < choices {
                let threshold = (u32::MAX - max as u32) % choices;
                while (product as u32) < threshold {
                    product = u64::from(self.pcg.next_u32()) * u64::from(choices);
                }
            }
            return product >> 32;
        }
        let choices = max + 1;
        let mut product = u128::from(self.pcg.next_u64()) * u128::from(choices);
        if (product as u64) < choices {
            let threshold = (u64::MAX - max) % choices;
            while (product as u64) < threshold {
                product = u128::from(self.pcg.next_u64()) * u128::from(choices);
            }
        }
        (product >> 64) as u64
    }

    /// `random()`: a double in [0, 1).
    pub fn random(&mut self) -> f64 {
        self.pcg.next_f64()
    }

    /// `integers(low, high, size)` with numpy's default type; an empty range returns `low`.
    pub fn integers(&mut self, low: i64, high: i64, size: usize) -> Vec<i64> {
        let max = high.wrapping_sub(low).wrapping_sub(1).max(0) as u64;
        (0..size).map(|_| low.wrapping_add(self.bounded(max) as i64)).collect()
    }

    /// `shuffle(items)` of a list or of the first axis of an array. Unlike all other methods here,
    /// it uses masked rejection.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let mask = mask_of(i as u64);
            let j = loop {
                let drawn = if i as u64 <= u64::from(u32::MAX) {
                    u64::from(self.pcg.next_u32()) & mask
                } else {
                    self.pcg.next_u64() & mask
                };
                if drawn <= i as u64 {
                    break drawn as usize;
                }
            };
            items.swap(i, j);
        }
    }

    /// The shuffle within `choice`: items from `first` on are swapped with any item, including
    /// those before `first`.
    fn shuffle_tail<T>(&mut self, items: &mut [T], first: usize) {
        for i in (first..items.len()).rev() {
            let j = self.bounded(i as u64) as usize;
            items.swap(i, j);
        }
    }

    /// `permutation(n)`.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }

    /// `choice(n, size)`: with replacement, uniformly.
    pub fn choice(&mut self, n: usize, size: usize) -> Vec<usize> {
        let max = (n as u64).saturating_sub(1);
        (0..size).map(|_| self.bounded(max) as usize).collect()
    }

    /// `choice(len(p), size, p=p)`: with replacement, by weights that sum to 1.
    pub fn choice_weighted(&mut self, p: &[f64], size: usize) -> Vec<usize> {
        let cumulated = cumulated_shares(p);
        (0..size).map(|_| search_right(&cumulated, self.random())).collect()
    }

    /// `choice(n, size, replace=False)`: distinct positions, at most `n`.
    pub fn choice_without_replacement(&mut self, n: usize, size: usize) -> Vec<usize> {
        let size = size.min(n);
        // numpy's own thresholds: shuffle the tail of all positions, or Floyd's algorithm with a
        // set.
        if n > 10_000 && size > n / 50 {
            let mut order: Vec<usize> = (0..n).collect();
            self.shuffle_tail(&mut order, (n - size).max(1));
            return order.split_off(n - size);
        }
        let mut seen = HashSet::with_capacity(size);
        let mut chosen: Vec<usize> = (n - size..n)
            .map(|j| {
                let drawn = self.bounded(j as u64) as usize;
                if seen.insert(drawn) {
                    drawn
                } else {
                    seen.insert(j);
                    j
                }
            })
            .collect();
        self.shuffle_tail(&mut chosen, 1);
        chosen
    }
}
