//! Providers of every kind, as stub servers that assert the requests they receive and answer in the
//! shapes of the public documents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod errors;
mod in_process;
mod isomer;
mod kinds;
mod limits;
mod open_inference;
mod requests;
mod rest_kinds;
mod served_kinds;
mod sparse;
mod support;
mod tei_grpc;
mod tls;
mod usage;
