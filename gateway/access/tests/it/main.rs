//! Access control over its real layers and database: admission, budgets, attacks on it, secrets.
//! They need nextest: the log belongs to a whole process, and a test reads all of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

mod access;
mod attacks;
mod secrets;
