//! Chooses the texts of a data set that are changed, and makes their copies.

use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

use super::{Kind, Names, SeparationSettings, TextAnalysis};
use crate::change::essence;

/// Texts with more words are skipped: one changed word hardly changes the meaning of a long
/// document.
pub(crate) const MOST_WORDS: usize = 60;
/// The same for scripts without spaces between words.
const MOST_CHARS: usize = 480;
/// Number of texts examined for each text that is needed, because many contain nothing that a rule
/// could change.
const LOOKED_AT: usize = 10;

/// A text that may be changed.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its number in the corpus.
    pub(crate) text: u32,
    pub(crate) content: String,
    /// Its language, if the data set names one.
    pub(crate) language: Option<String>,
}

/// A text with its changed copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextCopies<T> {
    /// Its number in the corpus.
    pub(crate) text: u32,
    /// Number of the text that it counts as: texts that differ only in case, marks and white space
    /// count once.
    pub(crate) counts_as: u32,
    /// Its language, if the data set names one.
    pub(crate) language: Option<String>,
    /// Its copies. A kind has none if it does not apply, and several if the generator writes
    /// several.
    pub(crate) copies: Vec<(Kind, T)>,
}

impl<T> TextCopies<T> {
    /// The same text with other copies.
    pub(crate) fn map<U>(self, mut copy: impl FnMut(T) -> U) -> TextCopies<U> {
        TextCopies {
            text: self.text,
            counts_as: self.counts_as,
            language: self.language,
            copies: self.copies.into_iter().map(|(kind, one)| (kind, copy(one))).collect(),
        }
    }
}

/// The texts of a data set that may be compared, with the copies made by this service's rules. The
/// order is drawn by seed and content, so that the same texts come first, regardless of the other
/// texts of the data set. Names are collected from all texts that are examined.
///
/// If copies are requested from the transform service, every examined text is included, even
/// without a copy. Otherwise only the required number is returned, each with a copy.
pub(crate) fn candidates(sources: &[Source], settings: &SeparationSettings, seed: u64) -> Vec<TextCopies<String>> {
    let mut order: Vec<(blake3::Hash, &Source)> = sources
        .iter()
        .filter(|source| is_short(&source.content))
        .map(|source| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(b"isomer.separation.order/1").update(&seed.to_le_bytes());
            (hasher.update(source.content.as_bytes()).finalize(), source)
        })
        .collect();
    order.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    let mut seen = HashSet::new();
    order.retain(|(_, source)| seen.insert(essence(&source.content)));
    order.truncate(settings.texts.saturating_mul(LOOKED_AT));
    let readings: Vec<(&Source, TextAnalysis<'_>)> = order
        .into_iter()
        .map(|(_, source)| (source, TextAnalysis::new(&source.content, source.language.as_deref())))
        .collect();
    let mut names = Names::default();
    for (_, reading) in &readings {
        reading.name(&mut names);
    }
    let changed = readings.iter().map(|(source, reading)| TextCopies {
        text: source.text,
        counts_as: source.text,
        language: source.language.clone(),
        copies: settings
            .kinds
            .iter()
            .filter_map(|kind| Some((*kind, reading.change(*kind, seed, "", &names)?)))
            .collect(),
    });
    if settings.kinds.iter().any(|kind| kind.is_asked_for()) {
        return changed.collect();
    }
    changed
        .filter(|one| !one.copies.is_empty())
        .take(settings.texts)
        .collect()
}

/// Sets `counts_as` of texts in different data sets that differ only in case, marks and white space
/// to the first of them.
pub(crate) fn count_once(tables: &mut [Vec<TextCopies<String>>], content: impl Fn(u32) -> String) {
    let mut first: HashMap<String, u32> = HashMap::new();
    for one in tables.iter_mut().flatten() {
        one.counts_as = *first.entry(essence(&content(one.text))).or_insert(one.text);
    }
}

/// The texts to compare: the first that already have a copy. If these are too few and copies are
/// requested from the generator, the first of the others are added. Thus the generator's copies do
/// not displace texts of the other kinds.
pub(crate) fn choose<T>(candidates: Vec<TextCopies<T>>, settings: &SeparationSettings) -> Vec<TextCopies<T>> {
    let fill = settings.kinds.iter().any(|kind| kind.needs_generator());
    let (copied, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| !one.copies.is_empty());
    let others = others.into_iter().filter(|_| fill);
    copied.into_iter().chain(others).take(settings.texts).collect()
}

/// Whether the two texts share at least half of the words of the longer one. A copy that shares
/// fewer is not a small change: encoders that only count words would separate it from the text.
pub(crate) fn keeps_half(text: &str, copy: &str) -> bool {
    let mut left: HashMap<String, usize> = HashMap::new();
    let (mut words, mut others, mut shared) = (0, 0, 0);
    for word in text.unicode_words() {
        *left.entry(word.to_lowercase()).or_default() += 1;
        words += 1;
    }
    for word in copy.unicode_words() {
        others += 1;
        if let Some(n) = left.get_mut(&word.to_lowercase()).filter(|n| **n > 0) {
            *n -= 1;
            shared += 1;
        }
    }
    2 * shared >= words.max(others)
}

fn is_short(text: &str) -> bool {
    text.split_whitespace().count() <= MOST_WORDS && text.chars().count() <= MOST_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(texts: &[&str]) -> Vec<Source> {
        let one = |(text, content): (usize, &&str)| Source {
            text: text as u32,
            content: (*content).to_owned(),
            language: Some("en".to_owned()),
        };
        texts.iter().enumerate().map(one).collect()
    }

    fn settings(texts: usize) -> SeparationSettings {
        SeparationSettings {
            kinds: Kind::DEFAULT.to_vec(),
            texts,
        }
    }

    fn collect(sources: &[Source], settings: &SeparationSettings, seed: u64) -> Vec<TextCopies<String>> {
        choose(candidates(sources, settings, seed), settings)
    }

    #[test]
    fn a_smaller_draw_is_the_start_of_a_larger_one_and_order_does_not_matter() {
        let texts: Vec<String> = (10..40).map(|n| format!("The shop sold {n} old books.")).collect();
        let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let all = collect(&sources(&texts), &settings(100), 1);
        assert_eq!(all.len(), 30);
        let few = collect(&sources(&texts), &settings(4), 1);
        assert_eq!(few, all[..4]);
        texts.reverse();
        let turned = collect(&sources(&texts), &settings(4), 1);
        let copies = |all: &[TextCopies<String>]| all.iter().map(|one| one.copies.clone()).collect::<Vec<_>>();
        assert_eq!(copies(&turned), copies(&few));
    }

    #[test]
    fn long_texts_and_those_that_no_rule_changes_are_left_out() {
        let long = "The old man walked home. ".repeat(13);
        let made = collect(&sources(&[&long, "Hello", "The man is old."]), &settings(10), 1);
        assert_eq!(made.iter().map(|one| one.text).collect::<Vec<_>>(), [2]);
        let kinds: Vec<Kind> = made[0].copies.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::Negation, Kind::Antonym]);
    }
    #[test]
    fn kinds_that_the_transform_service_makes_take_no_text_from_the_rules() {
        let texts = ["Hello", "The man is old.", "The shop sold 12 books.", "Hello hello"];
        let with = |kinds: &[Kind], texts_wanted| {
            let settings = SeparationSettings {
                kinds: kinds.to_vec(),
                texts: texts_wanted,
            };
            let chosen = collect(&sources(&texts), &settings, 1);
            chosen.into_iter().map(|one| (one.text, one.copies)).collect::<Vec<_>>()
        };
        let rules = with(&Kind::DEFAULT, 3);
        assert_eq!(rules.len(), 2);
        // Swapped words: a text without words to swap has no copy, so no text is added.
        assert_eq!(with(&[&Kind::DEFAULT[..], &[Kind::MultiSwap]].concat(), 3), rules);
        let filled = with(&Kind::ALL, 3);
        assert_eq!((&filled[..2], filled.len()), (&rules[..], 3));
        assert!(filled[2].1.is_empty());
        assert_eq!(with(&[Kind::Distractors], 9).len(), 4);
    }

    #[test]
    fn texts_that_differ_in_case_and_marks_only_count_once() {
        let texts = ["The man is old.", "the man is OLD", "The man is young."];
        let made = collect(&sources(&texts), &settings(10), 1);
        assert_eq!(made.len(), 2);
        // The same text in another data set.
        let mut tables = vec![
            candidates(&sources(&texts[..1]), &settings(10), 1),
            candidates(
                &[Source {
                    text: 7,
                    ..sources(&texts[1..2])[0].clone()
                }],
                &settings(10),
                1,
            ),
        ];
        count_once(&mut tables, |text| texts[usize::from(text == 7)].to_owned());
        assert_eq!((tables[1][0].text, tables[1][0].counts_as), (7, 0));
    }

    #[test]
    fn a_copy_keeps_half_of_the_words_or_is_another_text() {
        for (text, copy, kept) in [
            ("The dog bit the man.", "The man bit the dog.", true),
            ("Rain is expected tomorrow.", "Snow is expected today.", true),
            ("Rain is expected tomorrow.", "Her soup needed more salt.", false),
            // Repeated words count as often as they occur.
            ("the the the the dog", "the cat sat on a mat", false),
            ("他有五本书。", "他有三本书。", true),
            ("他有五本书。", "天气很好啊。", false),
        ] {
            assert_eq!(keeps_half(text, copy), kept, "{text} {copy}");
        }
    }
}
