//! Mutations of corpus entries; the same seed gives the same mutations.

use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

/// Bytes and words that readers tend to treat specially.
const ODD: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\0\0\0\x80",
    b"-1",
    b"18446744073709551615",
    b"1e999",
    b"null",
    b"[[[[[[[[",
    b"{\"\":",
    b"\"",
    b"\\u0000",
    b"../",
    b"\n",
    b"\r\n",
    b"\xe2\x80\xae",
    b"\xf0\x9f\x92\xa9",
];

/// Makes mutated copies of corpus entries.
#[derive(Debug)]
pub struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    /// The same seed gives the same mutations.
    pub fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A mutated copy of one of the entries, at most `longest` bytes long.
    pub fn next(&mut self, entries: &[Vec<u8>], longest: usize) -> Vec<u8> {
        let mut bytes = entries.choose(&mut self.random).cloned().unwrap_or_default();
        for _ in 0..self.random.random_range(1..=4) {
            self.change(&mut bytes, entries);
        }
        bytes.truncate(longest);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, entries: &[Vec<u8>]) {
        let random = &mut self.random;
        let at = random.random_range(0..=bytes.len());
        let end = random.random_range(at..=bytes.len());
        match random.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => {
                bytes.drain(at..end);
            }
            4 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                if let Some(other) = entries.choose(random).filter(|other| !other.is_empty()) {
                    let from = random.random_range(0..other.len());
                    bytes.splice(at..end, other[from..].iter().copied());
                }
            }
            _ => {
                if let Some(odd) = ODD.choose(random) {
                    bytes.splice(at..at, odd.iter().copied());
                }
            }
        }
    }
}
