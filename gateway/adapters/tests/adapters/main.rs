//! Providers of every kind, played by stub servers that assert what they were sent and answer in
//! the shapes of the public documents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod errors;
mod grpc_stub;
mod isomer;
mod limits;
mod open_inference;
mod requests;
mod rest_kinds;
mod served_kinds;
mod support;
mod tei_grpc;
mod tls;
