//! Encoder providers of every kind behind one interface.
//!
//! A provider is a server of another party that turns text into vectors. [`connect`] makes an
//! [`EncoderBackend`] of it, whatever its protocol. Requests that its protocol cannot express are
//! refused, never guessed.
//!
//! | kind | prompts by name | texts that are too long | fewer dimensions | token ids | counts | reranks | texts at once |
//! |---|---|---|---|---|---|---|---|
//! | Isomer | its own | its own | its own | its own | yes | yes | `limits` |
//! | text-embeddings-inference, gRPC | prompt names | error, head, tail | yes | | yes | yes | 1 a call, 32 calls at once |
//! | text-embeddings-inference, HTTP | prompt names | error, head, tail | yes | | yes | yes | what `/info` says |
//! | OpenAI-compatible | | error | yes | yes | | | 2048 |
//! | Cohere v2 | `input_type`, needed | error, head, tail | yes | | | yes | 96 |
//! | Voyage | `input_type` | error, tail | yes | | | yes | 1000 |
//! | Ollama | | error, tail | yes | | | | any |
//! | Jina | `task` | error, tail | yes | | | yes | any |
//! | Open Inference Protocol v2 | | the model's | | | | | what the model takes |
//! | Hugging Face Inference | prompt names | error, head, tail | | | | | 32 |
//!
//! `Provider.input_types` maps prompt names to the provider's words; a literal prompt is prepended
//! to each text. If a request does not say how to cut a text that is too long, its tail is cut; if
//! the protocol has no such option, the server's default applies. Vectors arrive as 32-bit floats;
//! they are scaled and converted to 16-bit floats or bits here. Vector spaces are named
//! `kind/model`, with `@revision` if the server reports one, and have a digest as embed-svc's do.

mod answered;
mod ask;
mod backend;
pub mod check;
mod connect;
mod estimate;
mod foreign;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod in_process;
mod isomer;
mod kinds;
mod limits;
mod names;
mod rest;
mod target;

pub use answered::answered;
pub use backend::EncoderBackend;
pub use connect::{Surroundings, connect};
pub use grpc::out_of_time;
pub use in_process::InProcessBackend;
pub use isomer::IsomerBackend;
pub use isomer_outbound::{AddressGuard, GuardConfig};
