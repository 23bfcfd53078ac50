//! Rotary position embedding (Su et al. 2021, eq. 34): each pair of a head's elements is rotated by
//! an angle that grows with the position.

/// The pairing of a head's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// Element i with element i + half of the rotated width (GPT-NeoX, Hugging Face's layout of
    /// Llama).
    Halves,
    /// Element 2i with element 2i + 1 (GPT-J, the paper).
    Neighbours,
}

/// Rotates every head of a row: the first `2 · cos.len()` elements of each `head_dim`; the others
/// are unchanged. `cos` and `sin` contain one value per pair.
///
/// # Panics
/// If a head is narrower than the pairs, or `sin` is not as long as `cos`.
pub fn rotate(row: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32], pairs: Pairs) {
    let half = cos.len();
    assert_eq!(sin.len(), half, "sin is not as long as cos");
    assert!(2 * half <= head_dim, "more is rotated than a head holds");
    for head in row.chunks_exact_mut(head_dim.max(1)) {
        match pairs {
            Pairs::Halves => {
                let (first, second) = head[..2 * half].split_at_mut(half);
                for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
            Pairs::Neighbours => {
                for ((pair, cos), sin) in head[..2 * half].chunks_exact_mut(2).zip(cos).zip(sin) {
                    (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[1] * cos + pair[0] * sin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_turn_and_the_rest_of_the_head_stays() {
        let (cos, sin) = ([0.0, 1.0], [1.0, 0.0]);
        let mut row = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0];
        rotate(&mut row, 5, &cos, &sin, Pairs::Halves);
        assert_eq!(row, [-3.0, 2.0, 1.0, 4.0, 5.0, -30.0, 20.0, 10.0, 40.0, 50.0]);
        let mut row = [1.0, 2.0, 3.0, 4.0, 5.0];
        rotate(&mut row, 5, &cos, &sin, Pairs::Neighbours);
        assert_eq!(row, [-2.0, 1.0, 3.0, 4.0, 5.0]);
    }
}
