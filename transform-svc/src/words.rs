//! The definition of a word.
//!
//! Words are those of UAX #29 (`unicode-segmentation`): punctuation is not a word, and each Han
//! character is one. UAX #29 does not split scripts without spaces that need a dictionary (Thai,
//! Lao, Khmer, Myanmar), so each letter would count as a word. A run of them therefore counts one
//! word for every [`LETTERS_PER_WORD`] characters, so that a translation from Thai is not
//! classified as truncated.

use unicode_segmentation::UnicodeSegmentation;

/// Assumed mean length of a word, in characters, for scripts that need a dictionary.
pub const LETTERS_PER_WORD: usize = 4;

/// The words of a text, in order, as they are written.
pub fn words(text: &str) -> Vec<&str> {
    text.unicode_words().collect()
}

/// The number of words of a text.
pub fn count(text: &str) -> usize {
    ends(text).last().map_or(0, |(words, _)| words)
}

/// The position where the first `words` words of a text end.
pub(crate) fn end_of(text: &str, words: usize) -> Option<usize> {
    ends(text).find(|(count, _)| *count >= words).map(|(_, end)| end)
}

/// The ends of words, and the number of words up to each.
fn ends(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let (mut words, mut run, mut run_end) = (0, 0, 0);
    text.unicode_word_indices().map(move |(start, word)| {
        let end = start + word.len();
        if word.chars().all(needs_dictionary) {
            if run > 0 && start != run_end {
                words += run_words(run);
                run = 0;
            }
            run += word.chars().count();
            run_end = end;
        } else {
            words += run_words(run) + 1;
            run = 0;
        }
        (words + run_words(run), end)
    })
}

fn run_words(letters: usize) -> usize {
    letters.div_ceil(LETTERS_PER_WORD)
}

/// Thai, Lao, Myanmar, Khmer.
fn needs_dictionary(c: char) -> bool {
    matches!(c as u32, 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF)
}

/// Han, kana: written without spaces between words.
pub(crate) fn is_unspaced(c: char) -> bool {
    needs_dictionary(c) || matches!(c as u32, 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0x2_0000..=0x3_FFFF)
}

/// Joins words into one text: with a space between them, but none between two words of a script
/// without spaces.
pub fn join(words: &[&str]) -> String {
    let mut text = String::with_capacity(words.iter().map(|word| word.len() + 1).sum());
    for word in words {
        let glued = text.chars().next_back().is_some_and(is_unspaced) && word.chars().next().is_some_and(is_unspaced);
        if !text.is_empty() && !glued {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// Tokens that a language model needs for a text, estimated from its characters: about 0.3 per
/// ASCII character, 0.6 in other alphabets, 1.3 for a Han character or a kana. The estimate is
/// deliberately high.
pub fn estimated_tokens(text: &str) -> usize {
    let tenths: usize = text
        .chars()
        .map(|c| match c {
            c if c.is_ascii() => 3,
            c if is_unspaced(c) => 13,
            _ => 6,
        })
        .sum();
    tenths.div_ceil(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_is_no_word_and_an_apostrophe_does_not_split() {
        assert_eq!(words("Don't stop, believing!"), ["Don't", "stop", "believing"]);
        assert_eq!(count("..."), 0);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn each_han_character_is_a_word() {
        assert_eq!(count("我今天很高兴。"), 6);
    }

    #[test]
    fn a_run_of_thai_counts_by_length_not_by_letter() {
        // "I love the Thai language", 4 words in 14 characters.
        let n = count("ฉันรักภาษาไทย");
        assert!((3..=5).contains(&n), "{n}");
        assert_eq!(count("ฉัน ok ไทย"), 3);
    }

    #[test]
    fn words_end_where_so_many_have_been_counted() {
        assert_eq!(end_of("a red, car", 2), Some(5));
        assert_eq!(end_of("a red", 3), None);
        assert_eq!(end_of("今天", 1), Some(3));
    }

    #[test]
    fn joining_puts_a_space_only_where_the_script_has_one() {
        assert_eq!(join(&["a", "red", "car"]), "a red car");
        assert_eq!(join(&["今", "天"]), "今天");
        assert_eq!(join(&["see", "今", "天", "again"]), "see 今天 again");
        assert_eq!(join(&[]), "");
    }

    #[test]
    fn token_estimates_grow_with_the_text() {
        assert_eq!(estimated_tokens(""), 0);
        assert!(estimated_tokens("A man is playing a guitar.") >= 7);
        assert!(estimated_tokens("今天天气很好") >= 6);
    }
}
