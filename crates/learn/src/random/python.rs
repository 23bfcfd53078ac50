//! CPython's `random.Random` (3.9 to 3.14 give the same draws).

use std::collections::HashSet;

use super::mt19937::Mt19937;

/// `random.Random(seed)`.
#[derive(Debug, Clone)]
pub struct PythonRandom {
    mt: Mt19937,
}

impl PythonRandom {
    /// `random.Random(seed)`. CPython takes the absolute value of a negative seed; here the caller
    /// does.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = if high == 0 { vec![low] } else { vec![low, high] };
        Self {
            mt: Mt19937::from_key(&key),
        }
    }

    /// `random()`: a double in [0, 1).
    pub fn random(&mut self) -> f64 {
        self.mt.next_f64()
    }

    /// `getrandbits(bits)` for at most 64 bits.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        let bits = bits.min(64);
        match bits {
            0 => 0,
            1..=32 => u64::from(self.mt.next_u32() >> (32 - bits)),
            _ => {
                let low = u64::from(self.mt.next_u32());
                let high = u64::from(self.mt.next_u32() >> (64 - bits));
                low | (high << 32)
            }
        }
    }

    /// `_randbelow(n)`: a number in [0, n), by rejection. For 0 it returns 0.
    pub fn randbelow(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let drawn = self.getrandbits(bits);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// `sample(range(n), k)`: distinct positions in the order drawn. At most `n` are drawn.
    pub fn sample(&mut self, n: usize, k: usize) -> Vec<usize> {
        let k = k.min(n);
        // A small population is kept as a pool of positions not drawn, a large one as a set of
        // positions drawn.
        let mut pool_up_to = 21_usize;
        if k > 5 {
            let power = ((k as f64 * 3.0).ln() / 4_f64.ln()).ceil();
            pool_up_to = pool_up_to.saturating_add(4_f64.powf(power) as usize);
        }
        if n <= pool_up_to {
            let mut pool: Vec<usize> = (0..n).collect();
            return (0..k)
                .map(|i| {
                    let j = self.randbelow((n - i) as u64) as usize;
                    let drawn = pool[j];
                    pool[j] = pool[n - i - 1];
                    drawn
                })
                .collect();
        }
        let mut drawn = HashSet::with_capacity(k);
        (0..k)
            .map(|_| {
                loop {
                    let j = self.randbelow(n as u64) as usize;
                    if drawn.insert(j) {
                        return j;
                    }
                }
            })
            .collect()
    }

    /// `choices(range(n), k=k)`: positions with replacement. Empty if `n` is 0.
    pub fn choices(&mut self, n: usize, k: usize) -> Vec<usize> {
        if n == 0 {
            return Vec::new();
        }
        (0..k).map(|_| (self.random() * n as f64).floor() as usize).collect()
    }

    /// `shuffle(items)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.randbelow(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}
