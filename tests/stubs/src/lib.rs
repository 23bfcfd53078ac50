//! Stub servers that tests put in place of real ones, a module for each kind.
//!
//! A stub answers by a simple default rule and records what it is asked. What is special about a stub stands in the test, as a closure:
//!
//! ```
//! use isomer_stubs::encoder::{StubEncoder, answer, named, texts};
//!
//! // The vector of a text is its length, and its tokens are 4. More than two texts are refused.
//! let encoder = StubEncoder::of([named("short")]).on_encode(|request| async move {
//!     let request = request.into_inner();
//!     if request.inputs.len() > 2 {
//!         return Err(tonic::Status::invalid_argument("at most two texts"));
//!     }
//!     Ok(answer(texts(&request).map(|text| [text.len() as f32]), 4))
//! });
//! assert!(encoder.calls().is_empty());
//! ```
//!
//! The crate is a dev-dependency only. Its stubs panic where a test is set up wrongly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "only tests depend on it"
)]

pub mod encoder;
pub mod http;
pub mod hub;
pub mod openai;
pub mod rpc;
