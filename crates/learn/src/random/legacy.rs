//! numpy's `RandomState`.

use super::{cumulated_shares, mask_of, mt19937::Mt19937, search_right};

/// `numpy.random.RandomState(seed)`.
#[derive(Debug, Clone)]
pub struct NumpyLegacy {
    mt: Mt19937,
    spare_normal: Option<f64>,
}

impl NumpyLegacy {
    /// `RandomState(seed)`.
    pub fn new(seed: u32) -> Self {
        Self {
            mt: Mt19937::from_word(seed),
            spare_normal: None,
        }
    }

    /// A number in [0, max], by masked rejection: 32-bit draws if `max` fits, else 64-bit draws.
    pub fn interval(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = mask_of(max);
        loop {
            let drawn = if max <= u64::from(u32::MAX) {
                u64::from(self.mt.next_u32()) & mask
            } else {
                let high = u64::from(self.mt.next_u32());
                ((high << 32) | u64::from(self.mt.next_u32())) & mask
            };
            if drawn <= max {
                return drawn;
            }
        }
    }

    /// `random_sample()`: a double in [0, 1).
    pub fn random_sample(&mut self) -> f64 {
        self.mt.next_f64()
    }

    /// `uniform(low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random_sample()
    }

    /// `randint(low, high, size)` with numpy's default type; an empty range returns `low`.
    pub fn randint(&mut self, low: i64, high: i64, size: usize) -> Vec<i64> {
        let max = high.wrapping_sub(low).wrapping_sub(1).max(0) as u64;
        (0..size).map(|_| low.wrapping_add(self.interval(max) as i64)).collect()
    }

    /// `randint(0, n, size)` as positions.
    pub fn positions(&mut self, n: usize, size: usize) -> Vec<usize> {
        let max = (n as u64).saturating_sub(1);
        (0..size).map(|_| self.interval(max) as usize).collect()
    }

    /// `shuffle(items)`, of a list or of the first axis of an array.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.interval(i as u64) as usize;
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
        self.positions(n, size)
    }

    /// `choice(n, size, replace=False)`: distinct positions, at most `n`.
    pub fn choice_without_replacement(&mut self, n: usize, size: usize) -> Vec<usize> {
        let mut order = self.permutation(n);
        order.truncate(size);
        order
    }

    /// `choice(len(p), size, p=p)`: with replacement, by weights that sum to 1.
    pub fn choice_weighted(&mut self, p: &[f64], size: usize) -> Vec<usize> {
        let cumulated = cumulated_shares(p);
        (0..size)
            .map(|_| search_right(&cumulated, self.random_sample()))
            .collect()
    }

    /// `standard_normal()`: the polar method, two at a time.
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.random_sample() - 1.0;
            let y = 2.0 * self.random_sample() - 1.0;
            let r = x * x + y * y;
            if r < 1.0 && r != 0.0 {
                let scale = (-2.0 * r.ln() / r).sqrt();
                self.spare_normal = Some(scale * x);
                return scale * y;
            }
        }
    }
}
