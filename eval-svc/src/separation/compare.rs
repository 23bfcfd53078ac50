//! Compares a rewrite with its text and the text's changed copy.

pub use isomer_report::terms::Stratum;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::task::lexical_overlap;

/// Cosines that differ by no more than this are a tie. Vectors are 32-bit numbers, and their users
/// compute cosines in that precision: for unit vectors with some hundred columns the result is
/// accurate to about a millionth. Smaller differences are not reliable in use.
pub(crate) const RESOLUTION: f64 = 1e-6;

/// A text, its rewrite, and its changed copy, by their numbers in the corpus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Triple {
    /// x.
    pub(crate) text: u32,
    /// The text that x counts as; see [`super::TextCopies::counts_as`].
    pub(crate) counts_as: u32,
    /// x+.
    pub(crate) rewrite: u32,
    /// x−.
    pub(crate) change: u32,
    /// How x became x−.
    pub(crate) kind: Kind,
    /// The one of x and x− that shares more words with x+.
    pub(crate) stratum: Stratum,
}

/// The stratum of three texts.
pub(crate) fn stratum(text: &str, rewrite: &str, change: &str) -> Stratum {
    let (own, other) = (lexical_overlap(rewrite, text), lexical_overlap(rewrite, change));
    if (own - other).abs() < 1e-9 {
        Stratum::Alike
    } else if other > own {
        Stratum::More
    } else {
        Stratum::Fewer
    }
}

/// The cosines of a triple; `None` if a vector has length 0 or a value that is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cosines {
    /// cos(x+, x).
    pub(crate) own: Option<f64>,
    /// cos(x+, x−).
    pub(crate) other: Option<f64>,
    /// cos(x, x−).
    pub(crate) change: Option<f64>,
}

impl Cosines {
    /// The cosines of the vectors of x, x+ and x−.
    pub(crate) fn of(text: &[f32], rewrite: &[f32], change: &[f32]) -> Self {
        Self {
            own: cosine(rewrite, text),
            other: cosine(rewrite, change),
            change: cosine(text, change),
        }
    }
}

/// Computed in `f64`; `None` for vectors without a direction.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    let cosine = dot(a, b) / length;
    (length > 0.0 && cosine.is_finite()).then(|| cosine.clamp(-1.0, 1.0))
}

/// A triple under an encoder, with its source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// The texts.
    pub(crate) triple: Triple,
    /// Position of the data set.
    pub(crate) table: usize,
    /// Position of the transformation.
    pub(crate) transformation: usize,
    /// Position of the seed.
    pub(crate) seed: usize,
    /// The cosines under the encoder.
    pub(crate) cosines: Cosines,
    /// Whether the encoder truncated one of the three texts. The edit may be in the part that was
    /// cut off. The comparison would then test the encoder's maximum length rather than the
    /// meaning, so it is omitted.
    pub(crate) cut: bool,
    /// Parallel gap of the encoder on this data set and transformation; `None` if it is not
    /// distinguishable from 0.
    pub(crate) gap: Option<f64>,
}

impl Comparison {
    /// cos(x+, x) − cos(x+, x−).
    pub(crate) fn difference(&self) -> Option<f64> {
        Some(self.cosines.own? - self.cosines.other?)
    }

    /// Whether the rewrite is nearer to the text than to its changed copy, by more than rounding.
    pub(crate) fn separated(&self) -> bool {
        self.difference().is_some_and(|difference| difference > RESOLUTION)
    }

    /// Whether the two are equally near, within rounding.
    pub(crate) fn tied(&self) -> bool {
        self.difference()
            .is_some_and(|difference| difference.abs() <= RESOLUTION)
    }

    /// The difference in units of the parallel gap.
    pub(crate) fn margin(&self) -> Option<f64> {
        Some(self.difference()? / self.gap?)
    }

    /// Whether the rewrite is nearer to the text than the text's changed copy is: cos(x, x+) >
    /// cos(x, x−).
    pub(crate) fn nearer_than_change(&self) -> bool {
        let difference = self.cosines.own.zip(self.cosines.change);
        difference.is_some_and(|(own, change)| own - change > RESOLUTION)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn comparison(text: &[f32], rewrite: &[f32], change: &[f32]) -> Comparison {
        Comparison {
            triple: Triple {
                text: 0,
                counts_as: 0,
                rewrite: 1,
                change: 2,
                kind: Kind::Negation,
                stratum: Stratum::Alike,
            },
            table: 0,
            transformation: 0,
            seed: 0,
            cosines: Cosines::of(text, rewrite, change),
            cut: false,
            gap: Some(0.5),
        }
    }

    #[test]
    fn the_nearer_side_wins_and_scale_does_not_matter() {
        let one = comparison(&[1.0, 0.0], &[9.0, 1.0], &[0.0, 3.0]);
        assert!(one.separated() && !one.tied() && one.nearer_than_change());
        assert!((one.margin().unwrap() - 2.0 * one.difference().unwrap()).abs() < 1e-12);
        let other = comparison(&[0.0, 3.0], &[9.0, 1.0], &[1.0, 0.0]);
        assert!(!other.separated() && !other.tied());
    }

    #[test]
    fn equal_vectors_and_what_rounding_leaves_between_them_are_ties() {
        let point = [0.6, 0.8];
        let one = comparison(&point, &point, &point);
        assert!(one.tied() && !one.separated() && !one.nearer_than_change());
        // Almost the same vectors: the cosines differ by about 1e-8.
        let near = comparison(&[1.0, 0.0001], &[1.0, 0.0], &[1.0, 0.0002]);
        assert!(near.difference().unwrap() > 0.0 && near.tied() && !near.separated());
    }

    #[test]
    fn vectors_without_a_direction_are_undefined_and_never_separated() {
        for broken in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 0.0]] {
            for place in 0..3 {
                let mut all = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]];
                all[place] = broken;
                let one = comparison(&all[0], &all[1], &all[2]);
                assert!(
                    one.difference().is_none() && !one.separated() && !one.tied(),
                    "{broken:?} {place}"
                );
            }
        }
    }

    #[test]
    fn strata_say_who_shares_more_words_with_the_rewrite() {
        let (text, rewrite) = ("the dog is big", "a big dog");
        assert_eq!(stratum(text, rewrite, "the dog is small"), Stratum::Fewer);
        assert_eq!(stratum(text, rewrite, "the dog was big"), Stratum::Alike);
        assert_eq!(stratum(text, "a small pup", "the dog is small"), Stratum::More);
    }
}
