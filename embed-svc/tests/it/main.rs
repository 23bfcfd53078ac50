//! Models, the queue in front of them, and the service over both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod backend;
mod bad_folders;
mod common;
mod decoders;
mod delivery;
mod engine;
mod families;
mod halves;
mod identity;
mod int8;
mod invariance;
mod keys;
mod parity;
mod pipeline;
mod precedence;
mod refusals;
mod rerank;
mod robust;
mod service;
mod shared_vectors;
mod sparse;
mod summary;
#[cfg(feature = "t5")]
mod t5;
mod tokens;
mod vector_cache;
