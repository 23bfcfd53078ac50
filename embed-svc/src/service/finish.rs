//! From the model's vectors to the bytes of an answer.

use half::f16;
use isomer_proto::common::v1::{Dtype, Matrix};

use crate::{error::EmbedError, pooling::normalise};

/// How vectors are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Columns that the model gives.
    pub(super) width: usize,
    /// Columns kept, the first ones (Kusupati et al. 2022; sentence-transformers' `truncate_dim`).
    pub(super) dimensions: usize,
    /// Whether to scale to unit length, after the cut.
    pub(super) normalise: bool,
    /// Element type.
    pub(super) dtype: Dtype,
}

/// Cuts, scales, checks and packs. `id` is for the error.
pub(super) fn matrix(id: &str, vectors: &[f32], delivery: Delivery) -> Result<Matrix, EmbedError> {
    let Delivery {
        width,
        dimensions,
        normalise: unit,
        dtype,
    } = delivery;
    let rows = vectors.len() / width.max(1);
    let mut data = Vec::with_capacity(rows * dimensions * element_bytes(dtype));
    let mut row = Vec::with_capacity(dimensions);
    for (index, vector) in vectors.chunks_exact(width.max(1)).enumerate() {
        // Looked at before the cut: a damaged model is damaged whatever columns are asked for.
        if vector.iter().any(|value| !value.is_finite()) {
            return Err(EmbedError::NotFinite {
                id: id.to_owned(),
                index,
            });
        }
        row.clear();
        row.extend_from_slice(&vector[..dimensions]);
        if unit {
            normalise(&mut row);
        }
        if dtype == Dtype::F16 {
            for value in &row {
                let half = f16::from_f32(*value);
                if half.is_infinite() {
                    return Err(EmbedError::invalid(
                        "output_dtype",
                        format!("inputs[{index}] has the value {value}, beyond what F16 can hold"),
                        "ask for DTYPE_F32, or for unit length",
                    ));
                }
                data.extend_from_slice(&half.to_le_bytes());
            }
        } else {
            row.iter()
                .for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        }
    }
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Ok(Matrix {
        rows: number(rows),
        cols: number(dimensions),
        dtype: dtype.into(),
        data: data.into(),
    })
}

/// Bytes of an element as delivered.
pub(super) fn element_bytes(dtype: Dtype) -> usize {
    if dtype == Dtype::F16 { 2 } else { 4 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    const PLAIN: Delivery = Delivery {
        width: 3,
        dimensions: 3,
        normalise: false,
        dtype: Dtype::F32,
    };

    fn floats(matrix: &Matrix) -> Vec<f32> {
        matrix
            .data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn rows_are_packed_little_endian() {
        let matrix = matrix("m", &[1.0, 2.0, 3.0, -4.0, 5.0, 6.5], PLAIN).unwrap();
        assert_eq!((matrix.rows, matrix.cols), (2, 3));
        assert_eq!(floats(&matrix), [1.0, 2.0, 3.0, -4.0, 5.0, 6.5]);
    }

    #[test]
    fn columns_are_cut_before_scaling() {
        let delivery = Delivery {
            dimensions: 2,
            normalise: true,
            ..PLAIN
        };
        assert_eq!(floats(&matrix("m", &[3.0, 4.0, 100.0], delivery).unwrap()), [0.6, 0.8]);
    }

    #[test]
    fn halves_are_rounded_and_overflow_is_an_error() {
        let delivery = Delivery {
            dtype: Dtype::F16,
            ..PLAIN
        };
        let halves = matrix("m", &[0.1, -2.0, 65504.0], delivery).unwrap();
        let values: Vec<f32> = halves
            .data
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes(b.try_into().unwrap()).to_f32())
            .collect();
        assert_eq!(values, [f16::from_f32(0.1).to_f32(), -2.0, 65504.0]);
        let error = matrix("m", &[0.0, 1e6, 0.0], delivery).unwrap_err();
        assert!(error.to_string().contains("inputs[0]"), "{error}");
    }

    #[test]
    fn a_vector_that_is_not_finite_is_an_error_that_names_the_input() {
        for bad in [f32::NAN, f32::INFINITY] {
            let error = matrix(
                "m",
                &[0.0, 0.0, 0.0, 1.0, bad, 0.0],
                Delivery { dimensions: 1, ..PLAIN },
            )
            .unwrap_err();
            assert!(matches!(error, EmbedError::NotFinite { index: 1, .. }), "{error}");
        }
    }
}
