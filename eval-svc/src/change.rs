//! Whether a transformed text differs from its original. Pure.
//!
//! A text that differs only in case, punctuation, white space or Unicode form is the original in
//! another form. A score on such texts says nothing about robustness, so the gate and the report
//! count them.

use std::collections::HashMap;

use isomer_datasets::case_folded;
use rapidfuzz::distance::levenshtein;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;

/// How far a transformed text is from its original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Both are equal after NFKC, without case, punctuation and white space.
    Unchanged,
    /// At most 15 % of the words, and at least one, were replaced, added or removed, in a text
    /// of at least two words.
    NearCopy,
    /// The original stands word for word in a longer text.
    Contained,
    /// More than that.
    Changed,
}

/// Maximum share of differing words of a near copy.
const NEAR: f64 = 0.15;

/// Maximum share of differing words for which two originals may share one rewrite.
const ALIKE: f64 = 0.5;

impl Change {
    /// Compares a text with its transformed text.
    pub fn of(original: &str, transformed: &str) -> Self {
        if original == transformed || essence(original) == essence(transformed) {
            return Self::Unchanged;
        }
        let (before, after) = (words(original), words(transformed));
        if before.len().max(after.len()) < 2 {
            return Self::Changed;
        }
        if is_within(&before, &after, NEAR) {
            return Self::NearCopy;
        }
        match before.len() {
            0 | 1 => Self::Changed,
            words if after.windows(words).any(|window| window == before) => Self::Contained,
            _ => Self::Changed,
        }
    }
}

/// Whether the word-level edit distance of two texts is at most this share of the longer one; a
/// single word is always allowed.
fn is_within(one: &[String], other: &[String], share: f64) -> bool {
    let most = ((one.len().max(other.len()) as f64 * share) as usize).max(1);
    if one.len().abs_diff(other.len()) > most {
        return false;
    }
    // rapidfuzz compares numbers, so each distinct word gets a number.
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let mut numbered = Vec::with_capacity(one.len() + other.len());
    for word in one.iter().chain(other) {
        let next = numbers.len() as u64;
        numbered.push(*numbers.entry(word).or_insert(next));
    }
    let (one, other) = numbered.split_at(one.len());
    levenshtein::distance(one.iter().copied(), other.iter().copied()) <= most
}

/// Counts the texts that have the rewrite of a text with other words; `pairs` contains each text
/// with its rewrite. Texts that share half of their words may legitimately have the same rewrite.
pub(crate) fn same_rewrites<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut by_rewrite: HashMap<String, Vec<&str>> = HashMap::new();
    for (original, rewrite) in pairs {
        by_rewrite.entry(essence(rewrite)).or_default().push(original);
    }
    let several = by_rewrite.into_values().filter(|own| own.len() > 1);
    let count = |own: Vec<&str>| -> u64 {
        let own: Vec<Vec<String>> = own.into_iter().map(words).collect();
        // If two different groups of texts share a rewrite, some text differs from the first one,
        // whichever comes first.
        let unlike = own.iter().any(|other| !is_within(&own[0], other, ALIKE));
        if unlike { own.len() as u64 } else { 0 }
    };
    several.map(count).sum()
}

/// Whether two texts have the same words in any order. Only letters and digits count: many
/// encoders read no accents, and have one token for all emoji.
pub(crate) fn same_words(one: &str, other: &str) -> bool {
    let read = |text: &str| -> String { case_folded(text).nfd().filter(|c| c.is_alphanumeric()).collect() };
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.unicode_words().map(read).filter(|word| !word.is_empty()).collect();
        words.sort_unstable();
        words
    };
    read(one) == read(other) || sorted(one) == sorted(other)
}

/// The characters that distinguish texts: compatibility forms unified, case folded, punctuation and
/// white space removed.
pub(crate) fn essence(text: &str) -> String {
    let mut folded = case_folded(text);
    folded.retain(|character| !is_mark_of_form(character));
    folded
}

/// Punctuation, white space, control and invisible formatting characters, and the selectors of
/// emoji styles.
fn is_mark_of_form(character: char) -> bool {
    let group = character.general_category_group();
    character.is_whitespace()
        || group == GeneralCategoryGroup::Punctuation
        || matches!(
            character.general_category(),
            GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::ModifierSymbol
        )
        || ('\u{fe00}'..='\u{fe0f}').contains(&character)
}

/// Words in the sense of UAX #29, each reduced to its [`essence`].
fn words(text: &str) -> Vec<String> {
    text.unicode_words()
        .map(essence)
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn form_alone_is_no_change() {
        for (before, after) in [
            ("A man plays.", "A man plays."),
            ("A man plays.", "a MAN plays"),
            ("A man plays", "A man plays."),
            ("A man  plays\n", "\u{feff}A man\u{200b} plays!"),
            ("\u{201c}Straße\u{201d}", "'STRASSE'"),
            ("ﬁne ２ cafe\u{301}", "fine 2 café"),
            ("well-known", "well known"),
            ("...", "?!"),
            ("", "  "),
            ("नमस्ते दुनिया", "नमस्ते दुनिया।"),
        ] {
            assert_eq!(Change::of(before, after), Change::Unchanged, "{before:?} {after:?}");
        }
    }

    #[test]
    fn the_same_words_in_any_order_and_form() {
        assert!(same_words("A man plays.", "plays a MAN"));
        assert!(same_words("...", "?!"));
        assert!(!same_words("A man plays.", "A man plays a man."));
        assert!(!same_words("12 books", "13 books"));
    }

    #[test]
    fn a_few_words_are_a_near_copy() {
        for (before, after) in [
            ("A man plays a guitar.", "A man plays the guitar"),
            ("A man plays a guitar.", "A tall man plays a guitar."),
            ("A man plays a guitar.", "man plays a guitar"),
            ("He paid 5 %.", "He paid 6 %."),
            (
                "The young man with the red hat plays an old guitar in front of the station.",
                "The young man with a red hat plays the old guitar in front of the station.",
            ),
        ] {
            assert_eq!(Change::of(before, after), Change::NearCopy, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_text_that_contains_the_original_has_its_own_kind() {
        let original = "A man plays a guitar.";
        for after in [
            "Well, a man plays a guitar, indeed, as people say.",
            "A man plays a guitar. A man plays a guitar.",
            "Option 1: Someone strums. Option 2: A man plays a guitar.",
        ] {
            assert_eq!(Change::of(original, after), Change::Contained, "{after:?}");
        }
        assert_eq!(Change::of("Rain.", "The rain fell all day."), Change::Changed);
        assert_eq!(
            Change::of(original, "A tall man in a coat plays his old guitar."),
            Change::Changed
        );
    }

    #[test]
    fn one_rewrite_of_several_texts_counts_if_they_have_other_words() {
        let sorry = "I'm sorry, I can't help with that.";
        let refused = [
            ("A man plays a guitar.", sorry),
            ("Dogs bark at night.", "I'm sorry, I can't help with that!"),
        ];
        assert_eq!(same_rewrites(refused), 2);
        let alike = [
            ("A man is playing a guitar.", "Someone strums."),
            ("A man plays the guitar.", "Someone strums."),
        ];
        assert_eq!(same_rewrites(alike), 0);
        assert_eq!(same_rewrites([alike[0], refused[0], alike[1], refused[1]]), 2);
        assert_eq!(same_rewrites([("one", "two"), ("three", "four")]), 0);
    }

    #[test]
    fn more_than_a_word_is_a_change_and_so_is_the_only_word_of_a_text() {
        for (before, after) in [
            ("A man plays a guitar.", "Someone strums."),
            ("plays a man", "a man plays"),
            ("guitar", "lute"),
            ("rain", ""),
            ("雨が降る。", "明日は晴れです。"),
        ] {
            assert_eq!(Change::of(before, after), Change::Changed, "{before:?} {after:?}");
        }
    }

    proptest! {
        #[test]
        fn a_text_equals_itself_in_every_form(text in "\\PC{0,60}", tail in "[ .,;!?\n]{0,5}") {
            prop_assert_eq!(Change::of(&text, &format!("{text}{tail}")), Change::Unchanged);
            prop_assert_eq!(Change::of(&text, &text.nfd().collect::<String>()), Change::Unchanged);
        }

        #[test]
        fn the_order_of_the_two_texts_does_not_matter(a in "[a-c .]{0,12}", b in "[a-c .]{0,12}") {
            let (there, back) = (Change::of(&a, &b), Change::of(&b, &a));
            let contained = [there, back].contains(&Change::Contained);
            prop_assert!(contained || there == back, "{:?} {:?}", there, back);
        }
    }
}
