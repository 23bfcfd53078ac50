//! Decides whether a data set is in English.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// English or not: the groups of data sets in HTEB's tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LanguageGroup {
    /// Every text is known to be English.
    English,
    /// At least one side is known to be in another language.
    Other,
    /// The language is not known.
    #[default]
    Unknown,
}

impl LanguageGroup {
    /// The group by the languages of a data set's texts if they are known, else by the subset that
    /// selected its files.
    pub fn of<'a>(mut languages: impl Iterator<Item = &'a str>, subset: Option<&str>) -> Self {
        let known = languages.next().map(|first| (first, languages.all(is_english)));
        match (known, subset) {
            (Some((first, others)), _) if is_english(first) && others => Self::English,
            (Some(_), _) => Self::Other,
            (None, Some(subset)) if is_english(subset) => Self::English,
            (None, Some(_)) => Self::Other,
            (None, None) => Self::Unknown,
        }
    }

    /// The group of several data sets together: English only if each of them is English.
    pub fn of_all(mut groups: impl Iterator<Item = Self>) -> Self {
        let Some(first) = groups.next() else {
            return Self::Unknown;
        };
        groups.fold(first, |all, one| match (all, one) {
            (Self::Other, _) | (_, Self::Other) => Self::Other,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::English, Self::English) => Self::English,
        })
    }
}

/// Whether a language code means English: `en`, `eng-Latn`, `en-GB`, or a pair of English with
/// itself such as `en-en`.
pub fn is_english(language: &str) -> bool {
    let language = language.to_ascii_lowercase();
    let mut parts = language.split(['-', '_']);
    let english = matches!(parts.next(), Some("en" | "eng"));
    english && parts.all(|part| matches!(part, "en" | "eng" | "gb" | "us" | "latn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_by_any_code_is_english_and_a_pair_with_another_language_is_not() {
        assert!(["en", "eng", "eng-Latn", "en-GB", "en-en"].into_iter().all(is_english));
        assert!(!["de", "en-de", "deu", "fr-en", ""].into_iter().any(is_english));
    }

    #[test]
    fn a_data_set_that_names_no_language_is_not_english() {
        let of = |languages: &[&str], subset| LanguageGroup::of(languages.iter().copied(), subset);
        assert_eq!(of(&[], None), LanguageGroup::Unknown);
        assert_eq!(of(&["eng-Latn"], None), LanguageGroup::English);
        assert_eq!(of(&["eng-Latn", "en"], Some("en-en")), LanguageGroup::English);
        assert_eq!(of(&["en", "ar"], None), LanguageGroup::Other);
        assert_eq!(of(&["dan-Latn"], None), LanguageGroup::Other);
        // If nothing else is known, the subset's name decides: it is a pair whose sides are not
        // assigned.
        assert_eq!(of(&[], Some("en-ar")), LanguageGroup::Other);
        assert_eq!(of(&[], Some("en")), LanguageGroup::English);
        // The languages of the texts take precedence over the name of the subset.
        assert_eq!(of(&["dan-Latn"], Some("en")), LanguageGroup::Other);
    }

    #[test]
    fn a_group_is_english_only_where_all_of_it_is() {
        use LanguageGroup::{English, Other, Unknown};
        let of = |all: &[LanguageGroup]| LanguageGroup::of_all(all.iter().copied());
        assert_eq!(of(&[English, English]), English);
        assert_eq!(of(&[English, Unknown]), Unknown);
        assert_eq!(of(&[Unknown, Other, English]), Other);
        assert_eq!(of(&[]), Unknown);
    }
}
