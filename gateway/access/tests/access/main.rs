//! Which requests are admitted, which are refused, and with what message.
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
