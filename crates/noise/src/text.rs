//! A text as grapheme clusters and words.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::letters::{is_mark, is_number, is_unspaced};

/// The kind of a cluster, by its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A letter of any script.
    Letter,
    /// A digit or another numeral.
    Number,
    /// White space.
    Space,
    /// Punctuation, symbols, emoji.
    Other,
}

/// A grapheme cluster (UAX #29).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) class: Class,
    unspaced: bool,
}

/// A run of letters and numbers, with apostrophes between letters. Letters of a script without
/// spaces are a run of their own, and so are the numerals among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) pieces: Range<usize>,
    /// Whether it has a digit. Such words are identifiers or numbers.
    pub(crate) numeric: bool,
    /// Whether its script is written without spaces.
    pub(crate) unspaced: bool,
}

/// A text with its clusters and words.
pub(crate) struct Text<'a> {
    pub(crate) source: &'a str,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) words: Vec<Word>,
}

impl<'a> Text<'a> {
    pub(crate) fn read(source: &'a str) -> Self {
        let mut pieces = Vec::with_capacity(source.len());
        clusters(source, |start, end, first| {
            pieces.push(Piece {
                start,
                end,
                class: class(first),
                unspaced: is_unspaced(first),
            });
        });
        let mut text = Self {
            source,
            pieces,
            words: Vec::with_capacity(source.len() / 5 + 1),
        };
        text.find_words();
        text
    }

    fn find_words(&mut self) {
        let mut open: Option<Word> = None;
        for (at, piece) in self.pieces.iter().enumerate() {
            let number = piece.class == Class::Number;
            let inside = match piece.class {
                Class::Letter | Class::Number => open
                    .as_ref()
                    .is_some_and(|word| word.unspaced == piece.unspaced && !(word.unspaced && word.numeric != number)),
                Class::Space => false,
                Class::Other => open.as_ref().is_some_and(|word| !word.unspaced) && self.is_apostrophe(at),
            };
            if inside {
                if let Some(word) = &mut open {
                    word.pieces.end = at + 1;
                    word.numeric |= number;
                }
                continue;
            }
            self.words.extend(open.take());
            if matches!(piece.class, Class::Letter | Class::Number) {
                open = Some(Word {
                    pieces: at..at + 1,
                    numeric: number,
                    unspaced: piece.unspaced,
                });
            }
        }
        self.words.extend(open);
    }

    /// Whether a piece is an apostrophe between two letters.
    fn is_apostrophe(&self, at: usize) -> bool {
        matches!(self.cluster(at), "'" | "’")
            && self.is(at.checked_sub(1), Class::Letter)
            && self.is(Some(at + 1), Class::Letter)
    }

    /// The text of a piece.
    pub(crate) fn cluster(&self, at: usize) -> &'a str {
        let piece = &self.pieces[at];
        &self.source[piece.start..piece.end]
    }

    /// The bytes of a piece.
    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        self.pieces[at].start..self.pieces[at].end
    }

    /// The bytes of a word.
    pub(crate) fn span(&self, word: &Word) -> Range<usize> {
        self.pieces[word.pieces.start].start..self.pieces[word.pieces.end - 1].end
    }

    /// Whether a position has a piece of a class.
    pub(crate) fn is(&self, at: Option<usize>, class: Class) -> bool {
        at.and_then(|at| self.pieces.get(at))
            .is_some_and(|piece| piece.class == class)
    }

    /// Whether the nearest pieces on either side, spaces skipped, have a number.
    pub(crate) fn beside_number(&self, at: usize) -> bool {
        let number = |piece: Option<&Piece>| piece.is_some_and(|piece| piece.class == Class::Number);
        let solid = |piece: &&Piece| piece.class != Class::Space;
        number(self.pieces[..at].iter().rev().find(solid)) || number(self.pieces[at + 1..].iter().find(solid))
    }

    /// Whether a word with a digit ends or begins beside a space.
    pub(crate) fn beside_digits_of_word(&self, space: usize) -> bool {
        let at = self.words.partition_point(|word| word.pieces.end <= space);
        let before = at.checked_sub(1).and_then(|at| self.words.get(at));
        let after = self.words.get(at);
        before.is_some_and(|word| word.numeric && word.pieces.end == space)
            || after.is_some_and(|word| word.numeric && word.pieces.start == space + 1)
    }

    /// The letters of words without digits: position in the text, position in the word, word.
    pub(crate) fn letters(&self) -> impl Iterator<Item = (usize, usize, &Word)> {
        let words = self.words.iter().filter(|word| !word.numeric);
        let all = words.flat_map(|word| word.pieces.clone().map(move |at| (at, at - word.pieces.start, word)));
        all.filter(|(at, ..)| self.pieces[*at].class == Class::Letter)
    }
}

fn class(first: char) -> Class {
    match first {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        ' ' => Class::Space,
        // Letters of frequent blocks, without a search in tables.
        '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{24f}' | '\u{3a3}'..='\u{3f5}' | '\u{400}'..='\u{481}' => Class::Letter,
        '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}' | '\u{904}'..='\u{939}' | '\u{ac00}'..='\u{d7a3}' => {
            Class::Letter
        }
        _ if is_number(first) => Class::Number,
        // A mark without its letter is not one.
        _ if first.is_alphabetic() && !is_mark(first) => Class::Letter,
        _ if first.is_whitespace() => Class::Space,
        _ => Class::Other,
    }
}

/// Characters that begin a cluster where they follow another of them or one that joins: their
/// `Grapheme_Cluster_Break` is `Other`, `Control` or that of a whole Hangul syllable.
fn begins(c: char) -> bool {
    match c as u32 {
        0..0x300 => c != '\r',
        0x370..=0x482 | 0x48A..=0x58F | 0x5D0..=0x5EA | 0x620..=0x64A | 0x671..=0x6D3 => true,
        0x904..=0x939 | 0x964..=0x96F | 0xE01..=0xE30 | 0xE40..=0xE46 => true,
        0x10A0..=0x10FF | 0x1200..=0x135A | 0x1E00..=0x1FFF => true,
        0x3001..=0x3029 | 0x3041..=0x3096 | 0x30A1..=0x30FC | 0x4E00..=0x9FFF | 0xAC00..=0xD7A3 => true,
        _ => false,
    }
}

/// Marks that belong to the cluster before them (`Extend` or `SpacingMark`) and join nothing to it,
/// as a virama would.
fn joins(c: char) -> bool {
    matches!(c as u32,
        0x300..=0x36F | 0x591..=0x5BD | 0x64B..=0x65F | 0x670 | 0x900..=0x903 | 0x93A..=0x93C | 0x93E..=0x94C
        | 0xE31 | 0xE34..=0xE3A | 0xE47..=0xE4E)
}

/// Calls a function with start, end and first character of every cluster.
fn clusters(source: &str, mut each: impl FnMut(usize, usize, char)) {
    let mut characters = source.char_indices().peekable();
    // The first character of those that may belong to one cluster, and whether they certainly do.
    let (mut from, mut opening, mut one) = (0, None, true);
    while let Some((at, c)) = characters.next() {
        match opening {
            None => (opening, one) = (Some(c), begins(c)),
            Some(first) => {
                one = one && joins(c) && first >= ' ' && first != '\u{ad}' && !('\u{7f}'..='\u{9f}').contains(&first)
            }
        }
        // A letter joins over marks if a virama stands before them.
        let divides = (begins(c) || one && joins(c)) && characters.peek().is_none_or(|(_, next)| begins(*next));
        if !divides && characters.peek().is_some() {
            continue;
        }
        let end = at + c.len_utf8();
        if one {
            each(from, end, opening.unwrap_or(c));
        } else {
            for (start, cluster) in source[from..end].grapheme_indices(true) {
                let first = cluster.chars().next().unwrap_or_default();
                each(from + start, from + start + cluster.len(), first);
            }
        }
        (from, opening) = (end, None);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn words(source: &str) -> Vec<&str> {
        let text = Text::read(source);
        text.words.iter().map(|word| &source[text.span(word)]).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_with_their_apostrophes() {
        assert_eq!(words("Don't stop, B2B!"), ["Don't", "stop", "B2B"]);
        assert_eq!(
            words("l’homme 'quoted' well-known"),
            ["l’homme", "quoted", "well", "known"]
        );
        assert_eq!(words("今天3点 ok三十天"), ["今天", "3", "点", "ok", "三十", "天"]);
        let text = Text::read("v2 two 三十");
        assert_eq!(
            text.words.iter().map(|word| word.numeric).collect::<Vec<_>>(),
            [true, false, true]
        );
    }

    #[test]
    fn a_number_is_seen_across_spaces() {
        let text = Text::read("10 - b, c");
        assert!(text.beside_number(3));
        assert!(!text.beside_number(6));
    }

    #[test]
    fn the_shortened_tables_agree_with_unicode() {
        for c in '\0'..='\u{ffff}' {
            let expected = if is_number(c) {
                Class::Number
            } else if c.is_alphabetic() && !is_mark(c) {
                Class::Letter
            } else if c.is_whitespace() {
                Class::Space
            } else {
                Class::Other
            };
            assert_eq!(class(c), expected, "{c:?}");
            for (text, alone) in [(format!("a{c}"), begins(c)), (format!("a{c}a"), begins(c))] {
                let clusters = text.graphemes(true).count();
                assert!(!alone || clusters == text.chars().count(), "{c:?}");
                assert!(!joins(c) || clusters == text.chars().count() - 1, "{c:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn clusters_are_those_of_uax_29(source in "[a-zéก-ฺ्ँकािัี가각\u{85}\u{ad}\u{1100}\u{1161}\u{11a8}\u{301}\u{200d}\r\n\u{0}क्षा\u{94d}กำข้👍🏽👩©\u{adf}あ\u{3099}שׁ\u{627}\u{64e}а\u{306}🇩🇪\u{600}]{0,24}") {
            let mut found = Vec::new();
            clusters(&source, |start, end, _| found.push(&source[start..end]));
            let expected: Vec<&str> = source.graphemes(true).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
