//! The registry over its real gRPC service, in memory.
#![allow(clippy::unwrap_used)]

mod changes;
mod file;
mod leases;
mod pages;
mod records;
mod support;
