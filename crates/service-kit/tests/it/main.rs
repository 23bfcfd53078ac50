//! Servers and clients over sockets and in memory, with the layers used in production. They need
//! nextest: telemetry belongs to a whole process, and some tests install their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

mod attacks;
mod kit;
mod otlp;
mod process;
mod spans;
mod support;
mod trace;
