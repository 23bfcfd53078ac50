//! A row-major matrix of vectors.

use ndarray::ArrayView2;

/// Vectors of texts: one f32 row per text, every value finite.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorMatrix {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

/// Values that do not form a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// The number of values is not rows × columns.
    #[error("{rows} rows of {cols} columns need {needed} values, {found} given")]
    Shape {
        /// Rows given.
        rows: usize,
        /// Columns given.
        cols: usize,
        /// Values needed (saturated).
        needed: usize,
        /// Values found.
        found: usize,
    },
    /// A vector without elements.
    #[error("vectors have no columns")]
    NoColumns,
    /// A NaN or an infinity.
    #[error("vector {row} has a value that is not finite (column {col})")]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        col: usize,
    },
    /// Two matrices of different widths.
    #[error("vectors of {left} and of {right} columns cannot be compared")]
    Width {
        /// Columns of the first.
        left: usize,
        /// Columns of the second.
        right: usize,
    },
}

impl VectorMatrix {
    /// Creates a matrix from `rows × cols` values, row by row.
    ///
    /// # Errors
    /// If the number of values is wrong, there are no columns, or a value is not finite.
    pub fn new(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self, MatrixError> {
        let needed = rows.saturating_mul(cols);
        if data.len() != needed {
            return Err(MatrixError::Shape {
                rows,
                cols,
                needed,
                found: data.len(),
            });
        }
        if cols == 0 {
            return Err(MatrixError::NoColumns);
        }
        if let Some(at) = data.iter().position(|v| !v.is_finite()) {
            return Err(MatrixError::NotFinite {
                row: at / cols,
                col: at % cols,
            });
        }
        Ok(Self { rows, cols, data })
    }

    /// Creates a matrix from values known to be valid: rows copied from another matrix.
    pub(crate) fn of_checked(rows: usize, cols: usize, data: Vec<f32>) -> Self {
        Self { rows, cols, data }
    }

    /// A copy of these rows, in this order.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn select(&self, rows: impl IntoIterator<Item = usize>) -> Self {
        let (mut count, mut data) = (0, Vec::new());
        for row in rows {
            data.extend_from_slice(self.row(row));
            count += 1;
        }
        Self::of_checked(count, self.cols, data)
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
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// One vector. Panics past the last row, as indexing a slice does.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// The vectors in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.data.chunks_exact(self.cols)
    }

    /// The first `rows` vectors and the rest, without copying.
    pub fn split_at(&self, rows: usize) -> (VectorView<'_>, VectorView<'_>) {
        let (head, tail) = self.data.split_at(rows.min(self.rows) * self.cols);
        (
            VectorView {
                cols: self.cols,
                data: head,
            },
            VectorView {
                cols: self.cols,
                data: tail,
            },
        )
    }

    /// All of it, borrowed.
    pub fn view(&self) -> VectorView<'_> {
        VectorView {
            cols: self.cols,
            data: &self.data,
        }
    }
}

/// Borrowed consecutive rows of a [`VectorMatrix`].
#[derive(Debug, Clone, Copy)]
pub struct VectorView<'a> {
    cols: usize,
    data: &'a [f32],
}

impl<'a> VectorView<'a> {
    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.data.len() / self.cols
    }

    /// Dimensions of a vector.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All values, row after row.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }

    /// All of it, as `isomer-learn` takes matrices.
    pub(crate) fn array(&self) -> Result<ArrayView2<'a, f32>, MatrixError> {
        let (rows, cols, found) = (self.rows(), self.cols, self.data.len());
        ArrayView2::from_shape((rows, cols), self.data).map_err(|_| MatrixError::Shape {
            rows,
            cols,
            needed: rows.saturating_mul(cols),
            found,
        })
    }

    /// One vector. Panics past the last row, as indexing a slice does.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// The vectors in order.
    pub fn iter(&self) -> std::slice::ChunksExact<'a, f32> {
        self.data.chunks_exact(self.cols)
    }

    /// The first `rows` vectors and the rest.
    pub fn split_at(&self, rows: usize) -> (VectorView<'a>, VectorView<'a>) {
        let (head, tail) = self.data.split_at(rows.min(self.rows()) * self.cols);
        let view = |data| VectorView { cols: self.cols, data };
        (view(head), view(tail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_wrong_shape_or_a_nan_is_refused_with_its_place() {
        assert!(matches!(
            VectorMatrix::new(2, 3, vec![0.0; 5]),
            Err(MatrixError::Shape {
                needed: 6,
                found: 5,
                ..
            })
        ));
        assert_eq!(VectorMatrix::new(1, 0, vec![]), Err(MatrixError::NoColumns));
        let nan = VectorMatrix::new(2, 2, vec![0.0, 1.0, 2.0, f32::NAN]);
        assert_eq!(nan, Err(MatrixError::NotFinite { row: 1, col: 1 }));
    }

    #[test]
    fn splitting_keeps_rows_whole() {
        let m = VectorMatrix::new(3, 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let (head, tail) = m.split_at(1);
        assert_eq!(
            (head.rows(), tail.rows(), tail.data()),
            (1, 2, &[2.0, 3.0, 4.0, 5.0][..])
        );
        assert_eq!(m.row(2), [4.0, 5.0]);
    }
}
