//! Fuzz targets: one function for each reader of untrusted bytes.
//!
//! A target takes any bytes, passes them to the reader and asserts what must hold of the result.
//! The reader may refuse the bytes; it may not panic, hang or use memory out of proportion. The
//! same functions run in two ways: `tests/it/replay.rs` runs them on the committed corpus and on a
//! bounded number of mutations of it, in every test run; `tests/fuzz/run` runs them under
//! libFuzzer, which looks for inputs that reach new code.

pub mod input;
pub mod mutate;
pub mod targets;

pub use targets::{TARGETS, Target, target};
