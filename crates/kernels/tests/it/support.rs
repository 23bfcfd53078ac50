//! Random inputs, and threads to compute on.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| random.random_range(-1.0..1.0)).collect()
}

pub(crate) fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
        .install(work)
}
