//! Similarities and distances of pairs of vectors.
//!
//! mteb works on f32 vectors throughout. A score can be reproduced to its last published digit only
//! if the same values tie as in mteb. Results are therefore rounded to f32 in the same places, and
//! cosine keeps scikit-learn's form 1 − ½‖x̂ − ŷ‖², which gives exactly 1 for equal texts. Sums are
//! accumulated in f64 before rounding.

/// The similarity for which an encoder's vectors are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Similarity {
    /// Cosine of the angle.
    #[default]
    Cosine,
    Dot,
    /// Negative Euclidean distance.
    Euclidean,
    /// Negative Manhattan distance.
    Manhattan,
}

isomer_names::names!(Similarity {
    Cosine = "cosine", Dot = "dot", Euclidean = "euclidean", Manhattan = "manhattan"
});

/// Number of parallel sums, so that an addition does not wait for the previous one.
const LANES: usize = 16;

/// Sum of a function of both elements in f64, rounded once. Element i goes to lane i mod 16, and
/// lanes are added pairwise, so the result depends only on the vectors.
#[inline(always)]
fn sum(x: &[f32], y: &[f32], term: impl Fn(f32, f32) -> f64) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole_x, rest_x) = x.as_chunks::<LANES>();
    let (whole_y, rest_y) = y.as_chunks::<LANES>();
    for (x, y) in whole_x.iter().zip(whole_y) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += term(*x, *y);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(rest_x).zip(rest_y) {
        *lane += term(*x, *y);
    }
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
        half /= 2;
    }
    let [total, ..] = lanes;
    total as f32
}

/// The highest of some similarities; NaN if one of them is NaN.
pub fn highest(values: impl Iterator<Item = f32>) -> f64 {
    let higher = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    values.map(f64::from).fold(f64::NEG_INFINITY, higher)
}

/// Euclidean norm.
pub fn norm(x: &[f32]) -> f32 {
    sum(x, x, |a, _| f64::from(a) * f64::from(a)).sqrt()
}

/// 1 − `paired_cosine_distances` of scikit-learn. A zero vector is not scaled, so its cosine with a
/// unit vector is 0.5, as in scikit-learn.
pub fn cosine(x: &[f32], y: &[f32]) -> f32 {
    let (nx, ny) = (divisor(norm(x)), divisor(norm(y)));
    1.0 - 0.5 * sum(x, y, |a, b| f64::from(squared(a / nx - b / ny)))
}

fn divisor(norm: f32) -> f32 {
    if norm == 0.0 { 1.0 } else { norm }
}

fn squared(v: f32) -> f32 {
    v * v
}

/// Cosine as the dot product of unit vectors (sentence-transformers `pairwise_cos_sim`, torch
/// `normalize` with its floor of 1e-12).
pub fn cosine_of_units(x: &[f32], y: &[f32]) -> f32 {
    let (nx, ny) = (norm(x).max(1e-12), norm(y).max(1e-12));
    sum(x, y, |a, b| f64::from((a / nx) * (b / ny)))
}

pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| f64::from(a) * f64::from(b))
}

pub fn manhattan(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| f64::from((a - b).abs()))
}

pub fn euclidean(x: &[f32], y: &[f32]) -> f32 {
    sum(x, y, |a, b| f64::from(squared(a - b))).sqrt()
}

impl Similarity {
    /// The encoder's own similarity of two vectors; a higher value means more similar.
    pub fn of(self, x: &[f32], y: &[f32]) -> f32 {
        match self {
            Self::Cosine => cosine_of_units(x, y),
            Self::Dot => dot(x, y),
            Self::Euclidean => -euclidean(x, y),
            Self::Manhattan => -manhattan(x, y),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_vectors_have_a_cosine_of_exactly_one() {
        let x = [0.1, -0.7, 0.33, 1e-3];
        assert_eq!(cosine(&x, &x), 1.0);
        assert_eq!(euclidean(&x, &x), 0.0);
    }

    #[test]
    fn scale_does_not_matter_to_cosine() {
        let (x, y) = ([1.0, 2.0, 3.0], [-2.0, 0.5, 1.0]);
        let scaled: Vec<f32> = x.iter().map(|v| v * 8.0).collect();
        assert_eq!(cosine(&x, &y), cosine(&scaled, &y));
        assert!((cosine(&x, &y) - cosine_of_units(&x, &y)).abs() < 1e-6);
    }

    /// Tests every length around whole lanes, against sequential sums.
    #[test]
    fn no_element_is_left_out_or_counted_twice() {
        for len in (0..70).chain([384]) {
            let x: Vec<f32> = (0..len).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
            let y: Vec<f32> = (0..len).map(|i| ((i * 53 + 29) % 97) as f32 / 40.0 - 1.2).collect();
            let of = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
                let both = x.iter().zip(&y);
                both.map(|(a, b)| term(f64::from(*a), f64::from(*b))).sum()
            };
            let near = |got: f32, want: f64| (f64::from(got) - want).abs() <= 1e-6 * (1.0 + want.abs());
            assert!(near(dot(&x, &y), of(&|a, b| a * b)), "{len}");
            assert!(near(manhattan(&x, &y), of(&|a, b| (a - b).abs())), "{len}");
            assert!(near(euclidean(&x, &y), of(&|a, b| (a - b) * (a - b)).sqrt()), "{len}");
            let lengths = of(&|a, _| a * a).sqrt() * of(&|_, b| b * b).sqrt();
            if len > 0 {
                assert!(near(cosine_of_units(&x, &y), of(&|a, b| a * b) / lengths), "{len}");
                assert!(near(cosine(&x, &y), of(&|a, b| a * b) / lengths), "{len}");
            }
        }
    }

    #[test]
    fn the_highest_is_not_a_number_if_one_is_not() {
        assert_eq!(highest([0.5, -1.0, 0.75].into_iter()), 0.75);
        for nan in 0..3 {
            let mut values = [0.5, -1.0, 0.75];
            values[nan] = f32::NAN;
            assert!(highest(values.into_iter()).is_nan());
        }
    }

    #[test]
    fn distances_are_what_they_say() {
        assert_eq!(manhattan(&[1.0, 2.0], &[4.0, -2.0]), 7.0);
        assert_eq!(euclidean(&[1.0, 2.0], &[4.0, -2.0]), 5.0);
        assert_eq!(dot(&[1.0, 2.0], &[4.0, -2.0]), 0.0);
        assert_eq!(Similarity::Euclidean.of(&[1.0, 2.0], &[4.0, -2.0]), -5.0);
    }
}
