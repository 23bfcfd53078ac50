//! Rows of a caller's as a matrix.

use crate::{Error, Matrix};

impl Matrix {
    /// Packs rows of 32-bit floats, for [`Tasks`](crate::Tasks).
    ///
    /// # Errors
    /// Where rows differ in length.
    pub fn from_rows<R: AsRef<[f32]>>(rows: impl IntoIterator<Item = R>) -> Result<Self, Error> {
        let (mut count, mut cols, mut values) = (0, 0, Vec::new());
        for row in rows {
            let row = row.as_ref();
            if count == 0 {
                cols = row.len();
            } else if row.len() != cols {
                return Err(Error::invalid(
                    format!("rows[{count}]"),
                    format!("has {} elements, the first has {cols}", row.len()),
                    "give rows of one length",
                ));
            }
            values.extend(row.iter().map(|value| f32::from_bits(value.to_bits().to_le())));
            count += 1;
        }
        Ok(Self::of_floats(count, cols, values))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_are_packed_in_one_length() {
        let matrix = Matrix::from_rows([[1.0, 2.0], [3.0, 4.0]]).unwrap();
        assert_eq!((matrix.rows(), matrix.cols()), (2, 2));
        assert_eq!(*matrix.slice(1, 2).row(0), [3.0, 4.0]);
        let error = Matrix::from_rows([vec![1.0], vec![1.0, 2.0]]).unwrap_err();
        assert_eq!(error.field(), Some("rows[1]"));
        assert_eq!(Matrix::from_rows(Vec::<Vec<f32>>::new()).unwrap().rows(), 0);
    }
}
