//! Texts through any encoder service: what eval-svc, transform-svc and the gateway's adapters have
//! in common.
//!
//! * [`client`]: the calls, repeated by one rule and counted.
//! * [`batches`]: how texts are put into requests.
//! * [`answer`]: one check of what comes back.
//! * [`join`]: answers put together where a request went in pieces.
//! * [`retry`]: when a call is repeated.

pub mod answer;
pub mod batches;
pub mod client;
pub mod join;
pub mod retry;

pub use client::EncoderClient;
