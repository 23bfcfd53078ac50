//! The texts of a dataset through an encoder.

use std::collections::HashMap;

use isomer_proto::common::v1::{Usage, VectorSpace};
use isomer_service_kit::{Fault, GrpcChannel};

use super::text_of;
use crate::{
    config::EvalConfig,
    dataset::Dataset,
    encoding::{self, EncodingError},
    metric::{Similarity, VectorMatrix},
};

/// A dataset's vectors.
pub(super) struct Encoded {
    /// One row a text of the dataset.
    pub(super) vectors: VectorMatrix,
    /// How the encoder's vectors are meant to be compared.
    pub(super) similarity: Similarity,
    pub(super) vector_space: Option<VectorSpace>,
    pub(super) usage: Usage,
}

/// Encodes the texts of a dataset, equal ones once.
pub(super) async fn texts(
    config: &EvalConfig,
    channel: &GrpcChannel,
    encoder_id: &str,
    dataset: &Dataset,
) -> Result<Encoded, Fault> {
    let encoder = encoding::describe(channel, encoder_id)
        .await
        .map_err(|error| fault(error, |index| format!("text {index}")))?;
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut distinct: Vec<&str> = Vec::new();
    // Position in the dataset of the first text of each number, for messages.
    let mut firsts = Vec::new();
    let mut rows = Vec::with_capacity(dataset.texts().len());
    for (index, text) in dataset.texts().iter().enumerate() {
        let number = *numbers.entry(&text.text).or_insert_with(|| {
            distinct.push(&text.text);
            firsts.push(index);
            distinct.len() - 1
        });
        rows.push(number);
    }
    let mut done = 0;
    let encoded = encoding::encode(channel, config, &encoder, &distinct, |texts, _| {
        done += texts;
        tracing::info!(
            dataset = dataset.name(),
            encoder = encoder.id,
            done,
            total = distinct.len(),
            "encoding"
        );
    })
    .await
    .map_err(|error| fault(error, |index| text_of(dataset, firsts[index])))?;
    let cols = encoded.cols;
    let mut data = Vec::with_capacity(rows.len() * cols);
    for number in &rows {
        data.extend_from_slice(&encoded.data[number * cols..(number + 1) * cols]);
    }
    Ok(Encoded {
        vectors: VectorMatrix::new(rows.len(), cols, data).map_err(|error| unusable(&error.to_string()))?,
        similarity: encoding::similarity(&encoder),
        vector_space: encoded.space,
        usage: encoded.usage,
    })
}

fn unusable(problem: &str) -> Fault {
    Fault::precondition("BAD_VECTORS", format!("the encoder's answer cannot be used: {problem}"))
}

/// A fault of the encoder, said as such: its field is of its request, not of ours.
fn fault(error: EncodingError, text: impl FnOnce(usize) -> String) -> Fault {
    match error {
        EncodingError::Refused(fault) => Fault {
            message: format!("the encoder answered: {fault}"),
            field: Some("dataset.encoder_id".to_owned()),
            mend: None,
            ..*fault
        },
        EncodingError::Unusable(problem) => unusable(&problem),
        EncodingError::Text { index, message } => unusable(&format!("{} could not be encoded: {message}", text(index))),
    }
}
