//! Mersenne Twister MT19937 with both of its customary seedings (Matsumoto and Nishimura 1998,
//! 2002).

const WORDS: usize = 624;
const SHIFT: usize = 397;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7fff_ffff;

/// The generator's state.
#[derive(Clone)]
pub(super) struct Mt19937 {
    state: [u32; WORDS],
    next: usize,
}

impl Mt19937 {
    /// Seeds with one word (`init_genrand`).
    pub(super) fn from_word(seed: u32) -> Self {
        let mut state = [0; WORDS];
        state[0] = seed;
        for i in 1..WORDS {
            let last = state[i - 1];
            state[i] = 1_812_433_253_u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(i as u32);
        }
        Self { state, next: WORDS }
    }

    /// Seeds with a key of any length (`init_by_array`). An empty key counts as the key 0.
    pub(super) fn from_key(key: &[u32]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut mt = Self::from_word(19_650_218);
        let state = &mut mt.state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..WORDS.max(key.len()) {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ (last >> 30)).wrapping_mul(1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i += 1;
            j += 1;
            if i == WORDS {
                state[0] = state[WORDS - 1];
                i = 1;
            }
            if j == key.len() {
                j = 0;
            }
        }
        for _ in 1..WORDS {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ (last >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i == WORDS {
                state[0] = state[WORDS - 1];
                i = 1;
            }
        }
        state[0] = UPPER;
        mt
    }

    fn refill(&mut self) {
        for i in 0..WORDS {
            let y = (self.state[i] & UPPER) | (self.state[(i + 1) % WORDS] & LOWER);
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % WORDS] ^ (y >> 1) ^ twist;
        }
        self.next = 0;
    }

    /// The next 32 bits.
    pub(super) fn next_u32(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A double in [0, 1) from two words.
    pub(super) fn next_f64(&mut self) -> f64 {
        let high = self.next_u32();
        let low = self.next_u32();
        super::double_of(high, low)
    }
}

impl std::fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mt19937")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
