//! What a server promises regardless of its services: over sockets and in memory, with the layers
//! used in production.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

mod addresses;
mod client_key;
mod client_versions;
mod faults;
mod health;
mod http_routes;
mod memory;
mod overload;
mod probe;
mod reflection;
mod shutdown;
mod support;
mod time_and_panics;
mod tls;
