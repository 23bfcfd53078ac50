//! Pools the vectors of a text and its variants into one (GASE). The functions are pure. Sums are
//! computed in the given order in 64 bits and rounded to 32 bits once, so that the result does not
//! depend on the order of arrival.

/// How vectors are combined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pooling {
    /// Arithmetic mean over the original and the variants (recommended by the paper).
    Mean,
    /// Maximum of each dimension.
    Max,
    /// This weight for the original; the available variants share the rest equally.
    Weighted(f64),
}

/// How a row is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// How vectors are combined.
    pub pooling: Pooling,
    /// Whether each vector is scaled to unit length first.
    pub normalise_before: bool,
    /// Whether the pooled vector is scaled to unit length.
    pub normalise_after: bool,
}

impl Recipe {
    /// Pools the original with its variants, all of the same length. Without variants the result is
    /// the original, scaled according to the recipe. A vector of length zero has no direction, so
    /// scaling leaves it unchanged.
    pub fn pool(&self, original: &[f32], variants: &[&[f32]]) -> Vec<f32> {
        let count = variants.len() as f64;
        let weight_of = |index: usize| match self.pooling {
            Pooling::Mean | Pooling::Max => 1.0,
            Pooling::Weighted(_) if variants.is_empty() => 1.0,
            Pooling::Weighted(weight) if index == 0 => weight,
            Pooling::Weighted(weight) => (1.0 - weight) / count,
        };
        let mut pooled: Vec<f64> = Vec::new();
        for (index, vector) in std::iter::once(&original).chain(variants).enumerate() {
            let (scale, weight) = (self.scale_before(vector), weight_of(index));
            let values = vector.iter().map(|value| f64::from(*value) / scale * weight);
            if index == 0 {
                pooled.extend(values);
                continue;
            }
            for (sum, value) in pooled.iter_mut().zip(values) {
                *sum = match self.pooling {
                    Pooling::Max => sum.max(value),
                    Pooling::Mean | Pooling::Weighted(_) => *sum + value,
                };
            }
        }
        if self.pooling == Pooling::Mean {
            pooled.iter_mut().for_each(|sum| *sum /= count + 1.0);
        }
        if self.normalise_after {
            let length = length(pooled.iter().copied());
            pooled.iter_mut().for_each(|value| *value /= length);
        }
        pooled.into_iter().map(|value| value as f32).collect()
    }

    fn scale_before(&self, vector: &[f32]) -> f64 {
        if self.normalise_before {
            length(vector.iter().map(|value| f64::from(*value)))
        } else {
            1.0
        }
    }
}

/// Euclidean length; 1 for a vector of length zero, so that dividing by it changes nothing.
fn length(values: impl Iterator<Item = f64>) -> f64 {
    let length = values.map(|value| value * value).sum::<f64>().sqrt();
    if length > 0.0 { length } else { 1.0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAIN: Recipe = Recipe {
        pooling: Pooling::Mean,
        normalise_before: false,
        normalise_after: false,
    };

    #[derive(serde::Deserialize)]
    struct Fixture {
        groups: Vec<Group>,
    }

    #[derive(serde::Deserialize)]
    struct Group {
        vectors: Vec<Vec<f32>>,
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        pooling: String,
        weight: Option<f64>,
        normalise_before: bool,
        normalise_after: bool,
        pooled: Vec<f32>,
    }

    #[test]
    fn pooling_is_what_numpy_makes_of_it() {
        let fixture: Fixture = serde_json::from_str(include_str!("../../tests/fixtures/pooling.json")).unwrap();
        let mut cases = 0;
        for group in &fixture.groups {
            let rows: Vec<&[f32]> = group.vectors.iter().map(Vec::as_slice).collect();
            for case in &group.cases {
                let recipe = Recipe {
                    pooling: match (case.pooling.as_str(), case.weight) {
                        ("max", _) => Pooling::Max,
                        (_, Some(weight)) => Pooling::Weighted(weight),
                        _ => Pooling::Mean,
                    },
                    normalise_before: case.normalise_before,
                    normalise_after: case.normalise_after,
                };
                // Sums may differ in the last bit of 64; after rounding to 32 bits that is at most
                // one unit.
                for (ours, numpys) in recipe.pool(rows[0], &rows[1..]).iter().zip(&case.pooled) {
                    assert!(
                        (ours - numpys).abs() <= f32::EPSILON * numpys.abs(),
                        "{recipe:?}: {ours} {numpys}"
                    );
                }
                cases += 1;
            }
        }
        assert_eq!(cases, 80);
    }

    #[test]
    fn without_variants_every_pooling_gives_the_original() {
        let original = [0.5, -2.0, 0.0];
        for pooling in [Pooling::Mean, Pooling::Max, Pooling::Weighted(0.25)] {
            let recipe = Recipe { pooling, ..PLAIN };
            assert_eq!(recipe.pool(&original, &[]), original);
        }
    }

    #[test]
    fn the_weights_at_the_ends_are_the_original_alone_and_the_mean_of_the_variants() {
        let (original, one, two) = ([1.0, 0.0], [0.0, 2.0], [0.0, 4.0]);
        let weighted = |weight| Recipe {
            pooling: Pooling::Weighted(weight),
            ..PLAIN
        };
        assert_eq!(weighted(1.0).pool(&original, &[&one, &two]), original);
        assert_eq!(weighted(0.0).pool(&original, &[&one, &two]), [0.0, 3.0]);
        assert_eq!(weighted(0.75).pool(&original, &[&one, &two]), [0.75, 0.75]);
    }

    #[test]
    fn zero_vectors_stay_zero() {
        let recipe = Recipe {
            normalise_before: true,
            normalise_after: true,
            ..PLAIN
        };
        assert_eq!(recipe.pool(&[0.0, 0.0], &[&[0.0, 0.0]]), [0.0, 0.0]);
        assert_eq!(recipe.pool(&[0.0, 0.0], &[&[3.0, 4.0]]), [0.6, 0.8]);
    }
}
