//! Discrimination: rows of a source, its target and distractors, and the distractors that differ
//! from their target in one word.

use std::ops::Range;

use isomer_tagger::Tagger;

use super::{Dataset, DatasetError, DatasetText, Labels, Role, files::Files, lists, sample::RowSelection};
use isomer_scoring::task::OneWord;

/// The labels that discrimination is scored against.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct ClsdLabels {
    /// Number of distractors of each row.
    pub(super) counts: Vec<usize>,
    /// Whether each distractor is equal to its target.
    pub(super) same_as_target: Vec<bool>,
    /// Distractors that differ from their target in one word.
    pub(super) one_word: Vec<OneWord>,
}

impl ClsdLabels {
    /// Adds a row: its distractors, and for each the part of speech of the differing word, if
    /// known.
    fn add(&mut self, target: &str, others: &[String], tags: Vec<Option<String>>) {
        let row = self.counts.len();
        self.counts.push(others.len());
        for (other, pos) in others.iter().zip(tags) {
            if one_word_apart(target, other).is_some() {
                let distractor = self.same_as_target.len();
                self.one_word.push(OneWord { row, distractor, pos });
            }
            self.same_as_target.push(*other == target);
        }
    }
}

/// Reads `source target distractors[]`, and `distractor_pos[]` if present.
pub(super) fn read(
    files: &Files<'_>,
    name: &str,
    selection: RowSelection,
) -> Result<(Vec<DatasetText>, ClsdLabels), DatasetError> {
    let (mut sources, mut targets, mut distractors) = (Vec::new(), Vec::new(), Vec::new());
    let mut labels = ClsdLabels::default();
    lists::rows(files, name, selection, |row| {
        let (source, target) = (row.text("source")?, row.text("target")?);
        let others = row.texts("distractors", 1)?;
        let tags = row
            .optional_tags("distractor_pos", others.len(), "distractors")?
            .unwrap_or_else(|| vec![None; others.len()]);
        let item = labels.counts.len();
        labels.add(&target, &others, tags);
        lists::push(&mut sources, item, "source", vec![source], Role::First, true);
        lists::push(&mut targets, item, "target", vec![target], Role::Second, false);
        lists::push(&mut distractors, item, "distractors", others, Role::Candidate, false);
        Ok(())
    })?;
    sources.append(&mut targets);
    sources.append(&mut distractors);
    Ok((sources, labels))
}

/// The position of the difference between two texts with equally many words (split at white space)
/// that differ in exactly one: the bytes of the word in each.
fn one_word_apart(left: &str, right: &str) -> Option<[Range<usize>; 2]> {
    let place = |text: &str, word: &str| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        start..start + word.len()
    };
    let (mut lefts, mut rights) = (left.split_whitespace(), right.split_whitespace());
    let mut found = None;
    loop {
        match (lefts.next(), rights.next()) {
            (None, None) => return found,
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) if found.is_none() => found = Some([place(left, a), place(right, b)]),
            _ => return None,
        }
    }
}

impl Dataset {
    /// The rows of a discrimination data set with other texts, e.g. translations, one for each of
    /// [`Dataset::texts`]. The new texts decide which distractors equal their target or differ in
    /// one word. Parts of speech from the data belonged to the old words and are dropped.
    ///
    /// # Errors
    /// If the number of texts does not match, or the data set is of another task.
    pub fn with_texts(mut self, texts: Vec<String>) -> Result<Self, DatasetError> {
        let Labels::Clsd(labels) = &mut self.labels else {
            return Err(DatasetError::OtherTexts {
                problem: format!("{} is scored with the texts it has", self.task),
            });
        };
        if texts.len() != self.texts.len() {
            return Err(DatasetError::OtherTexts {
                problem: format!("{} texts for {}", texts.len(), self.texts.len()),
            });
        }
        let rows = labels.counts.len();
        let counts = std::mem::take(&mut labels.counts);
        let mut fresh = ClsdLabels::default();
        let mut rest = texts.get(2 * rows..).unwrap_or_default();
        for (target, count) in texts[rows..].iter().zip(counts) {
            let (own, others) = rest.split_at(count.min(rest.len()));
            fresh.add(target, own, vec![None; own.len()]);
            rest = others;
        }
        *labels = fresh;
        for (old, text) in self.texts.iter_mut().zip(texts) {
            old.text = text.into();
        }
        Ok(self)
    }

    /// Distractors that differ from their target in one word, and how many of those have no part of
    /// speech.
    pub fn one_word_pairs(&self) -> (usize, usize) {
        match &self.labels {
            Labels::Clsd(labels) => {
                let unknown = labels.one_word.iter().filter(|pair| pair.pos.is_none()).count();
                (labels.one_word.len(), unknown)
            }
            _ => (0, 0),
        }
    }

    /// Tags each differing word without a part of speech, in its target. The tagger must support
    /// the language of the targets. Returns the number of tagged words.
    pub fn tag_one_word_pairs(&mut self, tagger: &Tagger) -> usize {
        let Labels::Clsd(labels) = &mut self.labels else {
            return 0;
        };
        let rows = labels.counts.len();
        let mut tagged = 0;
        for pair in labels.one_word.iter_mut().filter(|pair| pair.pos.is_none()) {
            let target = &self.texts[rows + pair.row].text;
            let distractor = &self.texts[2 * rows + pair.distractor].text;
            pair.pos = one_word_apart(target, distractor)
                .and_then(|places| part_of_speech(tagger, [target, distractor], places));
            tagged += usize::from(pair.pos.is_some());
        }
        tagged
    }
}

/// Part of speech of a differing word, in the first text. If the word is several tokens
/// (`Berlin's`, `"Berlin,`), it is that of the first token that differs from the other word's token
/// at the same position, counted from the front.
fn part_of_speech(tagger: &Tagger, texts: [&str; 2], [place, other]: [Range<usize>; 2]) -> Option<String> {
    let within = |place: &Range<usize>, span: &Range<usize>| place.start <= span.start && span.end <= place.end;
    let others: Vec<&str> = isomer_tagger::tokenise(texts[1])
        .into_iter()
        .filter(|span| within(&other, span))
        .map(|span| &texts[1][span])
        .collect();
    let tagged = tagger.tag(texts[0]);
    let own: Vec<_> = tagged
        .tokens
        .iter()
        .filter(|token| within(&place, &token.span))
        .collect();
    let differs = |(i, token): &(usize, &&isomer_tagger::Token)| others.get(*i) != Some(&&texts[0][token.span.clone()]);
    let token = own
        .iter()
        .enumerate()
        .find(differs)
        .map(|(_, token)| *token)
        .or_else(|| own.first().copied());
    token.map(|token| token.pos.name().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_word_apart_means_as_many_words_and_one_that_differs() {
        let words =
            |left: &'static str, right: &'static str| one_word_apart(left, right).map(|[a, b]| (&left[a], &right[b]));
        assert_eq!(words("the cat  sat", "the dog sat"), Some(("cat", "dog")));
        assert_eq!(words("the cat sat", "the cat sat"), None);
        assert_eq!(words("the cat sat", "a dog sat"), None);
        assert_eq!(words("the cat sat", "the cat sat down"), None);
        assert_eq!(words("le chat, là", "le chien, là"), Some(("chat,", "chien,")));
    }

    #[test]
    fn the_part_of_speech_is_that_of_the_word_and_not_of_its_punctuation() {
        let tagger = Tagger::english().unwrap();
        let pos = |left: &str, right: &str| {
            part_of_speech(tagger, [left, right], one_word_apart(left, right).unwrap()).unwrap()
        };
        assert_eq!(
            pos(
                "The minister visited \"Berlin\", the capital.",
                "The minister visited \"Paris\", the capital."
            ),
            "PROPN"
        );
        assert_eq!(
            pos(
                "The prices rose quickly last year.",
                "The prices rose slowly last year."
            ),
            "ADV"
        );
        assert_eq!(
            pos(
                "The company lost two million euros.",
                "The company lost ten million euros."
            ),
            "NUM"
        );
        assert_eq!(
            pos("The club sold its best player.", "The club bought its best player."),
            "VERB"
        );
    }
}
