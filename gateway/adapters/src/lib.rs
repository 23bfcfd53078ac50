//! Encoder providers of every kind behind one interface.
//!
//! A provider is a server of somebody else's that turns text into vectors. [`connect`] makes an
//! [`EncoderBackend`] of it, whatever it speaks; what its protocol cannot say is refused, never
//! guessed.
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
//! Prompt names are mapped to the provider's words by `Provider.input_types`; a literal prompt is
//! put in front of each text. Where a request does not say what becomes of a text that is too long,
//! its tail is cut; where the protocol cannot ask for that, the server does what it does by itself.
//! Vectors come as 32-bit floats; they are scaled, and made into 16-bit floats or bits, here.
//! Vector spaces are named `kind/model`, with `@revision` where the server tells one, and sealed as
//! embed-svc's are.

mod ask;
mod backend;
pub mod check;
mod connect;
mod estimate;
mod foreign;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod isomer;
mod kinds;
mod limits;
mod names;
mod rest;
mod target;

pub use backend::EncoderBackend;
pub use connect::{Surroundings, connect};
pub use grpc::out_of_time;
pub use isomer::IsomerBackend;
pub use isomer_outbound::{AddressGuard, GuardConfig};
