//! The rows of a matrix in an answer.

use isomer_proto::common::v1::{Dtype, Matrix};
use isomer_service_kit::vectors;

use crate::{exit::Failure, npy::Element};

/// Columns and elements of the rows of a stored matrix.
pub(super) fn form(matrix: &Matrix) -> Result<(usize, Element), Failure> {
    let cols = matrix.cols as usize;
    match matrix.dtype() {
        Dtype::F32 => Ok((cols, Element::F32)),
        Dtype::F16 => Ok((cols, Element::F16)),
        Dtype::Int8 => Ok((cols, Element::I8)),
        Dtype::Ubinary => Ok((cols.div_ceil(8), Element::U8)),
        Dtype::Unspecified => Err(Failure::dependency("the encoder answered with an unknown element type")),
    }
}

pub(super) fn values(row: &[u8], element: Element) -> serde_json::Value {
    match element {
        Element::F32 => vectors::floats(row).collect(),
        Element::F16 => vectors::widened(row).collect(),
        Element::I8 => row.iter().map(|b| i8::from_le_bytes([*b])).collect(),
        Element::U8 => row.iter().copied().collect(),
    }
}
