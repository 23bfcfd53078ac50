//! Vectors of one encoder, each distinct text once under each prompt.

use std::collections::{HashMap, HashSet};

use ndarray::Array2;

use super::{
    RunError,
    prompting::{Key, Slot},
};
use crate::{encoding::Encoded, metric::vector_matrix};

/// Vectors of one encoder, by prompt and number of their text.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    cols: usize,
    rows: HashMap<Key, usize>,
    data: Vec<f32>,
    /// Whether the text of each row was truncated at the encoder's maximum length; `None` if the
    /// encoder does not report it.
    cut: Vec<Option<bool>>,
}

impl Vectors {
    pub(super) fn contains(&self, key: Key) -> bool {
        self.rows.contains_key(&key)
    }

    /// Whether a text was truncated; `None` if unknown.
    pub(super) fn cut(&self, key: Key) -> Option<bool> {
        *self.cut.get(*self.rows.get(&key)?)?
    }

    /// The vector of a text.
    pub(super) fn row(&self, key: Key) -> Option<&[f32]> {
        let row = *self.rows.get(&key)?;
        self.data.get(row * self.cols..(row + 1) * self.cols)
    }

    /// Removes the vectors of all other texts.
    pub(super) fn keep(&mut self, wanted: &HashSet<Key>) {
        let mut kept = Self {
            cols: self.cols,
            ..Self::default()
        };
        for (text, row) in &self.rows {
            if wanted.contains(text) {
                kept.rows.insert(*text, kept.rows.len());
                kept.cut.push(self.cut.get(*row).copied().flatten());
                kept.data
                    .extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
            }
        }
        *self = kept;
    }

    /// One row per text, in order.
    pub(super) fn matrix(&self, texts: &[Key], encoder: &str) -> Result<Array2<f32>, RunError> {
        let bad = |message: String| RunError::BadVectors {
            id: encoder.to_owned(),
            message,
        };
        let mut data = Vec::with_capacity(texts.len() * self.cols);
        for text in texts {
            let row = self
                .rows
                .get(text)
                .ok_or_else(|| bad("a text has no vector".to_owned()))?;
            data.extend_from_slice(&self.data[row * self.cols..(row + 1) * self.cols]);
        }
        vector_matrix(texts.len(), self.cols, data).map_err(|error| bad(error.to_string()))
    }

    /// Adds the vectors of `texts` (numbers that are not present yet) under one prompt.
    pub(super) fn insert(
        &mut self,
        encoder: &str,
        slot: Slot,
        texts: &[u32],
        encoded: Encoded,
    ) -> Result<(), RunError> {
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
            self.rows.insert((slot, text), row);
        }
        self.cut.extend(encoded.cut);
        self.data.extend(encoded.data);
        Ok(())
    }
}
