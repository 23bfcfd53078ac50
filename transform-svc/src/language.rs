//! Languages: reading tags, naming them for a prompt, detecting them, drawing a target.
//!
//! Detection is cld2's, which told all of 47 test languages apart, the African ones included, at microseconds a
//! sentence. On short texts it guesses; [`detect`] then answers "too short to tell" (`None`) rather than guess.

use cld2::{Format, Reliability};
use unicode_segmentation::UnicodeSegmentation;

use crate::seed;

/// ISO 639-1 (or -3 where there is none), ISO 639-3, English name.
const NAMES: &[(&str, &str, &str)] = &include!("language_names.in");

/// Target languages of `translation` and `cross_translation` (HTEB).
pub const TARGETS: [&str; 5] = ["es", "fr", "de", "tr", "ar"];

/// Languages that cld2 confuses on short texts, or that are one language under two names.
const SAME: &[&[&str]] = &[
    &["hr", "bs", "sr"],
    &["no", "nb", "nn", "da"],
    &["id", "ms"],
    &["he", "iw"],
    &["jv", "jw"],
    &["tl", "fil"],
    &["gl", "pt"],
    &["cs", "sk"],
    &["zh", "yue"],
    &["rw", "rn"],
    &["zu", "xh", "ss", "nr"],
    &["tn", "st", "nso"],
    &["hi", "mr", "ne", "bh"],
];

/// A known language. Compare with [`Language::matches`], which forgives what a detector cannot tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language {
    code: &'static str,
    name: &'static str,
}

impl Language {
    /// Reads a BCP-47 tag: the primary subtag counts (`pt-BR` is Portuguese, `eng-Latn` English). `None` when unknown.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.split(['-', '_']).next()?.to_ascii_lowercase();
        let primary = match primary.as_str() {
            "iw" => "he",
            "jw" => "jv",
            "nb" | "nn" | "nob" | "nno" => "no",
            "fil" => "tl",
            "arb" => "ar",
            "cmn" => "zh",
            other => other,
        };
        NAMES
            .iter()
            .find(|(two, three, _)| *two == primary || *three == primary)
            .map(|&(code, _, name)| Self { code, name })
    }

    /// The shortest code, e.g. `en`.
    pub fn code(self) -> &'static str {
        self.code
    }

    /// English name, e.g. `German`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether two codes are one language as far as a detector can tell.
    pub fn matches(self, other: Self) -> bool {
        self.code == other.code
            || SAME
                .iter()
                .any(|set| set.contains(&self.code) && set.contains(&other.code))
    }
}

/// Words, and letters, below which a text in an alphabet is too short to tell.
const MIN_WORDS: usize = 4;
const MIN_LETTERS: usize = 16;

/// The language of a text; `None` when it is too short to tell or the detector is not sure.
pub fn detect(text: &str) -> Option<Language> {
    let (words, letters) = text.unicode_words().fold((0, 0), |(words, letters), word| {
        (words + 1, letters + word.chars().filter(|c| c.is_alphabetic()).count())
    });
    // A script of its own (Arabic is shared, Hangul is not) needs fewer words; cld2 says itself when it is not sure.
    if words < MIN_WORDS || (letters < MIN_LETTERS && text.is_ascii()) {
        return None;
    }
    let found = cld2::detect_language_ext(text, Format::Text, &cld2::Hints::default());
    if found.reliability != Reliability::Reliable || found.scores[0].percent < 60 {
        return None;
    }
    Language::parse(found.language?.0)
}

/// The target language of a run: the first of a permutation of [`TARGETS`], fixed by the run's seed and name alone,
/// that is not the source. One language for the whole run, therefore, but for texts already written in it.
pub fn draw_target(seed: u64, run: &str, source: Option<Language>) -> Language {
    let order = seed::permutation(seed, &["translation-target", run], TARGETS.len());
    let mut drawn = order
        .into_iter()
        .filter_map(|index| TARGETS.get(index).and_then(|code| Language::parse(code)));
    let first = drawn.next();
    let chosen = match (first, source) {
        (Some(target), Some(source)) if target.matches(source) => drawn.next(),
        (target, _) => target,
    };
    chosen.unwrap_or(Language {
        code: "es",
        name: "Spanish",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::HashSet;

    use super::*;

    fn lang(tag: &str) -> Language {
        Language::parse(tag).unwrap()
    }

    #[test]
    fn tags_are_read_in_the_forms_that_datasets_use() {
        for tag in ["en", "EN", "en-GB", "eng", "eng-Latn", "en_US"] {
            assert_eq!(lang(tag).code(), "en", "{tag}");
        }
        assert_eq!(lang("arb").code(), "ar");
        assert_eq!(lang("hau").name(), "Hausa");
        assert_eq!(lang("pt-BR").name(), "Portuguese");
        assert!(Language::parse("xx").is_none());
        assert!(Language::parse("").is_none());
        assert!(Language::parse("english").is_none());
    }

    #[test]
    fn every_name_is_listed_once() {
        let codes: HashSet<_> = NAMES.iter().map(|entry| entry.0).collect();
        assert_eq!(codes.len(), NAMES.len());
        for target in TARGETS {
            assert!(Language::parse(target).is_some());
        }
    }

    #[test]
    fn sentences_are_told_apart() {
        for (code, text) in [
            ("en", "A man is playing the guitar on the street."),
            ("de", "Ein Mann spielt auf der Straße Gitarre."),
            ("es", "Un hombre está tocando la guitarra en la calle."),
            ("fr", "Un homme joue de la guitare dans la rue."),
            ("tr", "Bir adam sokakta gitar çalıyor ve şarkı söylüyor."),
            ("ar", "رجل يعزف على الغيتار في الشارع."),
            ("zh", "一个男人正在街上弹吉他。"),
            ("sw", "Mwanamume anapiga gitaa barabarani na watu wanamsikiliza."),
            ("ha", "Gwamnatin Najeriya ta sanar da sabon tsari na aikin gona."),
            ("ru", "Мужчина играет на гитаре, а рядом с ним поёт женщина."),
        ] {
            assert_eq!(detect(text).map(Language::code), Some(code), "{text}");
        }
    }

    #[test]
    fn a_short_text_is_too_short_to_tell() {
        for text in ["", "OK", "Paris", "no", "Die Hard", "🎉🎉", "12 34 56 78", "!!!"] {
            assert_eq!(detect(text), None, "{text}");
        }
    }

    #[test]
    fn norwegian_is_forgiven_danish_but_german_is_not_dutch() {
        assert!(lang("nb").matches(lang("da")));
        assert!(!lang("de").matches(lang("nl")));
    }

    #[test]
    fn a_target_depends_on_seed_and_run_and_avoids_the_source() {
        let free = draw_target(1337, "", None);
        assert_eq!(draw_target(1337, "", Some(lang("en"))), free);
        let turned = draw_target(1337, "", Some(free));
        assert_ne!(turned, free);
        assert_eq!(draw_target(1337, "", Some(free)), turned);
        let seeds: HashSet<_> = (0..200).map(|seed| draw_target(seed, "", None).code()).collect();
        assert_eq!(seeds.len(), TARGETS.len());
        let runs: HashSet<_> = (0..50)
            .map(|run| draw_target(1, &run.to_string(), None).code())
            .collect();
        assert!(runs.len() > 2);
    }
}
