//! A crude stem, for finding a word of one text in another form in the other text.

/// Letters that a stem keeps at most.
const LETTERS: usize = 5;
/// Shorter words match only if they are equal.
const LEAST: usize = 4;

/// Whether two lower-case words are forms of one word, judged by their beginnings: `refund` and
/// `refunding`.
pub(super) fn same(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (long, short) = (
        a.chars().count().max(b.chars().count()),
        a.chars().count().min(b.chars().count()),
    );
    let shared = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    short >= LEAST && shared >= short.min(LETTERS) - usize::from(short >= LETTERS && long > short) && long - shared <= 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_the_same_and_other_words_are_not() {
        for (a, b) in [
            ("refund", "refunding"),
            ("park", "parking"),
            ("approve", "approved"),
            ("eats", "eats"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [("late", "lake"), ("open", "over"), ("to", "too"), ("eat", "eats")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }
}
