//! Random streams: stream `i` of a seed belongs to resample `i`, whichever thread computes it.
//!
//! Implemented on ChaCha8's words instead of with `rand`, so that results survive changes in that
//! crate, and so that the fixtures' script can draw the same numbers.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};

use crate::special::normal_quantile;

/// Random numbers of one resample.
pub type Stream = ChaCha8Rng;

/// The stream of one resample.
pub fn stream(seed: u64, index: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index as u64);
    rng
}

/// A uniform index below `n`, by Lemire's multiplication; the bias is below n / 2^64.
pub fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// A uniform number in (0, 1): 53 bits, at the midpoint of their step.
pub fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// A standard normal number, by inversion.
pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    normal_quantile(uniform(rng))
}

/// Shuffles in place (Fisher and Yates, from the end).
pub fn shuffle<T>(rng: &mut ChaCha8Rng, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i + 1));
    }
}
