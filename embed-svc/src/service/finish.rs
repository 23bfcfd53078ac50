//! Converts the model's vectors to the bytes of an answer.

use isomer_proto::{
    common::v1::{Dtype, Matrix},
    encoder::v1::SparseVector as ProtoSparse,
};
use isomer_service_kit::vectors::{self, Ranges, bits};

use crate::{batch::SparseVector, error::EmbedError, pooling::normalise};

/// The format of delivered vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Columns of the model's vectors.
    pub(super) width: usize,
    /// Number of leading columns that are kept (Kusupati et al. 2022; sentence-transformers'
    /// `truncate_dim`).
    pub(super) dimensions: usize,
    /// Whether to scale to unit length, after truncation.
    pub(super) normalise: bool,
    /// Element type.
    pub(super) dtype: Dtype,
}

impl Delivery {
    /// Vectors as the model gives them.
    pub(super) fn whole(width: usize) -> Self {
        Self {
            width,
            dimensions: width,
            normalise: false,
            dtype: Dtype::F32,
        }
    }

    pub(super) fn row_bytes(&self) -> usize {
        match self.dtype {
            Dtype::F16 => 2 * self.dimensions,
            Dtype::Int8 => self.dimensions,
            Dtype::Ubinary => self.dimensions.div_ceil(8),
            _ => 4 * self.dimensions,
        }
    }
}

/// Sparse vectors of an answer, each with at most `most` entries: the largest ones, and of equal
/// ones those with the smallest ids. `id` is for the error.
pub(super) fn sparse(id: &str, found: Vec<SparseVector>, most: usize) -> Result<Vec<ProtoSparse>, EmbedError> {
    let one = |(index, vector): (usize, SparseVector)| {
        if vector.weights.iter().any(|weight| !weight.is_finite()) {
            return Err(EmbedError::NotFinite {
                id: id.to_owned(),
                list: "inputs",
                index,
            });
        }
        let entries = vector.ids.into_iter().zip(vector.weights).collect();
        let (indices, values) = vectors::largest(entries, most).into_iter().unzip();
        Ok(ProtoSparse { indices, values })
    };
    found.into_iter().enumerate().map(one).collect()
}

/// The input of row `row`. `lengths` are the numbers of rows of the inputs, if an input can have
/// more than one.
fn owner(row: usize, lengths: Option<&[usize]>) -> usize {
    let Some(lengths) = lengths else { return row };
    let mut end = 0;
    lengths
        .iter()
        .position(|length| {
            end += length;
            row < end
        })
        .unwrap_or(row)
}

/// Truncates, scales and checks; returns rows of `dimensions` values. `id` is for the error,
/// `lengths` as for [`matrix`].
pub(super) fn rows(
    id: &str,
    vectors: &[f32],
    delivery: Delivery,
    lengths: Option<&[usize]>,
) -> Result<Vec<f32>, EmbedError> {
    let width = delivery.width.max(1);
    let mut out = Vec::with_capacity(vectors.len() / width * delivery.dimensions);
    for (index, vector) in vectors.chunks_exact(width).enumerate() {
        // Checked before truncation: a damaged model is reported whatever columns are requested.
        if vector.iter().any(|value| !value.is_finite()) {
            return Err(EmbedError::NotFinite {
                id: id.to_owned(),
                list: "inputs",
                index: owner(index, lengths),
            });
        }
        let first = out.len();
        out.extend_from_slice(&vector[..delivery.dimensions]);
        if delivery.normalise {
            normalise(&mut out[first..]);
        }
    }
    Ok(out)
}

/// Truncates, scales, checks and packs. `id` is for the error; `ranges` are for int8; `lengths` are
/// the numbers of rows of the inputs, if an input can have more than one.
pub(super) fn matrix(
    id: &str,
    vectors: &[f32],
    delivery: Delivery,
    ranges: Option<&Ranges>,
    lengths: Option<&[usize]>,
) -> Result<Matrix, EmbedError> {
    let cols = delivery.dimensions;
    let finished = rows(id, vectors, delivery, lengths)?;
    let count = finished.len() / cols.max(1);
    let mut data = Vec::with_capacity(count * delivery.row_bytes());
    for (index, row) in finished.chunks_exact(cols.max(1)).enumerate() {
        match (delivery.dtype, ranges) {
            (Dtype::F16, _) => halves(row, owner(index, lengths), &mut data)?,
            (Dtype::Ubinary, _) => bits(row, &mut data),
            (Dtype::Int8, Some(ranges)) => data.extend(ranges.quantised(row).map(i8::cast_unsigned)),
            (Dtype::Int8, None) => return Err(EmbedError::Internal("int8 without ranges".into())),
            _ => row
                .iter()
                .for_each(|value| data.extend_from_slice(&value.to_le_bytes())),
        }
    }
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Ok(Matrix {
        rows: number(count),
        cols: number(cols),
        dtype: delivery.dtype.into(),
        data: data.into(),
    })
}

fn halves(row: &[f32], input: usize, data: &mut Vec<u8>) -> Result<(), EmbedError> {
    vectors::halves(row, data).map_err(|value| {
        EmbedError::invalid(
            "output_dtype",
            format!("inputs[{input}] has the value {value}, beyond what F16 can hold"),
            "ask for DTYPE_F32, or for unit length",
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use half::f16;

    use super::*;

    const PLAIN: Delivery = Delivery {
        width: 3,
        dimensions: 3,
        normalise: false,
        dtype: Dtype::F32,
    };

    fn packed(vectors: &[f32], delivery: Delivery) -> Result<Matrix, EmbedError> {
        matrix("m", vectors, delivery, None, None)
    }

    fn floats(matrix: &Matrix) -> Vec<f32> {
        matrix
            .data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn rows_are_packed_little_endian() {
        let matrix = packed(&[1.0, 2.0, 3.0, -4.0, 5.0, 6.5], PLAIN).unwrap();
        assert_eq!((matrix.rows, matrix.cols), (2, 3));
        assert_eq!(floats(&matrix), [1.0, 2.0, 3.0, -4.0, 5.0, 6.5]);
    }

    #[test]
    fn the_largest_weights_are_kept_in_the_order_of_ids() {
        let vector = |weights: [f32; 5]| SparseVector {
            ids: vec![2, 3, 5, 8, 13],
            weights: weights.to_vec(),
        };
        let kept = sparse("m", vec![vector([1.0, 3.0, 2.0, 3.0, 2.0])], 3).unwrap();
        assert_eq!(
            (&kept[0].indices[..], &kept[0].values[..]),
            (&[3, 5, 8][..], &[3.0, 2.0, 3.0][..])
        );
        let all = sparse("m", vec![SparseVector::default(), vector([1.0; 5])], usize::MAX).unwrap();
        assert_eq!((all[0].indices.len(), all[1].indices.len()), (0, 5));
        let error = sparse("m", vec![vector([1.0; 5]), vector([1.0, f32::NAN, 1.0, 1.0, 1.0])], 9).unwrap_err();
        assert!(matches!(error, EmbedError::NotFinite { index: 1, .. }), "{error}");
    }

    #[test]
    fn columns_are_cut_before_scaling() {
        let delivery = Delivery {
            dimensions: 2,
            normalise: true,
            ..PLAIN
        };
        assert_eq!(floats(&packed(&[3.0, 4.0, 100.0], delivery).unwrap()), [0.6, 0.8]);
    }

    #[test]
    fn halves_are_rounded_and_overflow_is_an_error() {
        let delivery = Delivery {
            dtype: Dtype::F16,
            ..PLAIN
        };
        let halves = packed(&[0.1, -2.0, 65504.0], delivery).unwrap();
        let values: Vec<f32> = halves
            .data
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes(b.try_into().unwrap()).to_f32())
            .collect();
        assert_eq!(values, [f16::from_f32(0.1).to_f32(), -2.0, 65504.0]);
        let error = packed(&[0.0, 1e6, 0.0], delivery).unwrap_err();
        assert!(error.to_string().contains("inputs[0]"), "{error}");
    }

    #[test]
    fn a_vector_that_is_not_finite_is_an_error_that_names_the_input() {
        for bad in [f32::NAN, f32::INFINITY] {
            let error = packed(&[0.0, 0.0, 0.0, 1.0, bad, 0.0], Delivery { dimensions: 1, ..PLAIN }).unwrap_err();
            assert!(matches!(error, EmbedError::NotFinite { index: 1, .. }), "{error}");
        }
    }

    #[test]
    fn a_token_vector_that_is_not_finite_names_the_text_it_belongs_to() {
        let delivery = Delivery {
            width: 1,
            dimensions: 1,
            ..PLAIN
        };
        for (bad, text) in [(0, 0), (1, 0), (2, 2), (3, 2)] {
            let mut vectors = [1.0; 4];
            vectors[bad] = f32::NAN;
            let error = matrix("m", &vectors, delivery, None, Some(&[2, 0, 2])).unwrap_err();
            assert!(
                matches!(error, EmbedError::NotFinite { index, .. } if index == text),
                "{error}"
            );
        }
    }
}
