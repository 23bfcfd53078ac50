//! The features of the two chains. Each feature is a template (its number) with its observed value,
//! hashed to [`BITS`] bits. Two features with the same hash share a weight; at that width this
//! affects one in several hundred.
//!
//! A change here invalidates existing model files: increment [`crate::model::VERSION`] and train
//! again.

use std::ops::Range;

use crate::Pos;

/// Bits of a feature's hash.
pub const BITS: u32 = 26;

/// Hash for a missing word: before the first token and after the last.
const NONE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The properties of a token that features use, each as a hash.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    exact: u64,
    /// Lower-case form, with each digit as `0`.
    lower: u64,
    suffixes: [u64; 4],
    prefixes: [u64; 3],
    /// `Xxxx`, `dddd`; runs are capped at four.
    shape: u64,
    /// `Xx`, `d`.
    short_shape: u64,
    capital: bool,
    all_capitals: bool,
    digit: bool,
    hyphen: bool,
    letters: bool,
    /// Whether it is the first of the text, or follows a full stop or an opening quote.
    opens: bool,
}

const EDGE: Word = Word {
    exact: NONE,
    lower: NONE,
    suffixes: [NONE; 4],
    prefixes: [NONE; 3],
    shape: NONE,
    short_shape: NONE,
    capital: false,
    all_capitals: false,
    digit: false,
    hyphen: false,
    letters: false,
    opens: false,
};

#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn push(&mut self, value: u32) {
        self.0 = (self.0 ^ u64::from(value)).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}

fn hash(chars: impl IntoIterator<Item = char>) -> u64 {
    let mut hash = Hash::new();
    for c in chars {
        hash.push(c as u32);
    }
    hash.0
}

impl Word {
    fn new(token: &str, opens: bool, scratch: &mut Vec<char>) -> Self {
        let mut word = Self {
            opens,
            all_capitals: true,
            ..EDGE
        };
        scratch.clear();
        let (mut exact, mut shape, mut short) = (Hash::new(), Hash::new(), Hash::new());
        let (mut run, mut last) = (0, '\0');
        for (nth, original) in token.chars().enumerate() {
            // Variants of the apostrophe and of quotes are unified.
            let c = match original {
                '’' | '‘' | '`' | '´' => '\'',
                '“' | '”' => '"',
                other => other,
            };
            exact.push(c as u32);
            let kind = if c.is_ascii_digit() || c.is_numeric() {
                word.digit = true;
                'd'
            } else if c.is_uppercase() {
                word.capital |= nth == 0;
                word.letters = true;
                'X'
            } else if c.is_alphabetic() {
                word.all_capitals = false;
                word.letters = true;
                'x'
            } else {
                word.hyphen |= c == '-';
                c
            };
            run = if kind == last { run + 1 } else { 1 };
            if run == 1 {
                short.push(kind as u32);
            }
            if run <= 4 {
                shape.push(kind as u32);
            }
            last = kind;
            if kind == 'd' {
                scratch.push('0');
            } else {
                scratch.extend(c.to_lowercase());
            }
        }
        word.all_capitals &= word.letters && scratch.len() > 1;
        (word.exact, word.shape, word.short_shape) = (exact.0, shape.0, short.0);
        word.lower = hash(scratch.iter().copied());
        for (len, suffix) in (1..).zip(&mut word.suffixes) {
            *suffix = hash(scratch.iter().copied().skip(scratch.len().saturating_sub(len)));
        }
        for (len, prefix) in (1..).zip(&mut word.prefixes) {
            *prefix = hash(scratch.iter().copied().take(len));
        }
        word
    }
}

/// The words of a text's tokens. A span outside the text gives an empty word.
pub fn words(text: &str, spans: &[Range<usize>]) -> Vec<Word> {
    let mut scratch = Vec::new();
    let mut opens = true;
    spans
        .iter()
        .map(|span| {
            let token = text.get(span.clone()).unwrap_or_default();
            let word = Word::new(token, opens, &mut scratch);
            opens = matches!(
                token,
                "." | "!" | "?" | ":" | "\"" | "“" | "''" | "``" | "‘" | "(" | "..."
            ) || (opens && !word.letters && !word.digit);
            word
        })
        .collect()
}

fn at(words: &[Word], index: usize, offset: isize) -> &Word {
    index
        .checked_add_signed(offset)
        .and_then(|index| words.get(index))
        .unwrap_or(&EDGE)
}

fn mix(template: u64, a: u64, b: u64) -> u32 {
    let mut h = (a ^ template.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 32;
    h = (h ^ b.rotate_left(17)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    h ^= h >> 28;
    (h.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - BITS)) as u32
}

/// Collects features under consecutive template numbers.
struct Features<'a> {
    out: &'a mut Vec<u32>,
    template: u64,
}

impl Features<'_> {
    fn one(&mut self, a: u64) {
        self.two(a, 0);
    }

    fn two(&mut self, a: u64, b: u64) {
        self.template += 1;
        self.out.push(mix(self.template, a, b));
    }
}

/// Appends a token's features for its part of speech to `out`.
pub fn of_pos(words: &[Word], index: usize, out: &mut Vec<u32>) {
    out.clear();
    let mut f = Features { out, template: 0 };
    let w = at(words, index, 0);
    let (before, before2) = (at(words, index, -1), at(words, index, -2));
    let (after, after2) = (at(words, index, 1), at(words, index, 2));
    f.one(0);
    f.one(w.exact);
    f.one(w.lower);
    for suffix in w.suffixes {
        f.one(suffix);
    }
    for prefix in w.prefixes {
        f.one(prefix);
    }
    f.two(w.shape, w.opens.into());
    f.two(w.short_shape, w.suffixes[2]);
    f.two(
        u64::from(w.capital) | u64::from(w.all_capitals) << 1 | u64::from(w.digit) << 2 | u64::from(w.hyphen) << 3,
        u64::from(w.opens) | u64::from(before.capital) << 1 | u64::from(after.capital) << 2,
    );
    f.one(before.lower);
    f.one(after.lower);
    f.one(before2.lower);
    f.one(after2.lower);
    f.two(before.lower, w.lower);
    f.two(w.lower, after.lower);
    f.two(before2.lower, before.lower);
    f.two(after.lower, after2.lower);
    f.two(before.lower, after.lower);
    f.two(before.suffixes[2], w.suffixes[2]);
    f.two(w.suffixes[2], after.suffixes[2]);
    f.two(before.suffixes[1], after.suffixes[1]);
    f.one(before.suffixes[2]);
    f.one(after.suffixes[2]);
    f.one(after.short_shape);
    f.one(before.short_shape);
}

/// The run of capitalised words that contains a token.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Its first token.
    start: usize,
    end: usize,
}

/// For each token, the run of capitalised words that contains it (`of` and `the` may be inside), or
/// the token alone.
pub fn capital_runs(words: &[Word]) -> Vec<Run> {
    let mut runs: Vec<Run> = (0..words.len()).map(|at| Run { start: at, end: at + 1 }).collect();
    let joins = [
        hash("of".chars()),
        hash("the".chars()),
        hash("and".chars()),
        hash("&".chars()),
        hash("-".chars()),
        hash("'s".chars()),
    ];
    let mut start = 0;
    while start < words.len() {
        if !words[start].capital {
            start += 1;
            continue;
        }
        let mut end = start + 1;
        loop {
            let next = |offset: usize| words.get(end + offset).is_some_and(|word| word.capital);
            let joined = |offset: usize| words.get(end + offset).is_some_and(|word| joins.contains(&word.lower));
            if next(0) {
                end += 1;
            } else if joined(0) && next(1) {
                end += 2;
            } else {
                break;
            }
        }
        runs[start..end].fill(Run { start, end });
        start = end;
    }
    runs
}

/// Appends the features that determine a token's entity to `out`.
pub fn of_entity(words: &[Word], pos: &[Pos], runs: &[Run], index: usize, out: &mut Vec<u32>) {
    out.clear();
    let mut f = Features { out, template: 100 };
    let w = at(words, index, 0);
    let (before, before2) = (at(words, index, -1), at(words, index, -2));
    let (after, after2) = (at(words, index, 1), at(words, index, 2));
    let tag = |offset: isize| {
        index
            .checked_add_signed(offset)
            .and_then(|index| pos.get(index))
            .map_or(99, |pos| *pos as u64)
    };
    f.one(0);
    f.one(w.exact);
    f.one(w.lower);
    f.one(w.shape);
    f.two(w.short_shape, w.opens.into());
    for suffix in &w.suffixes[1..] {
        f.one(*suffix);
    }
    for prefix in &w.prefixes[1..] {
        f.one(*prefix);
    }
    f.one(before.lower);
    f.one(after.lower);
    f.one(before2.lower);
    f.one(after2.lower);
    f.two(before.lower, w.lower);
    f.two(w.lower, after.lower);
    f.two(before2.lower, before.lower);
    f.two(after.lower, after2.lower);
    f.two(before.short_shape, w.lower);
    f.two(w.lower, after.short_shape);
    f.two(before.lower, w.short_shape);
    f.two(w.short_shape, after.lower);
    f.two(before.short_shape ^ w.short_shape.rotate_left(21), after.short_shape);
    f.two(w.suffixes[2], w.short_shape);
    f.one(tag(0));
    f.one(tag(-1) | tag(0) << 8);
    f.one(tag(0) | tag(1) << 8);
    f.one(tag(-1) | tag(0) << 8 | tag(1) << 16);
    f.one(tag(-2) | tag(-1) << 8 | tag(0) << 16);
    f.two(w.lower, tag(-1) | tag(1) << 8);
    f.two(w.shape, before.shape);
    f.two(w.shape, after.shape);
    let Run { start, end } = runs.get(index).copied().unwrap_or(Run {
        start: index,
        end: index + 1,
    });
    if !w.capital && end - start == 1 {
        return;
    }
    // The first and last word of a name and its surroundings indicate the kind of name.
    let place = u64::from(index == start) | u64::from(index + 1 == end) << 1 | ((end - start).min(4) as u64) << 2;
    let (first, last) = (words[start], words[end - 1]);
    let (left, right) = (at(words, start, -1), at(words, end, 0));
    f.template += 10;
    f.one(place);
    f.two(last.lower, u64::from(index + 1 == end));
    f.two(first.lower, u64::from(index == start));
    f.one(left.lower);
    f.one(right.lower);
    f.two(left.lower, right.lower);
    f.two(last.lower, left.lower);
    f.two(last.suffixes[2], place);
    f.two(at(words, start, -2).lower, left.lower);
    f.two(right.lower, at(words, end, 1).lower);
    f.two(place, left.lower);
    f.two(place, right.lower);
    f.two(first.lower, last.lower);
}
