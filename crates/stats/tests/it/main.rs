//! Tests, intervals and decisions against the numbers of other programs and of papers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod gate_laws;
#[path = "../../examples/lab/mod.rs"]
mod lab;
mod reference;
mod statistics;
mod support;
