//! Angles of rotary position embeddings (Su et al. 2021), computed in `f32` step by step like the
//! reference library. At position 8,000 another rounding of a frequency gives another angle.

use std::borrow::Cow;

use super::Pairs;

/// The rotated elements, and their frequencies.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The pairing of a head's elements.
    pub pairs: Pairs,
    /// Angle between neighbouring positions, one per pair.
    pub frequencies: Vec<f32>,
    /// Factor on cosines and sines.
    pub factor: f32,
    /// Other frequencies for long texts.
    pub beyond: Option<LongTextFrequencies>,
}

/// Frequencies of texts that are longer than a limit.
#[derive(Debug, Clone)]
pub struct LongTextFrequencies {
    /// Maximum length, in tokens, of a text with the plain frequencies.
    pub limit: usize,
    /// Frequencies of longer texts.
    pub frequencies: Longer,
}

/// The frequencies of long texts; see [`LongTextFrequencies`].
#[derive(Debug, Clone)]
pub enum Longer {
    /// The same for all long texts (LongRoPE; Ding et al. 2024).
    Fixed(Vec<f32>),
    /// A base that grows with the text, `base · (factor · n / trained - factor + 1)^(d / (d - 2))`
    /// (dynamic NTK).
    Dynamic {
        /// Base of short texts.
        base: f64,
        /// Growth.
        factor: f64,
        /// Maximum text length in training.
        trained: f64,
    },
}

/// `base^(-2i / width)` for each pair.
pub fn frequencies(base: f64, width: usize) -> Vec<f32> {
    powers(base, width).map(|power| 1.0 / power).collect()
}

/// `base^(2i / width)` for each pair, in `f32`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
pub fn powers(base: f64, width: usize) -> impl Iterator<Item = f32> {
    (0..width.div_ceil(2)).map(move |i| {
        let exponent = (2 * i) as f32 / width as f32;
        f64::from(base as f32).powf(f64::from(exponent)) as f32
    })
}

/// Cosines and sines of the positions `0..length`, `length × pairs` each.
#[derive(Debug, Clone, Default)]
pub struct Angles {
    /// Number of positions.
    pub length: usize,
    /// Cosines.
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
}

impl Rotation {
    /// Rotation of the first `width` elements of each head with a single base.
    pub fn plain(base: f64, width: usize, pairs: Pairs) -> Self {
        Self {
            pairs,
            frequencies: frequencies(base, width),
            factor: 1.0,
            beyond: None,
        }
    }

    /// Whether a text of this length is rotated differently from short ones.
    pub fn is_beyond(&self, length: usize) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| length > beyond.limit)
    }

    /// Frequencies of a text of `length` tokens.
    #[allow(clippy::cast_precision_loss)]
    fn of_length(&self, length: usize) -> Cow<'_, [f32]> {
        match self.beyond.as_ref().filter(|beyond| length > beyond.limit) {
            None => Cow::Borrowed(&self.frequencies),
            Some(LongTextFrequencies {
                frequencies: Longer::Fixed(values),
                ..
            }) => Cow::Borrowed(values),
            Some(LongTextFrequencies {
                frequencies: Longer::Dynamic { base, factor, trained },
                ..
            }) => {
                let width = (2 * self.frequencies.len()) as f64;
                let growth = factor * length as f64 / trained - (factor - 1.0);
                let base = base * growth.powf(width / (width - 2.0));
                Cow::Owned(frequencies(base, 2 * self.frequencies.len()))
            }
        }
    }

    /// The angles for a text of `length` tokens.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    pub fn angles(&self, length: usize) -> Angles {
        let frequencies = self.of_length(length);
        let mut angles = Angles {
            length,
            ..Angles::default()
        };
        for position in 0..length {
            for frequency in frequencies.iter() {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                angles.cos.push(cos as f32 * self.factor);
                angles.sin.push(sin as f32 * self.factor);
            }
        }
        angles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beyond_the_limit_gets_its_own_frequencies() {
        let mut rotation = Rotation::plain(10_000.0, 4, Pairs::Halves);
        assert_eq!(rotation.frequencies, [1.0, 0.01]);
        rotation.beyond = Some(LongTextFrequencies {
            limit: 2,
            frequencies: Longer::Fixed(vec![0.5, 0.25]),
        });
        assert_eq!(rotation.angles(2).sin[2], 1f64.sin() as f32);
        assert_eq!(rotation.angles(3).sin[2], 0.5f64.sin() as f32);
        rotation.beyond = Some(LongTextFrequencies {
            limit: 2,
            frequencies: Longer::Dynamic {
                base: 10_000.0,
                factor: 2.0,
                trained: 2.0,
            },
        });
        // The value is 2 · 4 / 2 - 1 = 3, squared.
        assert_eq!(rotation.of_length(4)[1], 1.0 / 90_000f64.sqrt() as f32);
    }
}
