//! Detects whether a provider's vectors have changed.

use serde::{Deserialize, Serialize};

use super::numbers::{Vectors, cosine};

/// Minimum cosine of a text's vectors before and now. The same weights give more than 0.9999 on any
/// hardware, even in 16 bits. Weights that were trained a little further, or quantised to 8 bits,
/// give less than 0.999.
const SAME: f64 = 0.9995;
/// The same for two servers that report the same weights and settings and compute in 32-bit floats.
const SAME_IN_F32: f64 = 1.0 - 1e-5;

/// The vectors of a few fixed texts. It serialises to JSON, so that it can be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    vectors: Vec<Vec<f32>>,
}

impl Fingerprint {
    pub(super) fn of(vectors: &Vectors) -> Self {
        Self {
            vectors: vectors.0.clone(),
        }
    }

    /// A fingerprint from vectors of other texts, for comparison with later vectors of the same
    /// texts.
    pub fn of_rows(vectors: Vec<Vec<f32>>) -> Self {
        Self { vectors }
    }

    /// Checks that both are of the same vector space: same weights, prompt and pipeline.
    ///
    /// # Errors
    /// A description of the difference.
    pub fn agrees(&self, other: &Self) -> Result<(), String> {
        self.agrees_within(other, SAME)
    }

    /// The same for servers that report the same weights and settings and compute in 32-bit floats.
    ///
    /// # Errors
    /// A description of the difference.
    pub fn agrees_in_f32(&self, other: &Self) -> Result<(), String> {
        self.agrees_within(other, SAME_IN_F32)
    }

    fn agrees_within(&self, other: &Self, same: f64) -> Result<(), String> {
        let columns = |fingerprint: &Self| fingerprint.vectors.first().map_or(0, Vec::len);
        if self.vectors.len() != other.vectors.len() || columns(self) != columns(other) {
            return Err(format!("{} dimensions, not {}", columns(other), columns(self)));
        }
        let pairs = self.vectors.iter().zip(&other.vectors);
        let least = pairs.clone().map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
        if least < same {
            return Err(format!(
                "the vectors of fixed texts have cosines down to {least:.6} with what they were"
            ));
        }
        let ratio = pairs
            .map(|(a, b)| super::numbers::length(b) / super::numbers::length(a))
            .filter(|ratio| ratio.is_finite())
            .fold((1.0_f64, 1.0_f64), |(least, most), ratio| {
                (least.min(ratio), most.max(ratio))
            });
        // Vectors of another length are of another space even if their directions are the same.
        if ratio.0 < 0.95 || ratio.1 > 1.05 {
            return Err(format!(
                "the vectors of fixed texts are {:.3} to {:.3} times as long as they were",
                ratio.0, ratio.1
            ));
        }
        Ok(())
    }
}
