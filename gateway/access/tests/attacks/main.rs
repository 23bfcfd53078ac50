//! Attacks on authentication: forged and borrowed tokens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

mod identity_provider;
mod tokens;
