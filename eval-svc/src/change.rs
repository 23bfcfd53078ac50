//! Whether a transformed text differs from its original. Pure.
//!
//! A text that differs only in case, punctuation, white space or Unicode form is the original in
//! another form. A score on such texts says nothing about robustness, so the gate and the report
//! count them.

use std::collections::HashMap;

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
    /// One word was replaced, added or removed, in a text of at least two words.
    NearCopy,
    /// More than that.
    Changed,
}

impl Change {
    /// Compares a text with its transformed text.
    pub fn of(original: &str, transformed: &str) -> Self {
        if original == transformed || essence(original) == essence(transformed) {
            return Self::Unchanged;
        }
        let (before, after) = (words(original), words(transformed));
        if before.len().max(after.len()) < 2 || before.len().abs_diff(after.len()) > 1 {
            return Self::Changed;
        }
        // rapidfuzz compares numbers, so each distinct word gets a number.
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        let mut numbered = Vec::with_capacity(before.len() + after.len());
        for word in before.iter().chain(&after) {
            let next = numbers.len() as u64;
            numbered.push(*numbers.entry(word).or_insert(next));
        }
        let (before, after) = numbered.split_at(before.len());
        if levenshtein::distance(before.iter().copied(), after.iter().copied()) <= 1 {
            Self::NearCopy
        } else {
            Self::Changed
        }
    }
}

/// Whether two texts have the same words in any order, in the sense of [`Change`].
pub(crate) fn same_words(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let mut words = words(text);
        words.sort_unstable();
        words
    };
    essence(one) == essence(other) || sorted(one) == sorted(other)
}

/// The characters that distinguish texts: compatibility forms unified, case folded, punctuation and
/// white space removed.
pub(crate) fn essence(text: &str) -> String {
    // Upper case first: it unifies letters that have several lower-case forms (`ß` and `ss`, `ς`
    // and `σ`).
    let folded: String = text
        .nfkc()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    folded.nfkc().filter(|character| !is_mark_of_form(*character)).collect()
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
    fn one_word_is_a_near_copy() {
        for (before, after) in [
            ("A man plays a guitar.", "A man plays the guitar"),
            ("A man plays a guitar.", "A tall man plays a guitar."),
            ("A man plays a guitar.", "man plays a guitar"),
            ("He paid 5 %.", "He paid 6 %."),
        ] {
            assert_eq!(Change::of(before, after), Change::NearCopy, "{before:?} {after:?}");
        }
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
            prop_assert_eq!(Change::of(&a, &b), Change::of(&b, &a));
        }
    }
}
