//! Who is let in, who is not, and what is said to them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

mod audit;
mod budgets;
mod keys;
mod modes;
mod reservations;
mod support;
mod tabs;
