//! Decides the language of each side of a data set. No other code decides it.
//!
//! The first of these sources that gives a language decides:
//!
//! 1. `languages` of the suite or the request: one tag for all texts, or the tags of the first and
//!    second side.
//! 2. The catalogue's languages of the subset (`en-ar` of STS17 is `eng-Latn` and `ara-Arab`).
//! 3. The name of the subset. It gives two languages if it is two codes of two or three lower-case
//!    letters with a hyphen between them (`en-ar`, and `eng_Latn-fra_Latn` with scripts) and the
//!    task compares two sides. Every other name is one language: regions are upper case (`pt-BR`)
//!    and scripts are capitalised (`zh-Hant`), as BCP-47 recommends.
//! 4. The only `language` in the card of the folder or repository (the header of its README.md).
//!
//! If none of these gives a language, the language of each text is detected when it is transformed.

use super::{Dataset, DatasetError, LoadOptions, Role};
use crate::LanguageGroup;
use isomer_scoring::task::TaskType;

/// The languages of a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Sides {
    /// The language is unknown.
    #[default]
    Unknown,
    /// One language for every text.
    One(String),
    /// The language of first texts, sources and queries; then that of second texts, targets and
    /// documents.
    Two(String, String),
    /// The name of the subset gives two languages, but not which one is the queries'.
    Unassigned,
}

/// Decides the languages; `subset` is the subset that selected the files.
pub(super) fn decide(task: TaskType, options: &LoadOptions, subset: Option<&str>) -> Result<Sides, DatasetError> {
    match options.languages.as_slice() {
        [] => {}
        [one] => return Ok(Sides::One(one.clone())),
        [first, second] if has_sides(task) || has_queries(task) => {
            return Ok(Sides::Two(first.clone(), second.clone()));
        }
        given => {
            return Err(DatasetError::Languages {
                given: given.to_vec(),
                task,
                most: if has_sides(task) || has_queries(task) { 2 } else { 1 },
            });
        }
    }
    match options.entry.and_then(|entry| entry.languages_of(subset)) {
        Some([one]) => return Ok(Sides::One(one.clone())),
        Some([first, second]) => return Ok(Sides::Two(first.clone(), second.clone())),
        _ => {}
    }
    let Some(subset) = subset else {
        return Ok(Sides::Unknown);
    };
    Ok(match two_codes(subset) {
        Some((first, second)) if has_sides(task) => Sides::Two(first.to_owned(), second.to_owned()),
        Some((first, second)) if has_queries(task) && first != second => Sides::Unassigned,
        Some((first, second)) if first == second => Sides::One(first.to_owned()),
        _ => Sides::One(subset.to_owned()),
    })
}

/// Whether the rows of a task are pairs of a first and a second text.
fn has_sides(task: TaskType) -> bool {
    matches!(
        task,
        TaskType::Sts | TaskType::PairClassification | TaskType::Bitext | TaskType::Clsd
    )
}

/// Whether a task has queries and documents. Subset names differ in which of the two comes first.
fn has_queries(task: TaskType) -> bool {
    matches!(task, TaskType::Retrieval | TaskType::Reranking)
}

/// The two languages of a name that consists of two.
fn two_codes(subset: &str) -> Option<(&str, &str)> {
    let (first, second) = subset.split_once('-')?;
    (is_code(first) && is_code(second)).then_some((first, second))
}

/// `en`, `eng`, `eng_Latn`.
fn is_code(part: &str) -> bool {
    let (code, script) = part.split_once('_').unwrap_or((part, "Latn"));
    let mut letters = script.bytes();
    matches!(code.len(), 2 | 3)
        && code.bytes().all(|byte| byte.is_ascii_lowercase())
        && script.len() == 4
        && letters.next().is_some_and(|byte| byte.is_ascii_uppercase())
        && letters.all(|byte| byte.is_ascii_lowercase())
}

impl Dataset {
    /// Languages of the two sides, if known; for a data set in one language, that language twice.
    pub fn sides(&self) -> Option<(&str, &str)> {
        match &self.sides {
            Sides::Unknown | Sides::Unassigned => None,
            Sides::One(language) => Some((language, language)),
            Sides::Two(first, second) => Some((first, second)),
        }
    }

    /// Language of the texts with a role in the task.
    pub fn language_of(&self, role: Role) -> Option<&str> {
        let (first, second) = self.sides()?;
        Some(match role {
            Role::First | Role::Query | Role::Labelled | Role::HumanSummary | Role::MachineSummary => first,
            Role::Second | Role::Document | Role::Candidate => second,
        })
    }

    /// The distinct languages of its texts: none if unknown, two if the sides differ.
    pub fn text_languages(&self) -> Vec<&str> {
        match self.sides() {
            None => Vec::new(),
            Some((first, second)) if first == second => vec![first],
            Some((first, second)) => vec![first, second],
        }
    }

    /// Whether it is in English, as far as known.
    pub fn language_group(&self) -> LanguageGroup {
        LanguageGroup::of(self.text_languages().into_iter(), self.language())
    }
}

impl Sides {
    /// A note on the languages for users.
    pub(super) fn note(&self, subset: Option<&str>) -> Option<String> {
        (*self == Self::Unassigned).then(|| {
            format!(
                "`{}` names two languages and not which is the queries'; the language of each query is detected. Say \
                 languages = [\"…\", \"…\"], the queries' first",
                subset.unwrap_or_default()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::catalogue;

    fn named(task: TaskType, subset: &str) -> Sides {
        decide(task, &LoadOptions::default(), Some(subset)).unwrap()
    }

    fn one(language: &str) -> Sides {
        Sides::One(language.to_owned())
    }

    fn two(first: &str, second: &str) -> Sides {
        Sides::Two(first.to_owned(), second.to_owned())
    }

    #[test]
    fn a_name_of_two_codes_is_two_languages_where_the_task_has_two_sides() {
        for task in [
            TaskType::Sts,
            TaskType::PairClassification,
            TaskType::Bitext,
            TaskType::Clsd,
        ] {
            assert_eq!(named(task, "en-ar"), two("en", "ar"));
            assert_eq!(named(task, "eng_Latn-fra_Latn"), two("eng_Latn", "fra_Latn"));
            for single in ["pt-BR", "zh-Hant", "zh-Hant-TW", "eng-Latn", "fra_Latn", "de", "hau"] {
                assert_eq!(named(task, single), one(single), "{single}");
            }
        }
        assert_eq!(named(TaskType::Classification, "en-ext"), one("en-ext"));
        assert_eq!(named(TaskType::Clustering, "de-en"), one("de-en"));
        assert_eq!(named(TaskType::Retrieval, "de"), one("de"));
    }

    #[test]
    fn a_retrieval_subset_of_two_languages_is_never_guessed_at() {
        let sides = named(TaskType::Retrieval, "de-en");
        assert_eq!(sides, Sides::Unassigned);
        assert!(
            sides
                .note(Some("de-en"))
                .unwrap()
                .contains("`de-en` names two languages")
        );
        let options = LoadOptions {
            languages: vec!["en".to_owned(), "de".to_owned()],
            ..LoadOptions::default()
        };
        assert_eq!(
            decide(TaskType::Retrieval, &options, Some("de-en")).unwrap(),
            two("en", "de")
        );
    }

    #[test]
    fn what_the_suite_says_comes_before_the_catalogue_and_the_catalogue_before_the_name() {
        let entry = catalogue::find("STS17");
        let mut options = LoadOptions {
            entry,
            ..LoadOptions::default()
        };
        let said = |options: &LoadOptions| decide(TaskType::Sts, options, Some("en-ar")).unwrap();
        assert_eq!(said(&options), two("eng-Latn", "ara-Arab"));
        options.languages = vec!["pt-BR".to_owned()];
        assert_eq!(said(&options), one("pt-BR"));
        options.languages = vec!["en".to_owned(), "arz".to_owned()];
        assert_eq!(said(&options), two("en", "arz"));
    }

    #[test]
    fn more_languages_than_sides_are_refused() {
        let options = LoadOptions {
            languages: vec!["en".to_owned(), "de".to_owned()],
            ..LoadOptions::default()
        };
        let error = decide(TaskType::Classification, &options, None).unwrap_err();
        assert!(error.to_string().contains("en, de"), "{error}");
    }

    #[test]
    fn a_data_set_without_subsets_has_the_catalogues_language() {
        let options = LoadOptions {
            entry: catalogue::find("TwitterHjerneRetrieval"),
            ..LoadOptions::default()
        };
        assert_eq!(decide(TaskType::Retrieval, &options, None).unwrap(), one("dan-Latn"));
    }

    #[test]
    fn every_subset_of_the_catalogue_has_one_language_or_two_where_its_task_has_sides() {
        for entry in catalogue::entries() {
            for (subset, codes) in &entry.languages {
                let options = LoadOptions {
                    entry: Some(entry),
                    ..LoadOptions::default()
                };
                let subset = (subset != "default").then_some(subset.as_str());
                let sides = decide(entry.task, &options, subset).unwrap();
                match codes.as_slice() {
                    [_] => assert_eq!(sides, one(&codes[0]), "{} {subset:?}", entry.name),
                    [_, _] => {
                        assert_eq!(sides, two(&codes[0], &codes[1]), "{} {subset:?}", entry.name);
                        assert!(has_sides(entry.task), "{} has no sides", entry.name);
                    }
                    _ => panic!("{} {subset:?} has {codes:?}", entry.name),
                }
            }
        }
    }
}
