//! Scores of tasks against those of mteb and scikit-learn.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod golden;
mod hybrid;
mod labelled;
mod list_tasks;
mod support;
mod tasks;
