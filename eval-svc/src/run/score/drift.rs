//! Drift, the distance by which texts moved: 1 − cosine between a text and its transformed text,
//! under an encoder.

use crate::run::{RunError, encode::vectors::StoredVectors, plan::table::Slot, transform::pairs::Pair};

/// Drift of a dataset's texts under one transformation, seed and encoder.
#[derive(Debug, Clone)]
pub(crate) struct DriftEntry {
    /// Position of the encoder.
    pub encoder: usize,
    /// Position of the dataset.
    pub table: usize,
    /// Position of the transformation.
    pub transformation: usize,
    /// Position of the seed.
    pub seed: usize,
    /// One value per pair, in the order of [`crate::run::transform::pairs::pairs_of`]; `None` if a
    /// vector has length 0.
    pub drift: Vec<Option<f32>>,
}

/// Drift of each pair under one prompt; every text must have a vector.
pub(crate) fn measure(pairs: &[Pair], slot: Slot, vectors: &StoredVectors<'_>) -> Result<Vec<Option<f32>>, RunError> {
    let one = |(original, made): &Pair| {
        let rows = vectors.row((slot, *original))?.zip(vectors.row((slot, *made))?);
        let distance = rows.and_then(|(a, b)| distance(&a, &b));
        // A text that came back unchanged has a drift of exactly 0, without rounding error.
        Ok(distance.map(|distance| if original == made { 0.0 } else { distance as f32 }))
    };
    pairs.iter().map(one).collect()
}

/// 1 − cosine, 0 to 2, summed in `f64`; `None` for a vector of length 0.
fn distance(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    (length > 0.0).then(|| (1.0 - dot(a, b) / length).clamp(0.0, 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_angles_are_one_apart_opposites_two_and_scale_does_not_matter() {
        assert_eq!(distance(&[1.0, 0.0], &[0.0, 3.0]), Some(1.0));
        assert_eq!(distance(&[1.0, 0.0], &[-2.0, 0.0]), Some(2.0));
        assert_eq!(distance(&[3.0, 4.0], &[6.0, 8.0]), Some(0.0));
        assert_eq!(distance(&[0.0, 0.0], &[1.0, 0.0]), None);
    }
}
