//! PCG64: a 128-bit linear congruential generator with the XSL-RR output (O'Neill 2014).

use super::seed_sequence::state_words;

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The generator's state, and the unused half of a 64-bit draw after a 32-bit draw.
#[derive(Debug, Clone)]
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
    spare: Option<u32>,
}

impl Pcg64 {
    /// `PCG64(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let words = state_words(seed, 4);
        let wide = |high: usize| (u128::from(words[high]) << 64) | u128::from(words[high + 1]);
        let mut pcg = Self {
            state: 0,
            increment: (wide(2) << 1) | 1,
            spare: None,
        };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(wide(0));
        pcg.step();
        pcg
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next 64 bits.
    pub(super) fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The next 32 bits: the low half of a fresh draw, then its high half.
    pub(super) fn next_u32(&mut self) -> u32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let drawn = self.next_u64();
        self.spare = Some((drawn >> 32) as u32);
        drawn as u32
    }

    /// A double in [0, 1) with 53 bits.
    pub(super) fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }
}
