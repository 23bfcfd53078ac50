//! A noised text while it is written: draws of the units, and replacements in order.
//!
//! Numbers come from SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014) as a function of a key and a counter. Units are
//! drawn without state, and no crate's version changes them.

use std::ops::Range;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Further draws of a unit that changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    state: u64,
}

impl Pick {
    /// A uniform index below `n`, which is at least 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_add(STEP);
        ((u128::from(mix(self.state)) * n as u128) >> 64) as usize
    }

    /// One of several.
    pub(crate) fn of<'a, T>(&mut self, options: &'a [T]) -> Option<&'a T> {
        if options.is_empty() {
            return None;
        }
        options.get(self.below(options.len()))
    }
}

/// A text in which units are replaced from left to right.
pub(crate) struct Draft<'a> {
    source: &'a str,
    out: String,
    /// Bytes of the source that are in `out`, or replaced.
    done: usize,
    key: u64,
    share: f64,
    /// A unit changes if its number is below.
    threshold: u64,
    eligible: usize,
    changed: Vec<u32>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(source: &'a str, channel: &str, share: f64, seed: u64) -> Self {
        let key = mix(mix(seed ^ hash(channel.as_bytes())).wrapping_add(hash(source.as_bytes())));
        Self {
            source,
            out: String::with_capacity(source.len() + source.len() / 8 + 16),
            done: 0,
            key,
            share,
            threshold: (share * 2_f64.powi(64)) as u64,
            eligible: 0,
            changed: Vec::new(),
        }
    }

    /// Counts an eligible unit. Its further draws, if it changes.
    pub(crate) fn unit(&mut self) -> Option<Pick> {
        let unit = self.eligible as u64;
        self.eligible += 1;
        let number = mix(self.key.wrapping_add((unit + 1).wrapping_mul(STEP)));
        (number < self.threshold).then(|| {
            self.changed.push(unit as u32);
            Pick {
                state: mix(number ^ STEP),
            }
        })
    }

    /// Counts `n` eligible units, of which the last ones change: as many as the share, rounded up
    /// with the probability of its fraction, but at most as `limit` permits. The number of them.
    pub(crate) fn last_units(&mut self, n: usize, limit: impl FnOnce(usize) -> usize) -> usize {
        let uniform = (mix(self.key) >> 11) as f64 / (1_u64 << 53) as f64;
        let cut = limit(((self.share * n as f64 + uniform) as usize).min(n));
        self.eligible = n;
        self.changed = (n - cut..n).map(|unit| unit as u32).collect();
        cut
    }

    /// Keeps the source up to a range and leaves that out. The replacement is pushed to the result.
    pub(crate) fn replace(&mut self, range: Range<usize>) -> &mut String {
        self.out.push_str(&self.source[self.done..range.start]);
        self.done = range.end;
        &mut self.out
    }

    /// Eligible units so far.
    pub(crate) fn eligible(&self) -> usize {
        self.eligible
    }

    /// Numbers of the units that changed.
    pub(crate) fn changed(&self) -> &[u32] {
        &self.changed
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str(&self.source[self.done..]);
        self.out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The first outputs of S. Vigna's `splitmix64.c` with seed 1234567, as Rosetta Code lists
    /// them.
    #[test]
    fn numbers_are_those_of_split_mix_64() {
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        for (at, expected) in (1_u64..).zip(expected) {
            assert_eq!(mix(1_234_567_u64.wrapping_add(at.wrapping_mul(STEP))), expected);
        }
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn units_beyond_the_last_replacement_are_kept() {
        let mut draft = Draft::new("abcdef", "x", 0.5, 1);
        draft.replace(1..2).push('X');
        draft.replace(3..5).push_str("YZ!");
        assert_eq!(draft.finish(), "aXcYZ!f");
    }

    #[test]
    fn the_last_units_are_as_many_as_the_share_on_average() {
        let cut: usize = (0..4000)
            .map(|seed| Draft::new("x", "truncation", 0.1, seed).last_units(7, |cut| cut))
            .sum();
        // 0.7 each; the standard deviation of the sum is 29.
        assert!((2684..=2916).contains(&cut), "{cut}");
    }
}
