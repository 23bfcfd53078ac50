//! The vectors that the functions of this crate accept: `ndarray` views, checked once on entry.
//! Internally, rows are slices.

use std::borrow::Cow;

use ndarray::ArrayView2;

use crate::LearnError;

/// The values of a matrix, row after row: borrowed from a view in standard layout (row-major,
/// contiguous), otherwise copied.
pub fn row_major(matrix: ArrayView2<'_, f32>) -> Cow<'_, [f32]> {
    if let Some(values) = matrix.to_slice() {
        return Cow::Borrowed(values);
    }
    let mut values = Vec::with_capacity(matrix.len());
    for row in matrix.rows() {
        match row.to_slice() {
            Some(row) => values.extend_from_slice(row),
            None => values.extend(row),
        }
    }
    Cow::Owned(values)
}

/// A matrix with at least one row and one column whose values are all finite.
pub(crate) struct FiniteMatrix<'a> {
    values: Cow<'a, [f32]>,
    cols: usize,
}

impl<'a> FiniteMatrix<'a> {
    /// Checks a matrix. `what` names it in errors, e.g. `train vectors`.
    ///
    /// # Errors
    /// If it has no values, or one is NaN or infinite.
    pub(crate) fn new(what: &'static str, matrix: ArrayView2<'a, f32>) -> Result<Self, LearnError> {
        let (rows, cols) = matrix.dim();
        if matrix.is_empty() {
            return Err(LearnError::Empty { what, rows, cols });
        }
        let values = row_major(matrix);
        if let Some(at) = first_not_finite(&values) {
            return Err(LearnError::NotFinite {
                what,
                row: at / cols,
                col: at % cols,
            });
        }
        Ok(Self { values, cols })
    }

    /// Its rows.
    pub(crate) fn vectors(&self) -> Vectors<'_> {
        Vectors::new(&self.values, self.cols)
    }
}

/// Position of the first NaN or infinity.
pub fn first_not_finite(values: &[f32]) -> Option<usize> {
    // Without a branch inside the loop, vector instructions check a whole chunk.
    const CHUNK: usize = 1024;
    let unsound = |chunk: &[f32]| chunk.iter().fold(false, |any, v| any | !v.is_finite());
    let chunk = values.chunks(CHUNK).position(unsound)?;
    let first = chunk * CHUNK;
    let within = values[first..].iter().position(|v| !v.is_finite())?;
    Some(first + within)
}

/// Rows of a [`FiniteMatrix`], or of a part of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vectors<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
}

impl<'a> Vectors<'a> {
    /// Rows of `cols` values each.
    pub(crate) fn new(data: &'a [f32], cols: usize) -> Self {
        let rows = data.len() / cols;
        Self { data, rows, cols }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Dimensions of a vector.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
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

    /// Checks that there are as many labels as vectors.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn rows_are_those_of_the_view_whatever_its_layout() {
        let whole = Array2::from_shape_fn((4, 6), |(row, col)| (row * 6 + col) as f32);
        let views = [
            whole.view(),
            whole.t(),
            whole.slice(s![1..3, ..]),
            whole.slice(s![.., 1..4]),
            whole.slice(s![..;-1, ..;2]),
        ];
        for view in views {
            let checked = FiniteMatrix::new("vectors", view).unwrap();
            let vectors = checked.vectors();
            assert_eq!((vectors.rows(), vectors.cols()), view.dim());
            for (row, expected) in view.rows().into_iter().enumerate() {
                assert_eq!(vectors.row(row), expected.to_vec());
            }
        }
        let borrowed = |view| matches!(FiniteMatrix::new("vectors", view).unwrap().values, Cow::Borrowed(_));
        assert!(borrowed(whole.view()) && borrowed(whole.slice(s![1..3, ..])) && !borrowed(whole.t()));
    }

    #[test]
    fn a_value_that_is_not_finite_is_found_at_its_place_in_the_view() {
        for (row, col) in [(0, 0), (5, 699), (7, 324)] {
            let mut values = Array2::<f32>::zeros((8, 700));
            values[[row, col]] = f32::INFINITY;
            let what = "vectors";
            let error = FiniteMatrix::new(what, values.view()).err();
            assert_eq!(error, Some(LearnError::NotFinite { what, row, col }));
            let (row, col) = (col, row);
            let error = FiniteMatrix::new(what, values.t()).err();
            assert_eq!(error, Some(LearnError::NotFinite { what, row, col }));
        }
        let none = Array2::<f32>::zeros((3, 0));
        assert!(matches!(
            FiniteMatrix::new("vectors", none.view()),
            Err(LearnError::Empty { rows: 3, cols: 0, .. })
        ));
    }
}
