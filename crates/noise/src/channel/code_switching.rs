//! Words in English inside texts of other languages; in English texts, words in Spanish.
//!
//! Eligible unit: a word that the lexicon has, in one of the forms listed. Inflected forms that are
//! not listed are not eligible, so that in a language with many forms fewer words are.
//!
//! The lexicon (`lexicon/words.txt`) is our own: frequent content words without numerals, function
//! words and homographs of function words. Replacing words by a bilingual lexicon follows L. Qin et
//! al., "CoSDA-ML: Multi-Lingual Code-Switching Data Augmentation for Zero-Shot Cross-Lingual NLP",
//! IJCAI 2020. English is the embedded language, as in the corpora of LinCE (G. Aguilar et al.,
//! LREC 2020), whose largest pair is Spanish and English.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    draft::Draft,
    language::Language,
    letters::{lower, upper},
    noise::{Noise, NotApplicable},
    text::Text,
};

/// The language of the words in English texts.
const IN_ENGLISH: &str = "es";

pub(super) struct CodeSwitching;

type Lexicon = HashMap<&'static str, &'static str>;

/// Words and their translations, by language.
fn lexicons() -> &'static HashMap<&'static str, Lexicon> {
    static LEXICONS: LazyLock<HashMap<&'static str, Lexicon>> =
        LazyLock::new(|| read(include_str!("../../lexicon/words.txt")));
    &LEXICONS
}

fn read(file: &'static str) -> HashMap<&'static str, Lexicon> {
    let mut rows = file
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect());
    let codes: Vec<&str> = rows.next().unwrap_or_default();
    let mut lexicons: HashMap<&str, Lexicon> = HashMap::new();
    for row in rows {
        let row: Vec<&str> = row;
        let english = row.first().copied().unwrap_or_default();
        for (code, cell) in codes.iter().zip(&row).skip(1).filter(|(_, cell)| **cell != "-") {
            // A word that is the same in both languages would not change.
            for form in cell.split('|').filter(|form| *form != english) {
                lexicons.entry(code).or_default().insert(form, english);
            }
            let first = cell
                .split('|')
                .next()
                .filter(|form| *code == IN_ENGLISH && *form != english);
            if let Some(first) = first {
                lexicons.entry("en").or_default().insert(english, first);
            }
        }
    }
    lexicons
}

impl Noise for CodeSwitching {
    fn refusal(&self, language: Language) -> Option<NotApplicable> {
        (!lexicons().contains_key(language.code())).then_some(NotApplicable::NoLexicon(language))
    }

    fn write(&self, text: &Text<'_>, language: Language, draft: &mut Draft<'_>) {
        let Some(lexicon) = lexicons().get(language.code()) else {
            return;
        };
        let turkic = language.is_turkic();
        let mut small = String::new();
        for (at, word) in text.words.iter().enumerate().filter(|(_, word)| !word.numeric) {
            let span = text.span(word);
            let own = &text.source[span.clone()];
            small.clear();
            small.extend(own.chars().map(|c| lower(c, turkic)));
            let Some(other) = lexicon.get(small.as_str()) else {
                continue;
            };
            if draft.unit().is_some() {
                // German nouns have capitals everywhere.
                let keeps_capital = at == 0 || language.code() != "de";
                in_case_of(other, own, keeps_capital, draft.replace(span));
            }
        }
    }
}

/// Pushes a word in the case of another.
fn in_case_of(word: &str, model: &str, keeps_capital: bool, out: &mut String) {
    let mut letters = model.chars().filter(|c| c.is_alphabetic());
    let first = letters.next().is_some_and(char::is_uppercase);
    let second = letters.next().is_some_and(char::is_uppercase);
    if first && second {
        out.extend(word.chars().map(|c| upper(c, false)));
        return;
    }
    let mut rest = word.chars();
    if first && keeps_capital {
        out.extend(rest.next().map(|c| upper(c, false)));
    }
    out.push_str(rest.as_str());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_all_columns_and_a_form_has_one_translation() {
        let rows: Vec<Vec<&str>> = include_str!("../../lexicon/words.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').collect())
            .collect();
        for row in &rows {
            assert_eq!(row.len(), rows[0].len(), "{row:?}");
        }
        for (column, code) in rows[0].iter().enumerate() {
            assert!(Language::parse(code).is_some(), "{code}");
            let mut seen = HashSet::new();
            for form in rows[1..]
                .iter()
                .flat_map(|row| row[column].split('|'))
                .filter(|form| *form != "-")
            {
                assert!(seen.insert(form), "{code} has {form} twice");
                let turkic = matches!(*code, "tr" | "az");
                assert!(
                    form.chars().all(|c| lower(c, turkic) == c && !c.is_whitespace()),
                    "{code} {form}"
                );
                assert_eq!(Text::read(form).words.len(), 1, "{code} {form}");
            }
            assert!(seen.len() >= 150, "{code} has {} forms", seen.len());
        }
    }

    #[test]
    fn a_translation_has_the_case_of_the_word() {
        let cased = |model, keeps| {
            let mut out = String::new();
            in_case_of("table", model, keeps, &mut out);
            out
        };
        assert_eq!(cased("Mesa", true), "Table");
        assert_eq!(cased("MESA", true), "TABLE");
        assert_eq!(cased("Tisch", false), "table");
        assert_eq!(cased("मेज", true), "table");
    }
}
