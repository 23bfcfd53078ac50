//! Which texts of a data set are changed, and what they become.

use super::{Kind, Names, Reading, Separating};

/// Texts with more words are left out: one changed word is no change of meaning of a long document as a whole.
pub(crate) const MOST_WORDS: usize = 60;
/// The same for scripts without spaces between words.
const MOST_CHARS: usize = 480;
/// Texts looked at for each text that is wanted: many have nothing that a rule could change.
const LOOKED_AT: usize = 10;

/// A text that may be changed.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its number in the corpus.
    pub(crate) text: u32,
    /// The text.
    pub(crate) content: String,
    /// Its language, where the data set names one.
    pub(crate) language: Option<String>,
}

/// A text with its changed copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed<T> {
    /// Its number in the corpus.
    pub(crate) text: u32,
    /// A copy of each kind that applies.
    pub(crate) copies: Vec<(Kind, T)>,
}

/// At most so many texts as are wanted, in an order drawn by seed and content, so that the same texts come first whatever else the
/// data set has. Names are gathered from all texts that are looked at.
pub(crate) fn collect(sources: &[Source], settings: &Separating, seed: u64) -> Vec<Changed<String>> {
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
    order.truncate(settings.texts.saturating_mul(LOOKED_AT));
    let readings: Vec<(&Source, Reading<'_>)> = order
        .into_iter()
        .map(|(_, source)| (source, Reading::new(&source.content, source.language.as_deref())))
        .collect();
    let mut names = Names::default();
    for (_, reading) in &readings {
        reading.name(&mut names);
    }
    let changed = readings.iter().filter_map(|(source, reading)| {
        let copies: Vec<(Kind, String)> = settings
            .kinds
            .iter()
            .filter_map(|kind| Some((*kind, reading.change(*kind, seed, "", &names)?)))
            .collect();
        (!copies.is_empty()).then_some(Changed {
            text: source.text,
            copies,
        })
    });
    changed.take(settings.texts).collect()
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

    fn settings(texts: usize) -> Separating {
        Separating {
            kinds: Kind::ALL.to_vec(),
            texts,
        }
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
        let copies = |all: &[Changed<String>]| all.iter().map(|one| one.copies.clone()).collect::<Vec<_>>();
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
}
