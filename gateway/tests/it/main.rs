//! The gateway over real sockets, in front of services in its process and of providers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mutual_tls;
mod runs;
mod servers;
