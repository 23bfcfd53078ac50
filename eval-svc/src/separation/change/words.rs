//! Helpers of the rules: words with their parts of speech, replacing a span, and a draw that
//! depends only on its parts.

use std::ops::Range;

use isomer_tagger::{Entity, Pos, Tagger};

/// An English word or punctuation mark of a text.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// Its byte range in the text.
    pub(super) span: Range<usize>,
    /// The word in lower case, with a straight apostrophe.
    pub(super) lower: String,
    /// Its part of speech.
    pub(super) pos: Pos,
}

/// An English text, tagged once for all rules.
#[derive(Debug, Clone)]
pub(super) struct English<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word>,
    pub(super) entities: Vec<Entity>,
}

impl<'a> English<'a> {
    /// Tags a text.
    pub(super) fn new(tagger: &Tagger, text: &'a str) -> Self {
        let tagged = tagger.tag(text);
        let words = tagged.tokens.into_iter().map(|token| Word {
            lower: text[token.span.clone()].to_lowercase().replace('’', "'"),
            span: token.span,
            pos: token.pos,
        });
        Self {
            text,
            words: words.collect(),
            entities: tagged.entities,
        }
    }

    /// The word at a position, in lower case; empty beyond the ends.
    pub(super) fn lower(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &word.lower)
    }

    /// The part of speech at a position.
    pub(super) fn pos(&self, at: usize) -> Option<Pos> {
        self.words.get(at).map(|word| word.pos)
    }

    /// The text with the word at a position replaced. The replacement takes the letter case of that
    /// word, and the article before it (`a`, `an`) is adapted to the new word.
    pub(super) fn replaced(&self, at: usize, by: &str) -> Option<String> {
        let word = self.words.get(at)?;
        let old = &self.text[word.span.clone()];
        let new = in_case_of(old, by);
        let mut out = String::with_capacity(self.text.len() + by.len());
        match at.checked_sub(1).and_then(|before| self.words.get(before)) {
            Some(article)
                if matches!(article.lower.as_str(), "a" | "an") && sounds_vowel(old) != sounds_vowel(&new) =>
            {
                out.push_str(&self.text[..article.span.start]);
                let fitting = if sounds_vowel(&new) { "an" } else { "a" };
                out.push_str(&in_case_of(&self.text[article.span.clone()], fitting));
                out.push_str(&self.text[article.span.end..word.span.start]);
            }
            _ => out.push_str(&self.text[..word.span.start]),
        }
        out.push_str(&new);
        out.push_str(&self.text[word.span.end..]);
        Some(out)
    }
}

/// Whether a word's pronunciation begins with a vowel, judged by its letters.
fn sounds_vowel(word: &str) -> bool {
    let word = word.to_lowercase();
    let silent_h = ["honest", "hour", "heir"].iter().any(|start| word.starts_with(start));
    let spoken_u = ["uni", "use", "usu", "eur", "one"]
        .iter()
        .any(|start| word.starts_with(start));
    let unites = spoken_u && !word.starts_with("unin") && !word.starts_with("unim");
    silent_h || (word.starts_with(['a', 'e', 'i', 'o', 'u']) && !unites)
}

/// A word in the letter case of another: all capitals, a first capital, or unchanged.
pub(super) fn in_case_of(model: &str, word: &str) -> String {
    let mut letters = model.chars().filter(|c| c.is_alphabetic());
    let first = letters.next().is_some_and(char::is_uppercase);
    let rest = letters.next();
    if first && rest.is_some_and(char::is_uppercase) {
        word.to_uppercase()
    } else if first {
        capitalised(word)
    } else {
        word.to_owned()
    }
}

/// The word with a capital first letter.
pub(super) fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// The text without a span and the white space before it, or after it at the start of the text.
pub(super) fn without(text: &str, span: Range<usize>) -> String {
    let before = text[..span.start].trim_end();
    let after = &text[span.end..];
    if before.is_empty() {
        return capitalised(after.trim_start());
    }
    format!("{before}{after}")
}

/// The text with a span replaced.
pub(super) fn spliced(text: &str, span: Range<usize>, by: &str) -> String {
    format!("{}{by}{}", &text[..span.start], &text[span.end..])
}

/// A number below `n` (0 if `n` is 0) that depends only on these parts. Each part is hashed with
/// its length as a prefix.
pub(in crate::separation) fn drawn(parts: &[&str], seed: u64, n: usize) -> usize {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"isomer.separation/1");
    hasher.update(&seed.to_le_bytes());
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    // Multiplication instead of a remainder: the bias is below 2^-40 for any list that fits in
    // memory.
    ((u128::from(u64::from_le_bytes(bytes)) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_takes_the_letter_case_of_the_one_it_replaces() {
        assert_eq!(in_case_of("Small", "large"), "Large");
        assert_eq!(in_case_of("SMALL", "large"), "LARGE");
        assert_eq!(in_case_of("small", "large"), "large");
        assert_eq!(in_case_of("A", "an"), "An");
    }

    #[test]
    fn draws_stay_below_n_and_depend_on_every_part() {
        let all: Vec<usize> = (0..64).map(|seed| drawn(&["a", "bc"], seed, 5)).collect();
        assert!(all.iter().all(|one| *one < 5) && (0..5).all(|one| all.contains(&one)));
        let other: Vec<usize> = (0..64).map(|seed| drawn(&["ab", "c"], seed, 5)).collect();
        assert_ne!(all, other);
        assert_eq!(drawn(&[], 1, 0), 0);
    }

    #[test]
    fn taking_a_word_out_leaves_one_space() {
        assert_eq!(without("It is not red.", 6..9), "It is red.");
        assert_eq!(without("Not all came.", 0..3), "All came.");
    }
}
