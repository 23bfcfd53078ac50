//! The protocols, one per file. Their messages follow the public documents that each file names, as
//! of November 2026.

mod cohere;
mod hugging_face;
mod jina;
pub(crate) mod kind;
mod listed;
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
/// `ProviderKind`, and a line here.
pub(crate) const FOREIGN: [&Kind; 10] = [
    &tei_grpc::KIND,
    &tei_http::KIND,
    &openai::KIND,
    &cohere::KIND,
    &voyage::KIND,
    &ollama::KIND,
    &jina::KIND,
    &open_inference::KIND,
    &hugging_face::KIND,
    &vllm::KIND,
];
