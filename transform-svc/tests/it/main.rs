//! Transformations through the service, the guards on labelled rewrites, and the data of languages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod answers;
mod growth;
mod guards;
mod language_data;
#[path = "../../../crates/datasets/tests/it/published.rs"]
mod published;
mod service;
mod support;
#[path = "../../../crates/local-llm/tests/support/tiny.rs"]
mod tiny;
