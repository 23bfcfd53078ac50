//! GASE's control: a random subset of a text's words (appendix B there).

use std::sync::Arc;

use isomer_transformations::Parameters;
use rand::seq::index;

use super::{Row, Rule, RuleRefusal, Subject, any};
use crate::{seed, words};

/// Minimum number of words kept, if the text has that many.
pub const MIN_WORDS: usize = 3;

pub(super) const ROW: Row = Row {
    name: "random_keywords",
    read: |given| Ok(Arc::new(RandomKeywords::new(given))),
    values: any,
};

/// The rule: a random share of the words.
#[derive(Debug)]
pub struct RandomKeywords {
    keep_ratio: f64,
}

impl RandomKeywords {
    fn new(given: Parameters<'_>) -> Self {
        Self {
            keep_ratio: given.share("keep_ratio"),
        }
    }
}

impl Rule for RandomKeywords {
    fn apply(&self, text: &Subject<'_>) -> Result<Vec<String>, RuleRefusal> {
        Ok(vec![random_keywords(text.text, self.keep_ratio, text.seed, text.id)])
    }
}

/// Keeps a random `keep_ratio` of the words, rounded to the nearest number and at least
/// [`MIN_WORDS`], in the order of the text and without punctuation. The draw is a function of
/// `(seed, text_id)` and the number of words alone.
pub fn random_keywords(text: &str, keep_ratio: f64, seed: u64, text_id: &str) -> String {
    let words = words::words(text);
    let share = (words.len() as f64 * keep_ratio).round() as usize;
    let keep = share.max(MIN_WORDS).min(words.len());
    let mut chosen = index::sample(&mut seed::rng(seed, &["random-keywords", text_id]), words.len(), keep).into_vec();
    chosen.sort_unstable();
    let chosen: Vec<&str> = chosen.into_iter().filter_map(|at| words.get(at).copied()).collect();
    words::join(&chosen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::HashSet;

    use super::*;

    /// The default of the catalogue.
    const KEEP_RATIO: f64 = 16.1 / 58.2;

    const TEXT: &str = "The quick, brown fox jumps over the lazy dog; then it sleeps (for once) under an old oak tree.";

    #[test]
    fn the_same_seed_and_id_keep_the_same_words() {
        let first = random_keywords(TEXT, KEEP_RATIO, 1337, "7");
        assert_eq!(first, random_keywords(TEXT, KEEP_RATIO, 1337, "7"));
        // 19 words, 0.2766 of them: 5.
        assert_eq!(first.split(' ').count(), 5, "{first}");
    }

    #[test]
    fn seeds_and_ids_draw_differently() {
        let draws: HashSet<_> = (0..20)
            .flat_map(|n| {
                [
                    random_keywords(TEXT, KEEP_RATIO, n, "7"),
                    random_keywords(TEXT, KEEP_RATIO, 1337, &n.to_string()),
                ]
            })
            .collect();
        assert!(draws.len() > 35, "{}", draws.len());
    }

    #[test]
    fn kept_words_stand_in_the_order_of_the_text_without_punctuation() {
        let all = words::words(TEXT);
        for seed in 0..50 {
            let kept = random_keywords(TEXT, 0.5, seed, "x");
            let mut rest = all.iter();
            for word in kept.split(' ') {
                assert!(rest.any(|candidate| *candidate == word), "{word} of {kept}");
            }
        }
    }

    #[test]
    fn at_least_three_words_are_kept_where_there_are_three() {
        assert_eq!(random_keywords("one two three four", 0.01, 1, "").split(' ').count(), 3);
        assert_eq!(random_keywords("one, two!", KEEP_RATIO, 1, ""), "one two");
        assert_eq!(random_keywords("?!", KEEP_RATIO, 1, ""), "");
        assert_eq!(random_keywords("", KEEP_RATIO, 1, ""), "");
    }

    #[test]
    fn each_word_is_kept_about_as_often_as_any_other() {
        let text = "a b c d e f g h i j";
        let mut counts = [0_u32; 10];
        for seed in 0..2000 {
            for word in random_keywords(text, 0.3, seed, "x").split(' ') {
                counts[text.split(' ').position(|w| w == word).unwrap()] += 1;
            }
        }
        // 600 expected each, standard deviation 20.5.
        assert!(counts.iter().all(|n| (500..700).contains(n)), "{counts:?}");
    }
}
