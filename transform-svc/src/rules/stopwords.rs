//! GASE's other control: a text without its function words.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock},
};

use super::{Row, Rule, RuleRefusal, Subject, UnsupportedLanguage, any};
use crate::{checks::Check, language::Language, words};

/// Our own lists of function words, by language.
static LISTS: LazyLock<HashMap<&'static str, HashSet<&'static str>>> = LazyLock::new(|| {
    [
        ("en", include_str!("../../stopwords/en.txt")),
        ("es", include_str!("../../stopwords/es.txt")),
        ("fr", include_str!("../../stopwords/fr.txt")),
        ("de", include_str!("../../stopwords/de.txt")),
        ("tr", include_str!("../../stopwords/tr.txt")),
        ("ar", include_str!("../../stopwords/ar.txt")),
    ]
    .into_iter()
    .map(|(code, list)| {
        let words = list
            .lines()
            .filter(|line| !line.starts_with('#'))
            .flat_map(str::split_whitespace);
        (code, words.collect())
    })
    .collect()
});

/// Languages with a list.
pub const LANGUAGES: &str = "en, es, fr, de, tr, ar";

pub(super) const ROW: Row = Row {
    name: "stopword_removal",
    read: |_| Ok(Arc::new(StopwordRemoval)),
    values: any,
};

#[derive(Debug)]
pub struct StopwordRemoval;

impl Rule for StopwordRemoval {
    fn check_language(&self, language: Language) -> Result<(), UnsupportedLanguage> {
        if LISTS.contains_key(language.code()) {
            return Ok(());
        }
        Err(UnsupportedLanguage {
            problem: format!("there is no list of function words for {}", language.name()),
            hint: format!("there is one for {LANGUAGES}"),
        })
    }

    /// A text of unknown language is treated as English.
    fn apply(&self, text: &Subject<'_>) -> Result<Vec<String>, RuleRefusal> {
        let language = text.language.or_else(|| Language::parse("en"));
        let removed = language.and_then(|language| remove(text.text, language));
        removed.map(|text| vec![text]).ok_or_else(|| {
            let name = text.language.map_or("this language", Language::name);
            RuleRefusal {
                check: Check::GeneratorError,
                reason: format!("there is no list of function words for {name}; there is one for {LANGUAGES}"),
            }
        })
    }
}

/// The words of a text that are not function words of its language, in order, without punctuation.
/// Letter case is kept. `None` if the language has no list.
pub fn remove(text: &str, language: Language) -> Option<String> {
    let list = LISTS.get(language.code())?;
    let is_stopword = |word: &str| {
        let mut lower = word.to_lowercase().replace('’', "'");
        if language.code() == "tr" {
            // Rust lower-cases İ to i with a dot above; Turkish to i.
            lower = lower.replace("i\u{307}", "i");
        }
        list.contains(lower.as_str()) || (language.code() == "fr" && elided_only(&lower, list))
    };
    let kept: Vec<&str> = words::words(text)
        .into_iter()
        .map(|word| {
            if language.code() == "fr" {
                without_elision(word, list)
            } else {
                word
            }
        })
        .filter(|word| !is_stopword(word))
        .collect();
    Some(words::join(&kept))
}

/// French: `l'homme` is two words in grammar and one in UAX #29.
fn without_elision<'a>(word: &'a str, list: &HashSet<&str>) -> &'a str {
    match word.split_once(['\'', '’']) {
        Some((head, rest)) if !rest.is_empty() && list.contains(head.to_lowercase().as_str()) => rest,
        _ => word,
    }
}

fn elided_only(lower: &str, list: &HashSet<&str>) -> bool {
    lower.split('\'').all(|part| part.is_empty() || list.contains(part))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn without(text: &str, code: &str) -> String {
        remove(text, Language::parse(code).unwrap()).unwrap()
    }

    #[test]
    fn function_words_go_and_content_words_stay_in_order() {
        assert_eq!(
            without("A man is playing the guitar on a street.", "en"),
            "man playing guitar street"
        );
        assert_eq!(
            without("Ein Mann spielt auf der Straße Gitarre.", "de"),
            "Mann spielt Straße Gitarre"
        );
        assert_eq!(
            without("Un hombre está tocando la guitarra en la calle", "es"),
            "hombre tocando guitarra calle"
        );
        assert_eq!(
            without("L'homme joue de la guitare dans la rue.", "fr"),
            "homme joue guitare rue"
        );
        assert_eq!(without("Bir adam ve kadın için gitar", "tr"), "adam kadın gitar");
        assert_eq!(without("الرجل في الشارع مع صديقه", "ar"), "الرجل الشارع صديقه");
    }

    #[test]
    fn case_and_curly_apostrophes_do_not_matter() {
        assert_eq!(without("THE dog DOESN’T bark", "en"), "dog bark");
    }

    #[test]
    fn a_text_of_function_words_alone_leaves_nothing() {
        assert_eq!(without("To be or not to be.", "en"), "");
    }

    #[test]
    fn a_language_without_a_list_is_said_to_have_none() {
        assert_eq!(
            remove("Un uomo suona la chitarra", Language::parse("it").unwrap()),
            None
        );
        for code in LANGUAGES.split(", ") {
            let language = Language::parse(code).unwrap();
            assert_eq!(StopwordRemoval.check_language(language), Ok(()), "{code}");
        }
    }
}
