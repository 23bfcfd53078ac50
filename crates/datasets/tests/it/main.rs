//! Files of data sets: reading, and error messages.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod datasets;
mod formats;
mod key;
mod labelled;
mod list_datasets;
mod list_tasks;
mod published;
#[allow(dead_code, reason = "shared with the tests of statistics")]
#[path = "../../../stats/tests/it/support.rs"]
mod support;
