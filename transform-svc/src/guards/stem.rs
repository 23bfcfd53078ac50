//! A simple stem, for finding another form of a word in the other text.

use std::collections::BTreeSet;

/// Maximum number of letters of a stem.
const LETTERS: usize = 5;
/// Shorter words match only if they are equal.
const LEAST: usize = 4;
/// Maximum number of letters after the common beginning.
const REST: usize = 6;

/// Whether two lower-case words are forms of one word, judged by their beginnings: `refund` and
/// `refunding`.
pub(super) fn same(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (long, short) = (
        a.chars().count().max(b.chars().count()),
        a.chars().count().min(b.chars().count()),
    );
    let shared = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    short >= LEAST
        && shared >= short.min(LETTERS) - usize::from(short >= LETTERS && long > short)
        && long - shared <= REST
}

/// Words by their length, for finding a form of a word. The cost of a lookup does not grow with the
/// number of words.
#[derive(Debug, Default)]
pub(super) struct Forms<'a>(BTreeSet<(usize, &'a str)>);

impl<'a> FromIterator<&'a str> for Forms<'a> {
    fn from_iter<T: IntoIterator<Item = &'a str>>(words: T) -> Self {
        Self(words.into_iter().map(|word| (word.chars().count(), word)).collect())
    }
}

impl Forms<'_> {
    /// Whether one of the words is a form of this word.
    pub(super) fn has(&self, word: &str) -> bool {
        let letters = word.chars().count();
        // Among sorted words of one length, the neighbours share the longest beginning.
        (letters.saturating_sub(REST)..=letters + REST).any(|length| {
            let place = (length, word);
            let (before, after) = (self.0.range(..place).next_back(), self.0.range(place..).next());
            let near = before.into_iter().chain(after);
            near.filter(|(own, _)| *own == length)
                .any(|(_, other)| same(other, word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_the_same_and_other_words_are_not() {
        for (a, b) in [
            ("refund", "refunding"),
            ("park", "parking"),
            ("approve", "approved"),
            ("eats", "eats"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [("late", "lake"), ("open", "over"), ("to", "too"), ("eat", "eats")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }
    #[test]
    fn a_form_is_found_among_words_as_by_comparing_each() {
        let words = [
            "refunding",
            "refine",
            "ref",
            "parks",
            "parted",
            "lake",
            "lakes",
            "to",
            "international",
        ];
        let forms: Forms<'_> = words.into_iter().collect();
        for word in [
            "refund", "refining", "ref", "re", "park", "part", "late", "laked", "too", "internal", "x",
        ] {
            let one_by_one = words.iter().any(|other| same(other, word));
            assert_eq!(forms.has(word), one_by_one, "{word}");
        }
    }
}
