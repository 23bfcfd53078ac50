//! Splits long texts into pieces, by tokens or by sentences, with overlap. Pure.

use std::{fmt, ops::Range, str::FromStr};

use unicode_segmentation::UnicodeSegmentation;

/// Maximum number of tokens or sentences in a chunk.
const MOST: usize = 1 << 20;

/// The division of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chunking {
    /// Each text is one row.
    #[default]
    Whole,
    /// Pieces with a number of tokens of the encoder's own tokenizer.
    Tokens(Window),
    /// Pieces with a number of sentences (Unicode Standard Annex 29).
    Sentences(Window),
}

/// The size of a piece, and its overlap with the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Number of tokens or sentences in a piece, at least 1.
    pub size: usize,
    /// Number of them that are repeated in the next piece; less than `size`.
    pub overlap: usize,
}

impl fmt::Display for Chunking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("none"),
            Self::Tokens(window) => write!(f, "tokens={},overlap={}", window.size, window.overlap),
            Self::Sentences(window) => write!(f, "sentences={},overlap={}", window.size, window.overlap),
        }
    }
}

impl FromStr for Chunking {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a division into chunks; write none, tokens=256,overlap=32 or sentences=5,overlap=1"
            )
        };
        if text == "none" {
            return Ok(Self::Whole);
        }
        let mut parts = text.split(',');
        let mut number = |name: &str| -> Option<usize> { parts.next()?.trim().strip_prefix(name)?.parse().ok() };
        let by_tokens = text.starts_with("tokens=");
        let size = number(if by_tokens { "tokens=" } else { "sentences=" }).ok_or_else(wrong)?;
        let overlap = if text.contains(',') {
            number("overlap=").ok_or_else(wrong)?
        } else {
            0
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        if !(1..=MOST).contains(&size) || overlap >= size {
            return Err(format!(
                "`{text}`: a chunk has 1 to {MOST} tokens or sentences, and its overlap has fewer than the chunk"
            ));
        }
        let window = Window { size, overlap };
        Ok(if by_tokens {
            Self::Tokens(window)
        } else {
            Self::Sentences(window)
        })
    }
}

/// The pieces of a text by sentences, without surrounding white space. Empty if the text is white
/// space.
pub fn by_sentences(text: &str, window: Window) -> Vec<String> {
    let sentences: Vec<Range<usize>> = text
        .split_sentence_bound_indices()
        .filter(|(_, sentence)| !sentence.trim().is_empty())
        .map(|(at, sentence)| at..at + sentence.len())
        .collect();
    by_spans(text, &sentences, window)
}

/// The pieces of a text by the spans of its tokens (bytes, in order), without surrounding white
/// space.
pub fn by_spans(text: &str, spans: &[Range<usize>], window: Window) -> Vec<String> {
    let mut pieces = Vec::new();
    let step = window.size.saturating_sub(window.overlap).max(1);
    let mut first = 0;
    while first < spans.len() {
        let last = (first + window.size).min(spans.len()) - 1;
        // Byte tokens may end within a character; the whole character belongs to the piece.
        let start = text.floor_char_boundary(spans[first].start);
        let end = text.ceil_char_boundary(spans[last].end.min(text.len()));
        let piece = text.get(start..end).unwrap_or_default().trim();
        if !piece.is_empty() {
            pieces.push(piece.to_owned());
        }
        if last + 1 == spans.len() {
            break;
        }
        first += step;
    }
    pieces
}

/// The key of a row: the document's key, followed by the number of the piece if there are several.
pub fn row_key(document: &str, number: usize, chunking: Chunking) -> String {
    match chunking {
        Chunking::Whole => document.to_owned(),
        _ => format!("{document}#{number}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn window(size: usize, overlap: usize) -> Window {
        Window { size, overlap }
    }

    #[test]
    fn sentences_are_put_together_with_overlap_and_none_is_lost() {
        let text = " One is here. Two is here!  Three?\nFour ends. Five. ";
        assert_eq!(
            by_sentences(text, window(2, 1)),
            [
                "One is here. Two is here!",
                "Two is here!  Three?",
                "Three?\nFour ends.",
                "Four ends. Five."
            ]
        );
        assert_eq!(by_sentences(text, window(9, 0)), [text.trim()]);
        assert_eq!(by_sentences(" \n ", window(2, 0)), Vec::<String>::new());
    }

    #[test]
    fn a_division_is_read_as_it_is_written_and_nonsense_is_refused() {
        for text in ["none", "tokens=256,overlap=32", "sentences=5,overlap=0"] {
            assert_eq!(text.parse::<Chunking>().unwrap().to_string(), text);
        }
        let short: Chunking = "tokens=8".parse().unwrap();
        assert_eq!(short, Chunking::Tokens(window(8, 0)));
        for text in [
            "",
            "words=3",
            "tokens=",
            "tokens=0",
            "tokens=4,overlap=4",
            "tokens=4,overlap=1,x=2",
            "tokens=4,1",
        ] {
            assert!(text.parse::<Chunking>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_that_ends_within_a_letter_takes_the_letter_along() {
        assert_eq!(by_spans("aé", &[0..1, 1..2, 2..3], window(2, 0)), ["aé", "é"]);
    }

    proptest! {
        #[test]
        fn every_token_is_in_a_piece_and_neighbours_share_the_overlap(
            words in prop::collection::vec("[a-z]{1,5}", 1..40), size in 1_usize..9, share in 0.0_f64..1.0,
        ) {
            let overlap = ((size as f64 * share) as usize).min(size - 1);
            let text = words.join(" ");
            let (mut spans, mut at) = (Vec::new(), 0);
            for word in &words {
                spans.push(at..at + word.len());
                at += word.len() + 1;
            }
            let pieces = by_spans(&text, &spans, window(size, overlap));
            let pieces: Vec<Vec<&str>> = pieces.iter().map(|piece| piece.split(' ').collect()).collect();
            let mut whole: Vec<&str> = pieces[0].clone();
            for pair in pieces.windows(2) {
                prop_assert_eq!(&pair[0][pair[0].len() - overlap..], &pair[1][..overlap]);
                whole.extend(&pair[1][overlap..]);
            }
            prop_assert_eq!(whole, words.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert!(pieces.iter().all(|piece| piece.len() <= size));
        }
    }
}
