//! The best sequence of tags of a chain.

/// Scores of going from tag to tag, and from the start of the text to a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitions {
    tags: usize,
    /// `[next][previous]`.
    scores: Vec<i32>,
    first: Vec<i32>,
}

/// The score of a forbidden transition. It is small enough that sums over a long text do not
/// overflow, because they are shifted back to 0 at each step.
pub const FORBIDDEN: i32 = i32::MIN / 4;

impl Transitions {
    /// `scores` has rows for the next tag and columns for the previous; `first` is for the first
    /// token. `None` if the sizes are inconsistent.
    pub fn new(tags: usize, scores: Vec<i32>, first: Vec<i32>) -> Option<Self> {
        (tags > 0 && tags <= 256 && scores.len() == tags * tags && first.len() == tags).then_some(Self {
            tags,
            scores,
            first,
        })
    }

    /// The score of a transition from one tag to the next.
    pub fn score(&self, previous: usize, next: usize) -> i32 {
        self.scores[next * self.tags + previous]
    }

    /// The score of the first tag.
    pub fn first(&self, tag: usize) -> i32 {
        self.first[tag]
    }
}

/// The tags with the highest sum; among equal sums, those that come first. `emit` adds the scores
/// of a position's tags to the given slice.
pub fn best(transitions: &Transitions, len: usize, mut emit: impl FnMut(usize, &mut [i32])) -> Vec<usize> {
    let tags = transitions.tags;
    if len == 0 {
        return Vec::new();
    }
    let mut sums = transitions.first.clone();
    emit(0, &mut sums);
    let mut next = vec![0; tags];
    let mut back = vec![0_u8; tags * len];
    for (at, back) in back.chunks_exact_mut(tags).enumerate().skip(1) {
        // Sums are kept near 0, so that a text may have any length.
        let top = sums.iter().copied().max().unwrap_or(0);
        for sum in &mut sums {
            *sum = (*sum - top).max(FORBIDDEN);
        }
        for ((row, next), back) in transitions.scores.chunks_exact(tags).zip(&mut next).zip(back) {
            let highest = row.iter().zip(&sums).map(|(a, b)| a + b).fold(i32::MIN, i32::max);
            let from = row.iter().zip(&sums).position(|(a, b)| a + b == highest).unwrap_or(0);
            (*next, *back) = (highest, from as u8);
        }
        emit(at, &mut next);
        std::mem::swap(&mut sums, &mut next);
    }
    let mut tag = sums
        .iter()
        .enumerate()
        .max_by_key(|(index, sum)| (**sum, std::cmp::Reverse(*index)))
        .map_or(0, |(index, _)| index);
    let mut path = vec![0; len];
    for (at, back) in back.chunks_exact(tags).enumerate().rev() {
        path[at] = tag;
        tag = back[tag].into();
    }
    path
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn sum(transitions: &Transitions, scores: &[Vec<i32>], path: &[usize]) -> i32 {
        let mut sum = 0;
        for (at, &tag) in path.iter().enumerate() {
            sum += scores[at][tag];
            sum += match at {
                0 => transitions.first(tag),
                _ => transitions.score(path[at - 1], tag),
            };
        }
        sum
    }

    proptest! {
        #[test]
        fn no_other_sequence_has_a_higher_sum(
            scores in prop::collection::vec(prop::collection::vec(-50..50, 3), 1..6),
            transitions in prop::collection::vec(-50..50, 9),
            first in prop::collection::vec(-50..50, 3),
        ) {
            let transitions = Transitions::new(3, transitions, first).unwrap();
            let found = best(&transitions, scores.len(), |at, out| {
                out.iter_mut().zip(&scores[at]).for_each(|(out, score)| *out += score);
            });
            let found = sum(&transitions, &scores, &found);
            for number in 0..3_usize.pow(scores.len() as u32) {
                let path: Vec<usize> = (0..scores.len()).map(|at| number / 3_usize.pow(at as u32) % 3).collect();
                prop_assert!(sum(&transitions, &scores, &path) <= found);
            }
        }
    }

    #[test]
    fn a_forbidden_transition_is_not_taken_however_long_the_text() {
        let transitions = Transitions::new(2, vec![0, 0, FORBIDDEN, 0], vec![0, 0]).unwrap();
        // The second tag scores more everywhere except at the start, and cannot follow the first.
        let path = best(&transitions, 100_000, |at, out| {
            out[1] += if at == 0 { -10_000_000 } else { 1000 };
        });
        assert!(path.windows(2).all(|pair| pair != [0, 1]));
        assert_eq!(path, vec![1; 100_000]);
    }

    #[test]
    fn nothing_has_no_tags() {
        let transitions = Transitions::new(1, vec![0], vec![0]).unwrap();
        assert!(best(&transitions, 0, |_, _| {}).is_empty());
        assert!(Transitions::new(2, vec![0], vec![0]).is_none());
    }
}
