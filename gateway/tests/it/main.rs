//! The gateway over real sockets, in front of services in its process and of providers. They need
//! nextest: metrics belong to a whole process, and some tests read them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mutual_tls;
mod runs;
mod servers;
