//! Reports in every form, their schemas, and comparisons of several reports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

#[cfg(feature = "export")]
mod export;
mod fixture;
mod forms;
mod gains;
mod history;
mod ratings;
mod schema_check;
