//! The vectors that the functions of this crate accept.

use crate::LearnError;

/// A borrowed row-major matrix of finite f32 values, with at least one row and one column.
#[derive(Debug, Clone, Copy)]
pub struct Vectors<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
}

impl<'a> Vectors<'a> {
    /// Checks `rows × cols` values, row by row. `what` names them in errors, e.g. `train vectors`.
    ///
    /// # Errors
    /// If the number of values is wrong, there are none, or one is NaN or infinite.
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

    /// All values, row by row.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }

    /// One vector.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// A copy of the vectors at `positions`, in that order; positions may repeat.
    pub(crate) fn gather(&self, positions: &[usize]) -> Vec<f32> {
        let mut out = Vec::with_capacity(positions.len() * self.cols);
        for &position in positions {
            out.extend_from_slice(self.row(position));
        }
        out
    }

    /// Checks that labels match the vectors in number.
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
