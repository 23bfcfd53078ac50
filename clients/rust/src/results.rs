//! Results of calls.

use std::ops::Deref;

use isomer_proto::{common::v1 as common, encoder::v1::EncodeResponse};
use tonic::Code;

use crate::{Usage, matrix::Matrix, space::VectorSpace};

/// A text of a list that has no vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemError {
    /// Its place in the caller's list.
    pub index: usize,
    /// gRPC's code.
    pub code: Code,
    /// Error message.
    pub message: String,
}

/// Vectors of texts, in the order of the texts: one row per text. It derefs to its [`Matrix`].
/// Vectors of one answer are a view of that answer's bytes; vectors of several answers are copied
/// into one buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// The rows.
    pub matrix: Matrix,
    /// Vector space; vectors of the same space can be compared.
    pub space: VectorSpace,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
    /// Whether each text was cut; empty where the encoder does not say.
    pub truncated: Vec<bool>,
    /// Usage of this call.
    pub usage: Usage,
    /// Texts whose row is zeros, with `partial`.
    pub errors: Vec<ItemError>,
}

impl Deref for Embeddings {
    type Target = Matrix;

    fn deref(&self) -> &Matrix {
        &self.matrix
    }
}

/// A vector for each token of each text: `texts[i]` has the rows of text `i`, special tokens and
/// prompt included.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenEmbeddings {
    /// The rows of each text.
    pub texts: Vec<Matrix>,
    /// Vector space; vectors of the same space can be compared.
    pub space: VectorSpace,
    /// Usage of this call.
    pub usage: Usage,
}

pub(crate) fn item_errors(errors: Vec<common::ItemError>, start: usize) -> Vec<ItemError> {
    let moved = errors.into_iter().map(|error| ItemError {
        index: (error.index as usize).saturating_add(start),
        code: Code::from_i32(error.code),
        message: error.message,
    });
    moved.collect()
}

/// The vectors of a checked answer; its first text has a given index in the caller's list.
pub(crate) fn embeddings(answer: EncodeResponse, start: usize, count: usize) -> Embeddings {
    Embeddings {
        matrix: Matrix::of(answer.embeddings.unwrap_or_default()),
        space: answer.vector_space.unwrap_or_default().into(),
        token_counts: answer.token_counts,
        // Of several answers some may not say.
        truncated: if answer.truncated.len() == count {
            answer.truncated
        } else {
            Vec::new()
        },
        usage: answer.usage.unwrap_or_default(),
        errors: item_errors(answer.errors, start),
    }
}
