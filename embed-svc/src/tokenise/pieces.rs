//! Tokenises long texts in pieces.
//!
//! The library holds some hundred bytes for each byte of a text while it tokenises. With pieces, it
//! does so only for the bytes of one piece. A text is split before a space between two ASCII
//! letters or digits, and only for tokenizers whose tokens never cross such a place. So the tokens
//! of the pieces are those of the whole text.

use std::collections::VecDeque;

use tokenizers::{Encoding, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use super::{Cut, turn};

/// A piece ends at the first permitted place after this many bytes.
const PIECE: usize = 16 << 10;

/// The tokens at one end of a text, without special tokens around them.
pub(super) struct TextEnd {
    /// At least the requested number of tokens, if the text has that many.
    pub(super) tokens: Encoding,
    /// Number of tokens of the whole text.
    pub(super) count: usize,
}

/// At least `most` tokens of the end that `cut` keeps; all tokens if `in_pieces` is false.
pub(super) fn encode(inner: &Tokenizer, text: &str, in_pieces: bool, most: usize, cut: Cut) -> Result<TextEnd, String> {
    let mut rest = text;
    let mut kept = VecDeque::new();
    let (mut held, mut count) = (0, 0);
    loop {
        let (piece, after) = if in_pieces { split(rest) } else { (rest, "") };
        let tokens = {
            let _turn = turn(piece);
            inner.encode_fast(piece, false).map_err(|error| error.to_string())?
        };
        count += tokens.len();
        if !matches!(cut, Cut::Tail) || held < most {
            held += tokens.len();
            kept.push_back(tokens);
        }
        if matches!(cut, Cut::Head) {
            while let Some(first) = kept.front().filter(|first| held - first.len() >= most) {
                held -= first.len();
                kept.pop_front();
            }
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    let mut tokens = kept.pop_front().unwrap_or_default();
    for more in kept {
        tokens.merge_with(more, false);
    }
    Ok(TextEnd { tokens, count })
}

/// The first piece of a text, and the rest.
fn split(text: &str) -> (&str, &str) {
    let place = |three: &[u8]| matches!(three, [before, b' ', after] if before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric());
    let bytes = text.as_bytes().get(PIECE..).unwrap_or_default();
    match bytes.windows(3).position(place) {
        Some(at) => text.split_at(PIECE + at + 1),
        None => (text, ""),
    }
}

/// Whether no token of this tokenizer crosses a space between two ASCII letters or digits, whatever
/// surrounds them.
pub(super) fn possible(inner: &Tokenizer) -> bool {
    let words = match inner.get_pre_tokenizer() {
        // This pre-tokenizer drops the space.
        Some(PreTokenizerWrapper::BertPreTokenizer(_)) => true,
        // This pre-tokenizer begins a word with the space. Since the second piece begins with a
        // space, `add_prefix_space` does not add another.
        Some(PreTokenizerWrapper::ByteLevel(bytes)) => bytes.use_regex,
        _ => false,
    };
    let mut added = inner.get_added_tokens_decoder().into_values();
    words
        && inner.get_normalizer().is_none_or(is_local)
        && added.all(|token| {
            let in_word = |one: char| one.is_alphanumeric() || !one.is_ascii();
            let takes_spaces = token.lstrip || token.rstrip;
            let of_spaces = token.content.len() > 1 && token.content.bytes().all(|byte| byte == b' ');
            match token.content.contains(char::is_whitespace) {
                // At a permitted place there is a single space.
                true => of_spaces && !takes_spaces,
                false => !takes_spaces || !(token.content.starts_with(in_word) || token.content.ends_with(in_word)),
            }
        })
}

/// Whether a normalizer treats an ASCII letter, digit or space independently of its neighbours,
/// except combining marks.
fn is_local(normalizer: &NormalizerWrapper) -> bool {
    match normalizer {
        NormalizerWrapper::BertNormalizer(_)
        | NormalizerWrapper::StripAccents(_)
        | NormalizerWrapper::Lowercase(_)
        | NormalizerWrapper::NFC(_)
        | NormalizerWrapper::NFD(_)
        | NormalizerWrapper::NFKC(_)
        | NormalizerWrapper::NFKD(_) => true,
        NormalizerWrapper::Sequence(all) => all.as_ref().iter().all(is_local),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::super::TextTokenizer;
    use super::*;

    fn tokenizer(folder: &str) -> TextTokenizer {
        let fixtures = Path::new(".").join("tests/fixtures");
        let file = fixtures.join(folder).join("tokenizer.json");
        TextTokenizer::load(&file, false).unwrap_or_else(|error| panic!("{folder}: {error}"))
    }

    /// Words, punctuation, accents and unusual spaces in an order determined by a seed.
    fn text(seed: u64, words: usize) -> String {
        const PARTS: &[&str] = &[
            "storm",
            "The",
            "7",
            "[MASK]",
            "<mask>",
            "é",
            "e\u{301}",
            "\u{301}",
            " ",
            "  ",
            "\t",
            "\n",
            ",",
            "n't",
            "'s",
            "猫",
            "\u{a0}",
            "Ἀθῆναι",
            "ΟΔΟΣ",
            "a1",
            "x",
            "\u{200d}",
            "...",
            "ﬁ",
            "½",
            "\u{0}",
            "🙂",
            "##ing",
            "word",
            "under",
            "the",
            "of",
            "42",
        ];
        let mut state = seed;
        let mut out = String::new();
        for _ in 0..words {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            out.push_str(PARTS[(state >> 33) as usize % PARTS.len()]);
            if state >> 60 > 4 {
                out.push(' ');
            }
        }
        out
    }

    #[test]
    fn the_tokens_of_pieces_are_those_of_the_whole_text() {
        for (folder, limit) in [
            ("bert_reranker", 30),
            ("distilbert", 30),
            ("roberta", 9000),
            ("modernbert", usize::MAX),
        ] {
            let tokenizer = tokenizer(folder);
            let super::super::Kind::File(inner) = &tokenizer.kind else {
                panic!("{folder}")
            };
            assert!(possible(inner), "{folder} is read in pieces");
            for seed in 0..6 {
                let text = text(seed, 14_000);
                assert!(!split(&text).1.is_empty(), "the text is longer than a piece");
                let whole = encode(inner, &text, false, limit, Cut::Tail).unwrap();
                let tail = encode(inner, &text, true, limit, Cut::Tail).unwrap();
                let head = encode(inner, &text, true, limit, Cut::Head).unwrap();
                assert_eq!((tail.count, head.count), (whole.count, whole.count), "{folder} {seed}");
                let ids = whole.tokens.get_ids();
                assert!(
                    ids.starts_with(tail.tokens.get_ids()) && ids.ends_with(head.tokens.get_ids()),
                    "{folder} {seed}"
                );
                let enough = limit.min(whole.count);
                assert!(
                    tail.tokens.len() >= enough && head.tokens.len() >= enough,
                    "{folder} {seed}"
                );
            }
        }
    }

    #[test]
    fn a_tokenizer_whose_tokens_may_hold_a_space_is_given_whole_texts() {
        let words = tokenizer("bert_reranker");
        let super::super::Kind::File(inner) = &words.kind else {
            panic!()
        };
        assert!(possible(inner));
        let mut greedy = tokenizers::AddedToken::from("storm", false);
        greedy.rstrip = true;
        for token in [tokenizers::AddedToken::from("New York", false), greedy] {
            let mut changed = inner.clone();
            changed.add_tokens([token]).unwrap();
            assert!(!possible(&changed));
        }
        let table = tokenizer("xlm_roberta");
        let super::super::Kind::File(inner) = &table.kind else {
            panic!()
        };
        assert!(
            !possible(inner),
            "what a sentencepiece table does with a space is not known"
        );
    }

    #[test]
    fn a_long_text_takes_no_more_tokens_at_once_than_a_piece_has() {
        let text = "a ".repeat(PIECE * 4);
        let (mut rest, mut pieces) = (text.as_str(), 0);
        while !rest.is_empty() {
            let (piece, after) = split(rest);
            assert!(piece.len() <= PIECE + 3);
            (rest, pieces) = (after, pieces + 1);
        }
        assert!(pieces >= 7);
    }
}
