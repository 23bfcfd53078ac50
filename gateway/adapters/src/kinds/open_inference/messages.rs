//! The fields of the protocol's messages that are used here.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct LiveRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LiveResponse {
    #[prost(bool, tag = "1")]
    pub(super) live: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelMetadata {
    #[prost(string, repeated, tag = "2")]
    pub(super) versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) platform: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<TensorMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    /// -1 stands for any size.
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InferRequest {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) inputs: Vec<InferInput>,
    #[prost(message, repeated, tag = "6")]
    pub(super) outputs: Vec<InferOutput>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InferInput {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) contents: Option<Contents>,
}

impl InferInput {
    /// Texts as a tensor of strings: `[n]`, or `[n, 1]` if the model's input has rank 2.
    pub(super) fn of_texts(name: &str, rank: usize, texts: &[String]) -> Self {
        let mut shape = vec![1; rank.max(1)];
        shape[0] = i64::try_from(texts.len()).unwrap_or(i64::MAX);
        Self {
            name: name.to_owned(),
            datatype: "BYTES".to_owned(),
            shape,
            contents: Some(Contents {
                bytes_contents: texts.iter().map(|text| text.clone().into_bytes()).collect(),
                ..Contents::default()
            }),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InferOutput {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Contents {
    #[prost(float, repeated, tag = "6")]
    pub(super) fp32_contents: Vec<f32>,
    #[prost(double, repeated, tag = "7")]
    pub(super) fp64_contents: Vec<f64>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(super) bytes_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InferResponse {
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<InferInput>,
    /// One per output, in the order of the outputs, if contents are raw.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(super) raw_output_contents: Vec<Vec<u8>>,
}
