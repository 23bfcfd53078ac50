//! Routes a request from an encoder's id to a provider that offers the encoder.
//!
//! A [`Router`] is an `EncoderBackend` over many. Providers that offer one id are replicas, and
//! must be of one vector space (`space`, `route`). A request goes to the less busy of two replicas
//! (`choose`). If it fails, it is retried on another (`attempts`, within a `budget`). The router
//! avoids replicas whose circuit breaker is open (`breaker`) or that fail their health checks
//! (`health`). A request is not sent if its answer is cached or already in flight (`cache`).

pub(crate) mod attempts;
mod breaker;
mod budget;
mod cache;
mod choose;
mod config;
pub(crate) mod content;
mod encode;
mod epoch;
pub(crate) mod health;
mod memory;
pub(crate) mod metrics;
mod outgoing_request;
mod parts;
mod peer;
pub(crate) mod policy;
mod replica;
mod request_in_flight;
mod route;
mod router;
mod screening;
mod space;
mod suspects;
mod table;
#[cfg(test)]
mod tests;

pub use config::RoutingConfig;
pub(crate) use memory::{Memory, prepare};
pub(crate) use peer::{HEALTHY, Peer, PeerHealth};
pub use router::{ConfiguredEncoders, PricedVectors, Router};
