//! Guesses at the next tokens of an answer, copied from earlier tokens of its sequence.
//!
//! A rewrite repeats much of its source. So if the last tokens occurred before, their continuation
//! there is likely to follow again (prompt lookup decoding, Saxena 2023). A step runs the guesses
//! behind the last token and keeps those that the model draws itself (Leviathan et al. 2023), so
//! answers are the same with and without them. The row of a guess costs little as long as reading
//! the weights dominates a step's time.

/// Maximum number of tokens that are compared to find the place.
const COMPARED: usize = 4;
/// Maximum number of guesses of a sequence in one step.
const MOST: usize = 8;

/// The number of guesses that a sequence may make; it decreases after wrong ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guesses {
    most: usize,
}

impl Guesses {
    pub(crate) fn new() -> Self {
        Self { most: 2 }
    }

    /// Guesses at the continuation of `tokens`, at most `room` tokens.
    pub(crate) fn after(self, tokens: &[u32], room: usize) -> &[u32] {
        let most = self.most.min(room);
        if most == 0 {
            return &[];
        }
        let mut best = (0, tokens.len());
        for end in 1..tokens.len() {
            let pairs = tokens[..end].iter().rev().zip(tokens.iter().rev());
            let same = pairs.take(COMPARED).take_while(|(a, b)| a == b).count();
            // The latest of equally good places, because the text to rewrite is at the end of the
            // prompt.
            if same > 0 && same >= best.0 {
                best = (same, end);
            }
        }
        &tokens[best.1..tokens.len().min(best.1 + most)]
    }

    /// Records that `right` of `made` guesses were right.
    pub(crate) fn learn(&mut self, made: usize, right: usize) {
        if made > 0 {
            self.most = if right == made {
                (self.most * 2).min(MOST)
            } else {
                right.max(1)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_of_equal_endings_comes_first_then_the_latest() {
        let guesses = Guesses { most: 3 };
        // 7 8 occurs once before; 8 alone occurs later.
        assert_eq!(guesses.after(&[7, 8, 1, 2, 3, 9, 8, 4, 7, 8], 9), [1, 2, 3]);
        assert_eq!(guesses.after(&[8, 1, 8, 2, 8], 9), [2, 8]);
        assert_eq!(guesses.after(&[8, 1, 8, 2, 8], 1), [2]);
        assert!(guesses.after(&[1, 2, 3], 9).is_empty(), "nothing occurred before");
        assert!(guesses.after(&[8, 1, 8], 0).is_empty(), "no room");
        assert!(guesses.after(&[], 9).is_empty());
    }

    #[test]
    fn right_guesses_lead_to_more_and_wrong_ones_to_fewer() {
        let mut guesses = Guesses::new();
        for (made, right, most) in [
            (2, 2, 4),
            (4, 4, 8),
            (8, 8, 8),
            (8, 3, 3),
            (3, 0, 1),
            (0, 0, 1),
            (1, 1, 2),
        ] {
            guesses.learn(made, right);
            assert_eq!(guesses.most, most, "{right} of {made}");
        }
    }
}
