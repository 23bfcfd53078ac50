//! Vectors of one encoder, each distinct text once.

use std::collections::{HashMap, HashSet};

use super::RunError;
use crate::{encoding::Encoded, metric::VectorMatrix};

/// Vectors of one encoder, by the number of their text.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    cols: usize,
    rows: HashMap<u32, usize>,
    data: Vec<f32>,
}

impl Vectors {
    pub(super) fn contains(&self, text: u32) -> bool {
        self.rows.contains_key(&text)
    }

    /// The vector of a text.
    pub(super) fn row(&self, text: u32) -> Option<&[f32]> {
        let row = *self.rows.get(&text)?;
        self.data.get(row * self.cols..(row + 1) * self.cols)
    }

    /// Forgets all other texts.
    pub(super) fn keep(&mut self, wanted: &HashSet<u32>) {
        let mut kept = Self {
            cols: self.cols,
            ..Self::default()
        };
        for (text, row) in &self.rows {
            if wanted.contains(text) {
                kept.rows.insert(*text, kept.rows.len());
                kept.data
                    .extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
            }
        }
        *self = kept;
    }

    /// One row per text, in order.
    pub(super) fn matrix(&self, texts: &[u32], encoder: &str) -> Result<VectorMatrix, RunError> {
        let bad = |message: String| RunError::BadVectors {
            id: encoder.to_owned(),
            message,
        };
        let mut data = Vec::with_capacity(texts.len() * self.cols);
        for text in texts {
            let row = self
                .rows
                .get(text)
                .ok_or_else(|| bad("a text was left without a vector".to_owned()))?;
            data.extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
        }
        VectorMatrix::new(texts.len(), self.cols, data).map_err(|error| bad(error.to_string()))
    }

    /// Adds the vectors of `texts` (numbers that are not in it yet).
    pub(super) fn insert(&mut self, encoder: &str, texts: &[u32], encoded: Encoded) -> Result<(), RunError> {
        if texts.is_empty() {
            return Ok(());
        }
        if self.cols != 0 && self.cols != encoded.cols {
            return Err(RunError::BadVectors {
                id: encoder.to_owned(),
                message: format!(
                    "answered vectors of {} columns after vectors of {}",
                    encoded.cols, self.cols
                ),
            });
        }
        self.cols = encoded.cols;
        for &text in texts {
            let row = self.rows.len();
            self.rows.insert(text, row);
        }
        self.data.extend(encoded.data);
        Ok(())
    }
}
