//! Distance of a transformed text from its original. Pure functions of the two texts.
//!
//! Words are those of [`crate::words`] in lower case, so that a change of case alone adds no
//! distance.

use std::collections::{HashMap, HashSet};

use rapidfuzz::distance::levenshtein;

use crate::words;

/// The three measures of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    /// Word-level Levenshtein distance divided by the larger word count, 0 (same words in the same
    /// order) to 1 (PTEB).
    pub edit_distance: f64,
    /// Word-level Jaccard similarity of the two sets of words, 0 to 1.
    pub jaccard: f64,
    /// Words of the transformed text divided by words of the original; 0 if the original has none.
    pub length_ratio: f64,
}

/// Measures a pair. Two texts without words are equal: distance 0, similarity 1.
pub fn measure(original: &str, transformed: &str) -> Measures {
    let (original_lower, transformed_lower) = (original.to_lowercase(), transformed.to_lowercase());
    let (a, b) = (words::words(&original_lower), words::words(&transformed_lower));
    let longest = a.len().max(b.len());
    let edit_distance = match longest {
        0 => 0.0,
        _ => {
            // rapidfuzz compares numbers, so each distinct word gets one.
            let mut numbers: HashMap<&str, u64> = HashMap::new();
            let mut number = |word| {
                let next = numbers.len() as u64;
                *numbers.entry(word).or_insert(next)
            };
            let a: Vec<u64> = a.iter().map(|word| number(word)).collect();
            let b: Vec<u64> = b.iter().map(|word| number(word)).collect();
            levenshtein::distance(a, b) as f64 / longest as f64
        }
    };
    let (set_a, set_b): (HashSet<_>, HashSet<_>) = (a.iter().collect(), b.iter().collect());
    let union = set_a.union(&set_b).count();
    let jaccard = match union {
        0 => 1.0,
        _ => set_a.intersection(&set_b).count() as f64 / union as f64,
    };
    let (count_a, count_b) = (words::count(original), words::count(transformed));
    let length_ratio = if count_a == 0 {
        0.0
    } else {
        count_b as f64 / count_a as f64
    };
    Measures {
        edit_distance,
        jaccard,
        length_ratio,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} != {b}");
    }

    #[test]
    fn equal_texts_are_at_distance_zero_whatever_their_case_and_punctuation() {
        let m = measure("A man plays.", "a MAN plays!");
        close(m.edit_distance, 0.0);
        close(m.jaccard, 1.0);
        close(m.length_ratio, 1.0);
    }

    #[test]
    fn one_word_replaced_of_four() {
        let m = measure("the cat sat down", "the dog sat down");
        close(m.edit_distance, 0.25);
        close(m.jaccard, 3.0 / 5.0);
    }

    #[test]
    fn insertions_count_against_the_longer_text() {
        let m = measure("cats sleep", "most cats sleep all day");
        close(m.edit_distance, 3.0 / 5.0);
        close(m.length_ratio, 2.5);
    }

    #[test]
    fn nothing_in_common_is_one_and_zero() {
        let m = measure("red car", "blue house");
        close(m.edit_distance, 1.0);
        close(m.jaccard, 0.0);
    }

    #[test]
    fn an_original_without_words_has_ratio_zero() {
        close(measure("...", "some words").length_ratio, 0.0);
        close(measure("", "").edit_distance, 0.0);
    }

    proptest! {
        #[test]
        fn measures_stay_in_bounds_and_are_symmetric(a in "\\PC{0,40}", b in "\\PC{0,40}") {
            let (ab, ba) = (measure(&a, &b), measure(&b, &a));
            prop_assert!((0.0..=1.0).contains(&ab.edit_distance));
            prop_assert!((0.0..=1.0).contains(&ab.jaccard));
            prop_assert!(ab.length_ratio >= 0.0);
            prop_assert!((ab.edit_distance - ba.edit_distance).abs() < 1e-12);
            prop_assert!((ab.jaccard - ba.jaccard).abs() < 1e-12);
        }
    }
}
