//! Draws the pairs to be rated.

/// Part of every draw's hash: increment it to draw other pairs.
const VERSION: &str = "isomer.judge.draw/1";

/// Positions, ascending, of the pairs (original, made) to be rated: at most `most`, 0 for all. The
/// pairs are ordered by a hash of the seed and the original, so that the same originals come first,
/// regardless of the other pairs and of the transformed texts. Equal originals are ordered by their
/// transformed texts. Of equal pairs only the first is used.
pub(crate) fn draw(seed: u64, pairs: &[(&str, &str)], most: u32) -> Vec<usize> {
    let mut order: Vec<([u8; 32], [u8; 32], usize)> = pairs
        .iter()
        .enumerate()
        .map(|(i, (original, made))| (hash(seed, original), hash(seed, made), i))
        .collect();
    order.sort_unstable();
    order.dedup_by(|next, kept| (next.0, next.1) == (kept.0, kept.1));
    if most > 0 {
        order.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    let mut drawn: Vec<usize> = order.into_iter().map(|(_, _, i)| i).collect();
    drawn.sort_unstable();
    drawn
}

fn hash(seed: u64, text: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(VERSION.as_bytes());
    hasher.update(&seed.to_le_bytes());
    hasher.update(text.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn texts(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("Text number {i}.")).collect()
    }

    fn originals(seed: u64, texts: &[String], made: &str, most: u32) -> BTreeSet<String> {
        let pairs: Vec<(&str, &str)> = texts.iter().map(|text| (text.as_str(), made)).collect();
        draw(seed, &pairs, most).into_iter().map(|i| texts[i].clone()).collect()
    }

    #[test]
    fn the_same_originals_are_drawn_whatever_was_made_of_them_and_in_whatever_order_they_stand() {
        let texts = texts(200);
        let drawn = originals(1337, &texts, "x", 30);
        assert_eq!(drawn.len(), 30);
        assert_eq!(drawn, originals(1337, &texts, "something else", 30));
        let backwards: Vec<String> = texts.iter().rev().cloned().collect();
        assert_eq!(drawn, originals(1337, &backwards, "x", 30));
        assert_ne!(drawn, originals(1338, &texts, "x", 30));
        // A smaller sample is part of a larger one, so that increasing the number keeps every
        // rating.
        assert!(originals(1337, &texts, "x", 10).is_subset(&drawn));
    }

    #[test]
    fn every_text_is_drawn_about_as_often() {
        let texts = texts(20);
        let mut counts = vec![0_u32; texts.len()];
        for seed in 0..2_000 {
            let pairs: Vec<(&str, &str)> = texts.iter().map(|text| (text.as_str(), "x")).collect();
            for i in draw(seed, &pairs, 5) {
                counts[i] += 1;
            }
        }
        // A quarter of 2,000 each: 500 with a standard deviation of 19.4; all within four of them.
        assert!(counts.iter().all(|count| (422..=578).contains(count)), "{counts:?}");
    }

    #[test]
    fn zero_is_all_and_equal_pairs_are_rated_once() {
        let pairs = [("a", "x"), ("b", "y"), ("a", "x"), ("a", "z")];
        assert_eq!(draw(1, &pairs, 0), [0, 1, 3]);
        assert_eq!(draw(1, &pairs, 9), [0, 1, 3]);
        assert_eq!(draw(1, &[], 9), Vec::<usize>::new());
    }
}
