//! The protocols, one per file. Their messages follow the public documents that each file names, as
//! of November 2026.

mod cohere;
mod embedding_list;
mod hugging_face;
mod jina;
pub(crate) mod kind;
mod ollama;
mod open_inference;
mod openai;
mod tei;
mod tei_grpc;
mod tei_http;
mod vllm;
mod voyage;

pub use kind::Kind;

/// The kinds of third parties' protocols. A new kind needs a file with its `KIND`, a value of
/// `ProviderKind`, and a line at the end: the corpora of the fuzz targets count those over HTTP.
pub(crate) const FOREIGN: &[&Kind] = &[
    &tei_grpc::KIND,
    &openai::KIND,
    &cohere::KIND,
    &voyage::KIND,
    &ollama::KIND,
    &jina::KIND,
    &tei_http::KIND,
    &open_inference::KIND,
    &hugging_face::KIND,
    &vllm::KIND,
];
