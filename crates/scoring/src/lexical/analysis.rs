//! The terms of a text, as mteb's baseline `mteb/baseline-bm25s` has them: words in lower case,
//! without stop words, stemmed by Snowball. Languages that write without spaces have characters as
//! terms.
//!
//! mteb has lists of stop words for eleven languages, and this crate the one for English. In every
//! other language a term of at least 90 % of the documents counts as a stop word, which is
//! mteb's rule for languages without a list.

use std::fmt;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// Share of the documents from which on a term is a stop word, in languages without a list.
pub(super) const FREQUENT: f64 = 0.9;

/// Shortest word that is a term (bm25s: `\b\w\w+\b`).
const SHORTEST: usize = 2;

/// Lucene's English stop words, which bm25s uses.
const ENGLISH: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// Languages by their tag of two letters, with Snowball's stemmer.
const STEMMED: [(&str, Algorithm); 20] = [
    ("ar", Algorithm::Arabic),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("es", Algorithm::Spanish),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("hu", Algorithm::Hungarian),
    ("it", Algorithm::Italian),
    ("nb", Algorithm::Norwegian),
    ("nl", Algorithm::Dutch),
    ("nn", Algorithm::Norwegian),
    ("no", Algorithm::Norwegian),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sv", Algorithm::Swedish),
    ("ta", Algorithm::Tamil),
    ("tr", Algorithm::Turkish),
];

/// Languages whose terms are characters.
const CHARACTERS: [&str; 8] = ["bo", "ja", "km", "ko", "lo", "my", "th", "zh"];

/// How texts of a language become terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// The language's tag of two or three letters.
    language: String,
}

impl Analysis {
    /// The analysis of a language, given its tag (`en`, `pt-BR`). Texts without a known language
    /// count as English, as in mteb.
    pub fn of_language(tag: Option<&str>) -> Self {
        let primary = tag.unwrap_or("en").split(['-', '_']).next().unwrap_or_default();
        Self {
            language: primary.to_lowercase(),
        }
    }

    /// Whether it has a list of stop words; otherwise frequent terms are stop words.
    pub(super) fn has_stop_words(&self) -> bool {
        self.language == "en"
    }

    /// The terms of a text, in order.
    pub fn terms(&self, text: &str) -> Vec<String> {
        if CHARACTERS.contains(&self.language.as_str()) {
            let characters = text.nfkc().flat_map(char::to_lowercase);
            return characters.filter(|one| *one != ' ').map(String::from).collect();
        }
        let lower = text.to_lowercase();
        let words = lower
            .split(|one: char| !(one.is_alphanumeric() || one == '_'))
            .filter(|word| word.chars().nth(SHORTEST - 1).is_some())
            .filter(|word| !(self.has_stop_words() && ENGLISH.contains(word)));
        match STEMMED.iter().find(|(tag, _)| *tag == self.language) {
            Some((_, algorithm)) => {
                let stemmer = Stemmer::create(*algorithm);
                words.map(|word| stemmer.stem(word).into_owned()).collect()
            }
            None => words.map(str::to_owned).collect(),
        }
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(tag: Option<&str>, text: &str) -> Vec<String> {
        Analysis::of_language(tag).terms(text)
    }

    #[test]
    fn english_words_lose_case_stop_words_and_endings() {
        assert_eq!(terms(None, "The cats are RUNNING, a x2 y!"), ["cat", "run", "x2"]);
        assert_eq!(
            terms(Some("en-GB"), "well-known snake_case"),
            ["well", "known", "snake_cas"]
        );
        assert!(terms(Some("en"), "the of … — !").is_empty());
    }

    #[test]
    fn other_languages_have_their_stemmer_or_whole_words() {
        assert_eq!(terms(Some("de"), "die Häuser"), ["die", "haus"]);
        assert_eq!(terms(Some("sw"), "Habari ya asubuhi"), ["habari", "ya", "asubuhi"]);
    }

    #[test]
    fn languages_without_spaces_have_characters() {
        assert_eq!(terms(Some("zh-Hans"), "你好 ＡB"), ["你", "好", "a", "b"]);
    }
}
