//! What calls give.

use std::ops::Deref;

use isomer_proto::common::v1 as common;
use isomer_service_kit::Fault;
use tonic::Code;

use crate::{
    Matrix, Usage, VectorSpace,
    error::{Error, Failure, TextsFailed, reasons},
};

/// A text of a list that has no vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemError {
    /// Its place in the caller's list.
    pub index: usize,
    /// gRPC's code.
    pub code: Code,
    /// What is wrong.
    pub message: String,
}

/// Vectors of texts, in the order of the texts: a row a text. It derefs to its [`Matrix`]. What
/// came in one answer is a view of that answer's bytes; what came in several is one piece of memory
/// of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// The rows.
    pub matrix: Matrix,
    /// What they may be compared with.
    pub space: VectorSpace,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
    /// Whether each text was cut; empty where the encoder does not say.
    pub truncated: Vec<bool>,
    /// What the call used.
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
    /// What they may be compared with.
    pub space: VectorSpace,
    /// What the call used.
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

/// The error of texts without vectors, where there are any.
pub(crate) fn all_well(errors: &[ItemError], embeddings: Option<&Embeddings>) -> Result<(), Error> {
    let Some(first) = errors.first() else { return Ok(()) };
    let more = match errors.len() {
        1 => String::new(),
        count => format!(", and so have {} more texts", count - 1),
    };
    let mut fault = Fault::new(
        first.code,
        reasons::TEXTS_FAILED,
        format!("has no vector: {}{more}", first.message),
    )
    .field(format!("inputs[{}]", first.index));
    if embeddings.is_some() {
        fault = fault.hint("EncodeOptions::partial gives the others, and the errors beside them");
    }
    Err(Error::TextsFailed(Box::new(TextsFailed {
        failure: Failure::of(fault),
        errors: errors.to_vec(),
        embeddings: embeddings.cloned(),
    })))
}
