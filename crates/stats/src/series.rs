//! Series of values as the rows of a matrix.

use ndarray::{Array2, ArrayView2};

use crate::StatsError;

/// A matrix whose rows are these series. `names` are the names of the first series and of any other
/// in errors, e.g. `["the first rater", "another rater"]`.
///
/// # Errors
/// If a series differs in length from the first.
pub fn matrix<S: AsRef<[f64]>>(series: &[S], names: [&'static str; 2]) -> Result<Array2<f64>, StatsError> {
    let length = series.first().map_or(0, |first| first.as_ref().len());
    let [left_name, right_name] = names;
    match series.iter().find(|series| series.as_ref().len() != length) {
        Some(other) => Err(StatsError::LengthMismatch {
            left_name,
            left: length,
            right_name,
            right: other.as_ref().len(),
        }),
        None => Ok(Array2::from_shape_fn((series.len(), length), |(row, at)| {
            series[row].as_ref()[at]
        })),
    }
}

/// Requires finite values; the error gives the index within the row.
pub(crate) fn finite_rows(argument: &'static str, rows: ArrayView2<'_, f64>) -> Result<(), StatsError> {
    match rows.indexed_iter().find(|(_, value)| !value.is_finite()) {
        Some(((_, index), _)) => Err(StatsError::NotFinite { argument, index }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ndarray::array;

    use super::*;

    #[test]
    fn a_series_is_a_row_and_another_length_is_refused() {
        let names = ["the first rater", "another rater"];
        let found = matrix(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], names).unwrap();
        assert_eq!(found, array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        assert_eq!(matrix::<[f64; 0]>(&[], names).unwrap().dim(), (0, 0));
        assert_eq!(
            matrix(&[vec![1.0, 2.0], vec![1.0]], names),
            Err(StatsError::LengthMismatch {
                left_name: "the first rater",
                left: 2,
                right_name: "another rater",
                right: 1,
            })
        );
    }

    #[test]
    fn a_value_that_is_not_finite_is_named_by_its_place_in_the_row() {
        let rows = array![[1.0, 2.0, 3.0], [4.0, f64::NAN, 6.0]];
        let argument = "scores";
        let error = StatsError::NotFinite { argument, index: 1 };
        assert_eq!(finite_rows(argument, rows.view()), Err(error));
        let error = StatsError::NotFinite { argument, index: 1 };
        assert_eq!(finite_rows(argument, rows.t().slice(ndarray::s![1..2, ..])), Err(error));
    }
}
