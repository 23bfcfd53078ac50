//! Vectors as the functions here take them.

use crate::LearnError;

/// A row-major matrix of finite f32 values that someone else owns; at least one row and one column.
#[derive(Debug, Clone, Copy)]
pub struct Vectors<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
}

impl<'a> Vectors<'a> {
    /// Checks `rows × cols` values, row after row. `what` is named in errors, e.g. `train vectors`.
    ///
    /// # Errors
    /// A wrong number of values, nothing at all, a NaN or an infinity.
    pub fn new(what: &'static str, data: &'a [f32], rows: usize, cols: usize) -> Result<Self, LearnError> {
        let needed = rows.saturating_mul(cols);
        if data.len() != needed {
            return Err(LearnError::Shape {
                what,
                rows,
                cols,
                needed,
                found: data.len(),
            });
        }
        if needed == 0 {
            return Err(LearnError::Empty { what, rows, cols });
        }
        if let Some(at) = data.iter().position(|v| !v.is_finite()) {
            return Err(LearnError::NotFinite {
                what,
                row: at / cols,
                col: at % cols,
            });
        }
        Ok(Self { data, rows, cols })
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Dimensions of a vector.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row after row.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }

    /// One vector.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// The vectors at `positions`, in that order and as often as they stand there, copied.
    pub(crate) fn gather(&self, positions: &[usize]) -> Vec<f32> {
        let mut out = Vec::with_capacity(positions.len() * self.cols);
        for &position in positions {
            out.extend_from_slice(self.row(position));
        }
        out
    }

    /// Whether labels or other vectors match.
    pub(crate) fn check_labels(&self, what: &'static str, found: usize) -> Result<(), LearnError> {
        if found == self.rows {
            return Ok(());
        }
        Err(LearnError::Labels {
            what,
            expected: self.rows,
            found,
        })
    }

    pub(crate) fn check_width(&self, what: &'static str, expected: usize) -> Result<(), LearnError> {
        if self.cols == expected {
            return Ok(());
        }
        Err(LearnError::Width {
            what,
            expected,
            found: self.cols,
        })
    }
}
