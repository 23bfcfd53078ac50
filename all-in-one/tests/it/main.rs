//! All services in one process: the promises of the protocol, the cost of calls, exports and
//! forgetting, and the generated reference pages. They need nextest: telemetry belongs to a whole
//! process, and some tests install their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod charges;
mod forget;
mod harness;
mod in_process;
mod models;
mod promises;
mod provider_checks;
mod reference;
mod responsive;
#[path = "../../../crates/service-kit/tests/it/spans/harness.rs"]
mod span_harness;
mod span_texts;
mod spans;
