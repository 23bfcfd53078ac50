//! sentence-transformers' `WhitespaceTokenizer`: words between white space. Each word is looked up
//! unchanged, then without surrounding punctuation, then in lower case. The first match counts;
//! words without a match are dropped.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use super::parts::unknown;
use crate::folder::WordList;

/// A list of words and the rules for looking up texts in it.
#[derive(Debug)]
pub struct WordTokenizer {
    ids: HashMap<String, u32>,
    /// The reverse map, built on first use.
    words: OnceLock<HashMap<u32, String>>,
    stop_words: HashSet<String>,
    lower_case: bool,
}

impl WordTokenizer {
    /// If a word is in the list twice, the later index counts.
    pub fn new(list: WordList) -> Self {
        Self {
            ids: list.vocab.into_iter().zip(0..).collect(),
            words: OnceLock::new(),
            stop_words: list.stop_words.into_iter().collect(),
            lower_case: list.do_lower_case,
        }
    }

    /// Everything that affects ids, in an order independent of hashes.
    pub fn settings(&self) -> String {
        let mut words: Vec<_> = self.ids.iter().collect();
        words.sort();
        let mut stop_words: Vec<_> = self.stop_words.iter().collect();
        stop_words.sort();
        format!("{words:?} {stop_words:?} {}", self.lower_case)
    }

    /// Largest id plus one.
    pub fn vocabulary(&self) -> usize {
        self.ids.values().max().map_or(0, |&id| id as usize + 1)
    }

    /// Ids of the known words of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let lower;
        let text = if self.lower_case {
            lower = text.to_lowercase();
            &lower
        } else {
            text
        };
        text.split(is_space).filter_map(|word| self.find(word)).collect()
    }

    /// The words of ids.
    ///
    /// # Errors
    /// If an id has no word; the first such id is named.
    pub fn text_of(&self, ids: &[u32]) -> Result<String, String> {
        let invert = || self.ids.iter().map(|(word, id)| (*id, word.clone())).collect();
        let words = self.words.get_or_init(invert);
        let word = |id: &u32| words.get(id).map(String::as_str).ok_or_else(|| unknown(*id));
        let words: Vec<&str> = ids.iter().map(word).collect::<Result<_, _>>()?;
        Ok(words.join(" "))
    }

    fn find(&self, word: &str) -> Option<u32> {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
        // A stop word ends the search, in whichever form it matches.
        let look = |form: &str| match self.stop_words.contains(form) {
            true => Some(None),
            false => self.ids.get(form).map(|id| Some(*id)),
        };
        if word.is_empty() {
            return None;
        }
        look(word)
            .or_else(|| look(bare).filter(|found| found.is_none() || !bare.is_empty()))
            .or_else(|| look(&bare.to_lowercase()))
            .flatten()
    }
}

/// White space as in Python's `str.split`: Unicode's and the four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str, lower_case: bool) -> Vec<u32> {
        let words = ["pad", "cat", "Dog", "u.s.", "u.s", "it's"];
        WordTokenizer::new(WordList {
            vocab: words.map(str::to_owned).to_vec(),
            stop_words: vec!["the".into(), "it's".into()],
            do_lower_case: lower_case,
        })
        .encode(text)
    }

    #[test]
    fn a_word_is_looked_up_as_it_stands_then_bare_then_in_lower_case() {
        assert_eq!(ids("cat  Dog\tCAT, (cat) DOG dog", false), [1, 2, 1, 1]);
        assert_eq!(ids("u.s. U.S. u.s.!", false), [3, 4, 4]);
        assert_eq!(ids("U.S.", true), [3]);
        assert!(ids("", false).is_empty());
        assert_eq!(ids("... ! \u{1c}cat\u{a0}cat", false), [1, 1]);
    }

    #[test]
    fn stop_words_are_left_out_in_every_form() {
        assert_eq!(ids("the The, THE it's cat", false), [1]);
    }
}
