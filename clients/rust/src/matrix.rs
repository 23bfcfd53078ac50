//! Vectors as they came.

use std::borrow::Cow;

use bytes::Bytes;
use isomer_proto::common::v1::{self as common, Dtype};
use isomer_service_kit::vectors::{floats, widened};

/// Rows of one type, as they came: row after row, little endian. It shares the memory of the answer
/// that it came in, unless an answer put it where 32-bit floats cannot begin: then it was moved
/// once. Clones share the memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    dtype: Dtype,
    data: Bytes,
}

fn row_bytes(cols: usize, dtype: Dtype) -> usize {
    match dtype {
        Dtype::F32 | Dtype::Unspecified => 4 * cols,
        Dtype::F16 => 2 * cols,
        Dtype::Int8 => cols,
        Dtype::Ubinary => cols.div_ceil(8),
    }
}

impl Matrix {
    /// Of a message that was compared with its request.
    pub(crate) fn of(message: common::Matrix) -> Self {
        let dtype = message.dtype();
        let data = if dtype == Dtype::F32 {
            aligned(message.data)
        } else {
            message.data
        };
        Self {
            rows: message.rows as usize,
            cols: message.cols as usize,
            dtype,
            data,
        }
    }

    pub(crate) fn empty(cols: usize, dtype: Dtype) -> Self {
        Self {
            rows: 0,
            cols,
            dtype,
            data: Bytes::new(),
        }
    }

    pub(crate) fn of_floats(rows: usize, cols: usize, values: Vec<f32>) -> Self {
        Self {
            rows,
            cols,
            dtype: Dtype::F32,
            data: owned(values),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// All rows, one after another, little endian.
    pub fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// The bytes of one row.
    ///
    /// # Panics
    /// If the row does not exist, as a slice does.
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        let width = row_bytes(self.cols, self.dtype);
        &self.data[row * width..(row + 1) * width]
    }

    /// All rows of 32-bit floats, one after another, without a copy; none for other types, and on
    /// big-endian machines.
    pub fn view(&self) -> Option<&[f32]> {
        if self.dtype != Dtype::F32 || cfg!(target_endian = "big") {
            return None;
        }
        bytemuck::try_cast_slice(&self.data).ok()
    }

    /// One row as floats. Rows of 32-bit floats are borrowed ([`Matrix::view`]); others are
    /// widened, and `Ubinary` has a 0 or a 1 for each dimension.
    ///
    /// # Panics
    /// If the row does not exist, as a slice does.
    pub fn row(&self, row: usize) -> Cow<'_, [f32]> {
        if let Some(all) = self.view() {
            return Cow::Borrowed(&all[row * self.cols..(row + 1) * self.cols]);
        }
        let bytes = self.row_bytes(row);
        Cow::Owned(match self.dtype {
            Dtype::F32 | Dtype::Unspecified => floats(bytes).collect(),
            Dtype::F16 => widened(bytes).collect(),
            Dtype::Int8 => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
            Dtype::Ubinary => {
                let bit = |column: usize| bytes[column / 8] >> (7 - column % 8) & 1;
                (0..self.cols).map(|column| f32::from(bit(column))).collect()
            }
        })
    }

    /// The rows from `start` to `end`, without a copy.
    ///
    /// # Panics
    /// Where there are no such rows, as a slice does.
    #[must_use]
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let width = row_bytes(self.cols, self.dtype);
        Self {
            rows: end - start,
            data: self.data.slice(start * width..end * width),
            ..self.clone()
        }
    }

    /// The matrix as the protos have it, without a copy.
    pub fn message(&self) -> common::Matrix {
        common::Matrix {
            rows: u32::try_from(self.rows).unwrap_or(u32::MAX),
            cols: u32::try_from(self.cols).unwrap_or(u32::MAX),
            dtype: self.dtype.into(),
            data: self.data.clone(),
        }
    }
}

/// Floats as the owner of bytes: they begin where floats may begin.
struct Floats(Vec<f32>);

impl AsRef<[u8]> for Floats {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn owned(values: Vec<f32>) -> Bytes {
    Bytes::from_owner(Floats(values))
}

/// The bytes where floats may begin.
fn aligned(bytes: Bytes) -> Bytes {
    if bytemuck::try_cast_slice::<u8, f32>(&bytes).is_ok() {
        return bytes;
    }
    let mut moved = vec![0_f32; bytes.len() / size_of::<f32>()];
    let whole = size_of::<f32>() * moved.len();
    bytemuck::cast_slice_mut::<f32, u8>(&mut moved).copy_from_slice(&bytes[..whole]);
    owned(moved)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(dtype: Dtype, rows: u32, cols: u32, data: Bytes) -> common::Matrix {
        common::Matrix {
            rows,
            cols,
            dtype: dtype.into(),
            data,
        }
    }

    #[test]
    fn floats_are_borrowed_wherever_the_answer_put_them() {
        let values = [1.0_f32, -0.5, f32::MIN_POSITIVE, 3.0e38];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for before in 0..8 {
            let mut padded = vec![0xff; before];
            padded.extend_from_slice(&bytes);
            let data = Bytes::from(padded).slice(before..);
            let matrix = Matrix::of(message(Dtype::F32, 2, 2, data));
            assert_eq!(matrix.view().unwrap(), values);
            assert!(matches!(matrix.row(1), Cow::Borrowed(row) if row == &values[2..]));
            assert_eq!(matrix.row_bytes(1), &bytes[8..]);
        }
    }

    #[test]
    fn what_can_be_borrowed_is_not_moved() {
        let bytes = owned(vec![1.0, 2.0]);
        let place = bytes.as_ptr();
        let matrix = Matrix::of(message(Dtype::F32, 1, 2, bytes));
        assert_eq!(matrix.bytes().as_ptr(), place);
        assert_eq!(matrix.slice(0, 1).message().data.as_ptr(), place);
    }

    #[test]
    fn other_types_are_widened() {
        let halves = Bytes::from_static(&[0x00, 0x3c, 0x00, 0xc0]);
        assert_eq!(*Matrix::of(message(Dtype::F16, 1, 2, halves)).row(0), [1.0, -2.0]);
        let bytes = Bytes::from_static(&[0xff, 0x7f]);
        assert_eq!(*Matrix::of(message(Dtype::Int8, 2, 1, bytes)).row(0), [-1.0]);
        let bits = Bytes::from_static(&[0b1000_0001, 0b1000_0000]);
        let row = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(*Matrix::of(message(Dtype::Ubinary, 1, 9, bits)).row(0), row);
    }
}
