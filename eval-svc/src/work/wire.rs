//! Units as bytes. Both sides are of one version: a unit's address depends on it.

use isomer_proto::{
    common::v1::{Usage, VectorSpace},
    encoder::v1::EncodeRequest,
    transform::v1::{JudgeRequest, TextItem, TransformResult, TransformSpec},
};
use prost::Message;

use super::Producer;

/// The generator and prompt that must produce the answer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Expected {
    #[prost(string, tag = "1")]
    pub(super) generator: String,
    #[prost(string, tag = "2")]
    pub(super) key: String,
    #[prost(string, tag = "3")]
    pub(super) prompt: String,
}

impl From<&Producer> for Expected {
    fn from(producer: &Producer) -> Self {
        Self {
            generator: producer.generator.clone(),
            key: producer.key.clone(),
            prompt: producer.prompt.clone(),
        }
    }
}

/// Texts to transform.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TransformUnit {
    #[prost(message, required, tag = "1")]
    pub(super) expected: Expected,
    #[prost(message, required, tag = "2")]
    pub(super) spec: TransformSpec,
    #[prost(message, repeated, tag = "3")]
    pub(super) items: Vec<TextItem>,
}

/// The results of a `TransformUnit`, in the order of its items.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Transformed {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<TransformResult>,
    /// Usage of the whole unit, which includes the usage of each result.
    #[prost(message, required, tag = "2")]
    pub(super) usage: Usage,
}

/// Pairs to rate. The answer is a `JudgeResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct JudgeUnit {
    #[prost(message, required, tag = "1")]
    pub(super) expected: Expected,
    #[prost(message, required, tag = "2")]
    pub(super) request: JudgeRequest,
}

/// Texts to encode. The answer is an `EncodeResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EncodeUnit {
    /// The encoder's vector space as it was described when the run was planned.
    #[prost(message, required, tag = "1")]
    pub(super) space: VectorSpace,
    #[prost(message, required, tag = "2")]
    pub(super) request: EncodeRequest,
}
