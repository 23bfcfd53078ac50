//! Datasets, metrics and statistics against reference numbers, and the gRPC faces over them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod augmented;
mod clsd;
mod comparisons;
mod datasets;
mod formats;
mod golden;
mod harness;
mod hub;
mod labelled;
mod languages;
mod list_tasks;
mod mteb;
mod prompts;
mod score_keys;
mod search;
mod services;
mod statistics;
mod sts_benchmark;
mod support;
mod tasks;
