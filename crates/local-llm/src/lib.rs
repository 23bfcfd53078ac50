//! Small instruct models from GGUF files, decoded in batches on the CPU.
//!
//! [`LocalModel::load`] reads architecture, tokenizer and chat template from the file.
//! [`LocalModel::generate`] queues a request for the model's own thread, which decodes several
//! sequences together. Requests join and leave the batch between two steps, and the keys and values
//! of a shared prompt prefix are computed once.
//!
//! At temperature 0 a text depends only on its request. It does not depend on concurrent requests,
//! on their order, or on the number of threads: every kernel computes a row from that row alone
//! (see `isomer-kernels`).
//!
//! | module | contents |
//! |---|---|
//! | `gguf`, `shape` | the file: metadata with clear errors, tensors, the numbers of an architecture |
//! | `vocabulary`, `pre_tokenizer`, `template` | text ↔ tokens, messages → prompt |
//! | `weights`, `decoder`, `attention`, `ops` | the forward pass over a ragged batch |
//! | `cache` | keys and values; which beginnings are kept |
//! | `sampling`, `output` | logits → token, tokens → text, stop strings |
//! | `batch`, `worker`, `model` | continuous batching, the thread, the handle |

mod attention;
mod batch;
mod cache;
mod decoder;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod gguf;
mod guess;
mod model;
mod ops;
mod output;
mod pre_tokenizer;
mod request;
mod sampling;
mod shape;
mod template;
mod vocabulary;
mod weights;
mod worker;

#[cfg(test)]
mod forward_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
#[path = "../tests/support/tiny.rs"]
mod tiny;
#[cfg(test)]
mod tiny_tests;

pub use error::LocalError;
pub use model::{LoadOptions, LocalModel};
pub use request::{ChatMessage, Finish, GenerateRequest, Generation};
pub use weights::Arithmetic;
