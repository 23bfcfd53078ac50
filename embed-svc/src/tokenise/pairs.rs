//! Pairs of texts, the input of cross-encoders.

use tokenizers::{Encoding, PostProcessor, Tokenizer, TruncationDirection};

use super::{Kind, TextTokenizer, Tokens, turn};

/// The first text of pairs, tokenised once for all pairs.
#[derive(Debug, Clone)]
pub struct First {
    /// Its beginning, no longer than a pair can hold.
    head: Encoding,
    /// Number of tokens of the whole text.
    count: usize,
}

impl TextTokenizer {
    /// The first text of pairs of at most `limit` ids.
    ///
    /// # Errors
    /// If the tokenizer refuses the text or is a list of words, which does not support pairs.
    pub fn first_of_pairs(&self, text: &str, limit: usize) -> Result<First, String> {
        let _turn = turn(text);
        let inner = self.of_pairs()?;
        let mut head = self.guarded(|| inner.encode_fast(text, false))?;
        let count = head.len();
        // A longer text keeps the same tokens after truncation.
        cut(&mut head, limit);
        Ok(First { head, count })
    }

    /// Ids of a pair of texts with the special tokens of a pair, at most `limit`. Tokens are
    /// dropped from the end of the longer text.
    ///
    /// # Errors
    /// Those of [`first_of_pairs`](Self::first_of_pairs).
    pub fn encode_pair(&self, first: &First, second: &str, limit: usize) -> Result<Tokens, String> {
        let inner = self.of_pairs()?;
        let _turn = turn(second);
        let mut head = first.head.clone();
        let mut second = self.guarded(|| inner.encode_fast(second, false))?;
        let special = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(true));
        let count = first.count + second.len() + special;
        if count > limit {
            let (of_first, of_second) = shares(first.count, second.len(), limit.saturating_sub(special));
            cut(&mut head, of_first);
            cut(&mut second, of_second);
        }
        let both = self.guarded(|| inner.post_process(head, Some(second), true))?;
        Ok(Tokens {
            ids: both.get_ids().to_vec(),
            count,
            prompt: 0,
            second: both.get_type_ids().iter().position(|kind| *kind > 0),
        })
    }

    fn of_pairs(&self) -> Result<&Tokenizer, String> {
        match &self.kind {
            Kind::File(inner) => Ok(inner),
            Kind::Words(_) => Err("a list of words knows no pairs".into()),
        }
    }
}

/// Number of tokens of each text in a pair with room for `room` tokens. The end of the longer text
/// is dropped first, as in the library's `longest_first`.
fn shares(first: usize, second: usize, room: usize) -> (usize, usize) {
    let short = first.min(second).min(room / 2);
    let long = room - short;
    if first > second { (long, short) } else { (short, long) }
}

fn cut(encoding: &mut Encoding, most: usize) {
    encoding.truncate(most, 0, TruncationDirection::Right);
    // Drop the overflowing parts. The library would pair each such part of one text with each of
    // the other.
    encoding.take_overflowing();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokenizers::{TruncationParams, TruncationStrategy, truncate_encodings};

    use super::*;

    fn of(tokens: usize) -> Encoding {
        let token = tokenizers::Token::new(1, "a".into(), (0, 1));
        Encoding::from_tokens(vec![token; tokens], 0)
    }

    #[test]
    fn the_shares_are_those_of_the_librarys_longest_first() {
        for (first, second, room) in
            (0..9).flat_map(|a| (0..9).flat_map(move |b| (1..12).map(move |room| (a, b, room))))
        {
            if first + second <= room {
                continue;
            }
            let params = TruncationParams {
                max_length: room,
                strategy: TruncationStrategy::LongestFirst,
                stride: 0,
                direction: TruncationDirection::Right,
            };
            let (head, tail) = truncate_encodings(of(first), Some(of(second)), &params).unwrap();
            let theirs = (head.len(), tail.unwrap().len());
            let (mine, other) = shares(first, second, room);
            assert_eq!((mine.min(first), other.min(second)), theirs, "{first} {second} {room}");
        }
    }
}
