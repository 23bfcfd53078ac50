//! Changes of meaning made by rule: one small edit that gives a text another meaning.
//!
//! Each rule is a pure function of (seed, text id, text, names of the data set), and returns `None`
//! if it does not apply. Its result differs from the text in letters or digits, and by at most
//! [`MOST_WORDS_MORE`] in the number of words; any other result is discarded.

mod antonym;
mod entity;
mod negation;
mod number;
#[cfg(test)]
mod tests;
mod words;

use isomer_tagger::Tagger;

pub(crate) use entity::Names;
use words::English;
pub(super) use words::drawn;

use super::Kind;
use crate::{change::Change, profile::is_english};

/// Maximum number of words that a change may add or remove.
pub(crate) const MOST_WORDS_MORE: usize = 2;

/// An English text of some length contains at least one of these words. A text whose data set names
/// no language is checked for them, so that English rules are not applied to a Danish text.
const ENGLISH_WORDS: [&str; 24] = [
    "the", "a", "an", "and", "of", "to", "is", "are", "was", "were", "with", "for", "this", "that", "it", "my", "you",
    "your", "his", "her", "not", "from", "at", "should",
];

/// Frequent words of other languages in Latin script that are not English words. A text with one of
/// them in lower case is not English, even if it also has a word that both languages have (`is` and
/// `was` in Dutch, `an` in German, `for` in Danish, `a` in Spanish).
const OTHER_WORDS: [&str; 49] = [
    "der", "das", "und", "ist", "nicht", "ein", "eine", "mit", "von", "dem", "zu", "auf", // German
    "het", "een", "niet", "zijn", "deze", // Dutch
    "og", "det", "ikke", "som", "och", "att", "inte", // Danish, Norwegian, Swedish
    "el", "los", "las", "una", "pero", "por", "que", // Spanish
    "les", "dans", "est", "pas", "une", "qui", // French
    "il", "che", "di", "della", "sono", // Italian
    "um", "uma", "não", // Portuguese
    "nie", "jest", // Polish
    "bir", "ve", // Turkish
];

/// Whether a text without a named language looks English.
fn looks_english(text: &str) -> bool {
    let words = || text.split(|c: char| !c.is_alphabetic());
    let english = words().any(|word| ENGLISH_WORDS.contains(&word.to_lowercase().as_str()));
    // Capitalised words are not checked, since they may be names: `Los Angeles`.
    english && !words().any(|word| OTHER_WORDS.contains(&word))
}

/// A text that rules are applied to, analysed once.
pub(crate) struct TextAnalysis<'a> {
    text: &'a str,
    language: Option<&'a str>,
    english: Option<English<'a>>,
}

impl<'a> TextAnalysis<'a> {
    /// Analyses a text; `language`: the data set's language, if it names one.
    pub(crate) fn new(text: &'a str, language: Option<&'a str>) -> Self {
        let english = match language {
            Some(language) => is_english(language),
            None => looks_english(text),
        };
        // The model is part of the binary, so reading it fails only if the build is broken. In that
        // case no English rule applies.
        let tagger = Tagger::english().ok().filter(|_| english);
        Self {
            text,
            language,
            english: tagger.map(|tagger| English::new(tagger, text)),
        }
    }

    /// Adds the text's names to those of its data set.
    pub(crate) fn name(&self, names: &mut Names) {
        if let Some(english) = &self.english {
            names.add(english);
        }
    }

    /// The text with its meaning changed; `None` if the rule does not apply.
    pub(crate) fn change(&self, kind: Kind, seed: u64, id: &str, names: &Names) -> Option<String> {
        let parts = [kind.name(), id, self.text];
        let english = self.english.as_ref();
        let made = match kind {
            Kind::Negation => match (english, self.language) {
                (Some(english), _) => negation::english(english),
                (None, Some(language)) => negation::other(self.text, primary(language)),
                (None, None) => None,
            },
            Kind::Number => number::changed(self.text, english, &parts, seed),
            Kind::Antonym => antonym::exchanged(english?, &parts, seed),
            Kind::Entity => entity::exchanged(english?, names, &parts, seed),
            // The transform service makes these copies.
            Kind::MultiSwap | Kind::Distractors => None,
        };
        made.filter(|made| differs(self.text, made) && words(self.text).abs_diff(words(made)) <= MOST_WORDS_MORE)
    }
}

/// Whether two texts differ in more than Unicode form, letter case, marks and white space.
pub(crate) fn differs(left: &str, right: &str) -> bool {
    Change::of(left, right) != Change::Unchanged
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The two-letter code of a language tag's first part, for the languages with rules of their own.
fn primary(tag: &str) -> &str {
    let first = tag.split(['-', '_']).next().unwrap_or_default();
    match first {
        "deu" | "ger" => "de",
        "spa" => "es",
        "fra" | "fre" => "fr",
        "ita" => "it",
        "por" => "pt",
        "nld" | "dut" => "nl",
        "swe" => "sv",
        other => other,
    }
}
