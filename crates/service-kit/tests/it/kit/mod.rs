//! The promises of a server regardless of its services: over sockets and in memory, with the layers
//! used in production.

mod addresses;
mod client_key;
mod client_versions;
mod direct;
mod faults;
mod health;
mod http_routes;
mod memory;
mod overload;
mod probe;
mod reflection;
mod shutdown;
mod time_and_panics;
mod tls;
