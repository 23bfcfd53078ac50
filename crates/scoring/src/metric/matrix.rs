//! Vectors as matrices: one f32 row per text.
//!
//! Functions take [`ArrayView2`]s of any layout. Rows are read as slices: a view in standard layout
//! (row-major, contiguous) is borrowed, any other is copied once on entry.

use std::borrow::Cow;

use isomer_learn::{first_not_finite, row_major};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

/// Values that do not form a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// The number of values is not rows × columns.
    #[error("{rows} rows of {cols} columns need {needed} values, {found} given")]
    Shape {
        rows: usize,
        /// Columns given.
        cols: usize,
        /// Number of values needed (saturating).
        needed: usize,
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

/// Creates a matrix from `rows × cols` values, row by row, e.g. from those of a request.
///
/// # Errors
/// If the number of values is wrong, there are no columns, or a value is not finite.
pub fn vector_matrix(rows: usize, cols: usize, data: Vec<f32>) -> Result<Array2<f32>, MatrixError> {
    let (needed, found) = (rows.saturating_mul(cols), data.len());
    let shape = MatrixError::Shape {
        rows,
        cols,
        needed,
        found,
    };
    if found != needed {
        return Err(shape);
    }
    if cols == 0 {
        return Err(MatrixError::NoColumns);
    }
    if let Some(at) = first_not_finite(&data) {
        return Err(MatrixError::NotFinite {
            row: at / cols,
            col: at % cols,
        });
    }
    Array2::from_shape_vec((rows, cols), data).map_err(|_| shape)
}

/// The rows of a matrix with at least one column, as slices.
#[derive(Debug)]
pub struct Rows<'a> {
    values: Cow<'a, [f32]>,
    width: usize,
}

impl<'a> Rows<'a> {
    pub fn new(matrix: ArrayView2<'a, f32>) -> Self {
        Self {
            values: row_major(matrix),
            width: matrix.ncols(),
        }
    }

    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values, row after row.
    #[inline]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// One row. Panics beyond the last row, like slice indexing.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// The rows in order.
    #[inline]
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width)
    }

    /// The rows in order, for all threads.
    #[inline]
    pub fn par_iter(&self) -> rayon::slice::ChunksExact<'_, f32> {
        self.values.par_chunks_exact(self.width)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::s;

    use super::*;

    #[test]
    fn a_wrong_shape_or_a_nan_is_refused_with_its_place() {
        for (rows, cols) in [(2, 3), (usize::MAX, 3), (usize::MAX, usize::MAX)] {
            let needed = rows.saturating_mul(cols);
            let error = vector_matrix(rows, cols, vec![0.0; 5]).unwrap_err();
            assert_eq!(
                error,
                MatrixError::Shape {
                    rows,
                    cols,
                    needed,
                    found: 5
                }
            );
        }
        assert_eq!(vector_matrix(1, 0, vec![]), Err(MatrixError::NoColumns));
        let nan = vector_matrix(2, 2, vec![0.0, 1.0, 2.0, f32::NAN]);
        assert_eq!(nan, Err(MatrixError::NotFinite { row: 1, col: 1 }));
    }

    #[test]
    fn rows_are_those_of_the_view_whatever_its_layout() {
        let whole = vector_matrix(4, 6, (0..24_u8).map(f32::from).collect()).unwrap();
        let views = [
            whole.view(),
            whole.t(),
            whole.slice(s![1..3, ..]),
            whole.slice(s![.., 1..4]),
            whole.slice(s![..;-1, ..;2]),
        ];
        for view in views {
            let rows = Rows::new(view);
            assert_eq!((rows.iter().len(), rows.width()), view.dim());
            for (row, expected) in view.rows().into_iter().enumerate() {
                assert_eq!(rows.row(row), expected.to_vec());
            }
            assert!(rows.iter().eq((0..view.nrows()).map(|row| rows.row(row))));
        }
        let borrowed = |view| matches!(Rows::new(view).values, Cow::Borrowed(_));
        assert!(borrowed(whole.view()) && borrowed(whole.slice(s![1..3, ..])) && !borrowed(whole.t()));
    }
}
