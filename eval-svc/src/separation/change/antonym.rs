//! `antonym`: replaces one English word with its opposite, in the same form.
//!
//! The list `antonyms.txt` was written for Isomer: common words whose opposite hardly depends on
//! the context, with every form listed, so that `bigger` becomes `smaller` and `arrived` becomes
//! `left`. A word matches only under a part of speech of its row: `left` is a verb in one row and a
//! side in another.

use std::sync::LazyLock;

use isomer_tagger::Pos;

use super::words::{English, drawn};

struct Pair {
    parts: Vec<Pos>,
    left: &'static str,
    right: &'static str,
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let pair = |line: &'static str| {
        let mut columns = line.split(" | ");
        Some(Pair {
            parts: columns.next()?.split(' ').filter_map(Pos::named).collect(),
            left: columns.next()?,
            right: columns.next()?,
        })
    };
    let lines = include_str!("antonyms.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(pair).collect()
});

/// The text with one word replaced; `parts` determine the draw among the words and, if a word is in
/// several rows, among the rows.
pub(super) fn exchanged(text: &English<'_>, parts: &[&str], seed: u64) -> Option<String> {
    let mut places: Vec<(usize, &'static str)> = Vec::new();
    for (at, word) in text.words.iter().enumerate() {
        places.extend(opposites(&word.lower, word.pos).map(|opposite| (at, opposite)));
    }
    let (at, opposite) = places.get(drawn(parts, seed, places.len()))?;
    text.replaced(*at, opposite)
}

/// Opposites of a word under a part of speech, in its form.
fn opposites(word: &str, pos: Pos) -> impl Iterator<Item = &'static str> {
    let rows = PAIRS.iter().filter(move |pair| pair.parts.contains(&pos));
    rows.filter_map(move |pair| {
        let across = |from: &'static str, to: &'static str| {
            let form = from.split(' ').position(|form| form == word)?;
            to.split(' ').nth(form)
        };
        across(pair.left, pair.right).or_else(|| across(pair.right, pair.left))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_pair_have_as_many_forms_and_differ_in_each() {
        assert_eq!(PAIRS.len(), 143);
        for pair in PAIRS.iter() {
            assert!(!pair.parts.is_empty(), "{}", pair.left);
            let [left, right] = [pair.left, pair.right].map(|forms| forms.split(' ').collect::<Vec<&str>>());
            assert_eq!(left.len(), right.len(), "{left:?} {right:?}");
            assert!(
                left.iter()
                    .zip(&right)
                    .all(|(a, b)| a != b && !a.is_empty() && !b.is_empty())
            );
        }
    }
}
