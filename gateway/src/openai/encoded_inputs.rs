//! Vectors before an API serialises them.

use bytes::Bytes;
use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Timing, Usage, VectorSpace},
    encoder::v1::SparseVector,
};
use isomer_service_kit::{Fault, reserve_answer};
use serde_json::Value;
use tonic::Code;

/// Approximate size of vectors as JSON text, given their size as 32-bit floats.
fn json_size(bytes: usize) -> usize {
    // A number of four bytes takes about twelve characters.
    bytes.saturating_mul(3)
}

/// Approximate bytes of an entry of a sparse vector, in memory and as JSON text.
const SPARSE_ENTRY: usize = 40;

/// Vectors and their usage.
#[derive(Debug)]
pub(crate) struct EncodedInputs {
    pub(crate) matrix: Option<Matrix>,
    pub(crate) sparse: Vec<SparseVector>,
    /// Vectors of tokens beside other results.
    pub(crate) token_matrix: Option<Matrix>,
    /// The space of `matrix`.
    pub(crate) space: Option<VectorSpace>,
    pub(crate) sparse_space: Option<VectorSpace>,
    pub(crate) token_space: Option<VectorSpace>,
    pub(crate) usage: Usage,
    pub(crate) errors: Vec<ItemError>,
    /// Rows per input; empty if every input has one row.
    pub(crate) row_counts: Vec<u32>,
    /// Durations, if the encoder reports them.
    pub(crate) timing: Option<Timing>,
    /// The answer's `augment` field.
    pub(super) augment: Option<Value>,
}

impl EncodedInputs {
    /// Reserves memory for the vectors and for their text in JSON, before the text is written.
    ///
    /// # Errors
    /// Those of [`reserve_answer`].
    pub(super) fn reserved(self) -> Result<Self, Fault> {
        reserve_answer(self.vector_bytes().saturating_add(self.json_size()))?;
        Ok(self)
    }

    /// Bytes of all dense vectors.
    pub(crate) fn vector_bytes(&self) -> usize {
        let matrices = [&self.matrix, &self.token_matrix].into_iter().flatten();
        matrices.map(|matrix| matrix.data.len()).sum()
    }

    /// Approximate size of all results as JSON text.
    pub(super) fn json_size(&self) -> usize {
        let entries: usize = self.sparse.iter().map(|vector| vector.indices.len()).sum();
        json_size(self.vector_bytes()).saturating_add(entries.saturating_mul(SPARSE_ENTRY))
    }

    /// The vectors, each as little-endian 32-bit floats.
    ///
    /// # Errors
    /// The error of the first text that failed, since an answer over HTTP cannot hold errors of
    /// single texts. Also if the matrix is not of 32-bit floats.
    pub(crate) fn vectors(&self) -> Result<Vec<Bytes>, Fault> {
        self.whole()?;
        let matrix = self.matrix.as_ref();
        rows(matrix.ok_or_else(|| Fault::internal("the encoder's answer has no vectors"))?)
    }

    /// The vectors of tokens beside other results, those of all texts in a row.
    ///
    /// # Errors
    /// If the matrix is not of 32-bit floats.
    pub(super) fn token_vectors(&self) -> Result<Option<Vec<Bytes>>, Fault> {
        self.token_matrix.as_ref().map(rows).transpose()
    }

    /// The vectors of each text; none if there are none.
    ///
    /// # Errors
    /// If `row_counts` does not count these vectors.
    pub(super) fn by_text<'a>(&self, vectors: Option<&'a [Bytes]>) -> Result<Vec<&'a [Bytes]>, Fault> {
        let Some(mut rest) = vectors else { return Ok(Vec::new()) };
        let mut texts = Vec::with_capacity(self.row_counts.len());
        for count in &self.row_counts {
            let (own, others) = rest
                .split_at_checked(*count as usize)
                .ok_or_else(|| Fault::internal("the encoder's answer lacks vectors of tokens"))?;
            texts.push(own);
            rest = others;
        }
        Ok(texts)
    }

    /// # Errors
    /// The error of the first text that failed.
    pub(crate) fn whole(&self) -> Result<(), Fault> {
        let Some(first) = self.errors.first() else {
            return Ok(());
        };
        let fault = Fault::new(Code::from_i32(first.code), "ITEM_FAILED", first.message.clone());
        Err(fault.field(format!("inputs[{}]", first.index)))
    }
}

fn rows(matrix: &Matrix) -> Result<Vec<Bytes>, Fault> {
    let (rows, row) = (matrix.rows as usize, matrix.cols as usize * size_of::<f32>());
    if matrix.dtype != i32::from(Dtype::F32) || matrix.data.len() != rows * row {
        return Err(Fault::internal("the encoder's answer is not a matrix of 32-bit floats"));
    }
    Ok((0..rows)
        .map(|index| matrix.data.slice(index * row..(index + 1) * row))
        .collect())
}
