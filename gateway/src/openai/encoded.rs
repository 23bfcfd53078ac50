//! Vectors, before an API writes them.

use bytes::Bytes;
use isomer_proto::common::v1::{Dtype, ItemError, Matrix, Timing, Usage, VectorSpace};
use isomer_service_kit::Fault;
use serde_json::Value;
use tonic::Code;

/// Vectors and their usage.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) matrix: Matrix,
    pub(crate) space: VectorSpace,
    pub(crate) usage: Usage,
    pub(crate) errors: Vec<ItemError>,
    /// Rows per input; empty if every input has one row.
    pub(crate) row_counts: Vec<u32>,
    /// Durations, if the encoder reports them.
    pub(crate) timing: Option<Timing>,
    /// The answer's `augment` field.
    pub(super) augment: Option<Value>,
}

impl Encoded {
    /// The vectors, each as little-endian 32-bit floats.
    ///
    /// # Errors
    /// The error of the first text that failed, since an answer over HTTP cannot hold errors of
    /// single texts; or if the matrix is not of 32-bit floats.
    pub(crate) fn vectors(&self) -> Result<Vec<Bytes>, Fault> {
        if let Some(first) = self.errors.first() {
            let fault = Fault::new(Code::from_i32(first.code), "ITEM_FAILED", first.message.clone());
            return Err(fault.field(format!("inputs[{}]", first.index)));
        }
        let matrix = &self.matrix;
        let (rows, row) = (matrix.rows as usize, matrix.cols as usize * size_of::<f32>());
        if matrix.dtype != i32::from(Dtype::F32) || matrix.data.len() != rows * row {
            return Err(Fault::internal("the encoder's answer is not a matrix of 32-bit floats"));
        }
        Ok((0..rows)
            .map(|index| matrix.data.slice(index * row..(index + 1) * row))
            .collect())
    }
}
