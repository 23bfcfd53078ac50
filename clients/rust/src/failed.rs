//! Texts of a list that have no vector, as an error.

use isomer_service_kit::Fault;

use crate::{
    error::{Error, Failure, TextsFailed, reasons},
    results::{Embeddings, ItemError},
};

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
