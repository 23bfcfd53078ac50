//! Random draws as pure functions of their inputs: never of request order, thread or clock.

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Upper bound of seeds sent to generators, so that servers with 31-bit seeds accept them.
const SEED_BITS: u64 = (1 << 31) - 1;

/// A random number generator determined by a seed and a path of names. Parts are length-prefixed:
/// `["ab", "c"]` and `["a", "bc"]` differ.
pub fn rng(seed: u64, path: &[&str]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for part in path {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// A permutation of `0..n`.
pub fn permutation(seed: u64, path: &[&str], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut rng(seed, path));
    order
}

/// The seed of an attempt on a text: for the first attempt the run's own, for a retry one derived
/// from (seed, text, attempt).
pub fn of_attempt(seed: u64, text_key: &str, attempt: u32) -> u64 {
    match attempt {
        0 => seed,
        _ => rng(seed, &["attempt", text_key, &attempt.to_string()]).random::<u64>() & SEED_BITS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_part_and_on_nothing_else() {
        let a = rng(1, &["x", "yz"]).random::<u64>();
        assert_eq!(a, rng(1, &["x", "yz"]).random::<u64>());
        assert_ne!(a, rng(2, &["x", "yz"]).random::<u64>());
        assert_ne!(a, rng(1, &["xy", "z"]).random::<u64>());
    }

    #[test]
    fn the_first_attempt_has_the_runs_own_seed_and_retries_have_new_ones() {
        assert_eq!(of_attempt(1337, "t", 0), 1337);
        let retries = [
            of_attempt(1337, "t", 1),
            of_attempt(1337, "t", 2),
            of_attempt(1338, "t", 1),
            of_attempt(1337, "u", 1),
        ];
        for (i, a) in retries.iter().enumerate() {
            assert!(*a <= SEED_BITS);
            assert!(retries[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn a_permutation_holds_every_index_once() {
        let mut order = permutation(7, &["p"], 10);
        order.sort_unstable();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }
}
