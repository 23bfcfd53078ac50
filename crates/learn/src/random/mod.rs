//! Random streams of other libraries, bit for bit: the same seed gives the same draws.
//!
//! * [`PythonRandom`]: CPython's `random.Random`.
//! * [`NumpyLegacy`]: numpy's `RandomState`, whose stream numpy guarantees.
//! * [`NumpyGenerator`]: numpy's `default_rng`, PCG64 seeded through `SeedSequence`.

mod generator;
mod legacy;
mod mt19937;
mod pcg64;
mod python;
mod seed_sequence;

pub use generator::NumpyGenerator;
pub use legacy::NumpyLegacy;
pub use python::PythonRandom;

/// The smallest mask of ones that covers `max`.
const fn mask_of(max: u64) -> u64 {
    if max == 0 { 0 } else { u64::MAX >> max.leading_zeros() }
}

/// Two 32-bit words as a double in [0, 1) with 53 bits, as in Mersenne Twister libraries.
fn double_of(high: u32, low: u32) -> f64 {
    (f64::from(high >> 5) * 67_108_864.0 + f64::from(low >> 6)) / 9_007_199_254_740_992.0
}

/// Index of the first cumulative sum above `at`; the last one if rounding leaves none.
fn search_right(cumulated: &[f64], at: f64) -> usize {
    cumulated
        .partition_point(|share| *share <= at)
        .min(cumulated.len().saturating_sub(1))
}

/// Cumulative sums of normalised weights, the last one exactly 1.
fn cumulated_shares(weights: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut cumulated: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += w;
            sum
        })
        .collect();
    for share in &mut cumulated {
        *share /= sum;
    }
    cumulated
}
