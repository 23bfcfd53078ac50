//! The client of encoder services that eval-svc, transform-svc and the gateway's adapters share.
//!
//! * [`client`]: the calls, retried by one rule and counted.
//! * [`batches`]: divides texts into requests.
//! * [`answer`]: validates answers.
//! * [`halving`]: finds the texts because of which a request is refused.
//! * [`join`]: joins the answers of a request sent in pieces.
//! * [`retry`]: decides when a call is retried.

pub mod answer;
pub mod batches;
pub mod client;
pub mod halving;
pub mod join;
pub mod retry;

pub use client::EncoderClient;
