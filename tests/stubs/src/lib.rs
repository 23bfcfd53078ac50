//! Stub servers that replace real ones in tests, one module per kind, the messages that several
//! tests send ([`request`]), the errors that the protocol promises ([`promise`]), empty schemas of
//! a real PostgreSQL ([`postgres`]), and waits for other tasks ([`wait`]).
//!
//! A stub records its requests. Its responses come from a closure, so that the test itself shows
//! the special behaviour of its stub:
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
//! A service that only one test needs implements the generated trait in that test: omitted rpcs are
//! unimplemented.
//!
//! The crate is a dev-dependency only. Its stubs panic if a test is set up wrongly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    reason = "only tests depend on it"
)]

pub mod encoder;
pub mod grpc;
pub mod http;
pub mod hub;
pub mod openai;
pub mod postgres;
pub mod promise;
pub mod raw;
pub mod request;
pub mod rpc;
pub mod wait;

/// Prints that a test is skipped, and the missing resource. In CI (`CI` is set) nothing may be
/// missing, so the test fails.
pub fn skip(missing: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "missing, which is an error in CI: {missing}"
    );
    println!("skipped: {missing}");
}
