//! From an encoder's id to whoever answers for it.
//!
//! A [`Router`] is an `EncoderBackend` over many. Providers that offer one id are replicas of one
//! vector space, and are held to it (`space`, `route`): a request goes to the less busy of two
//! (`choose`), again to another one where that fails (`attempts`, within a `budget`), never to one
//! that rests (`breaker`) or fails its health checks (`health`), and not at all where its answer is
//! kept or on its way already (`cache`).

pub(crate) mod attempts;
mod breaker;
mod budget;
mod cache;
mod choose;
mod config;
pub(crate) mod health;
mod memory;
pub(crate) mod metrics;
mod outgoing;
mod parts;
mod peer;
mod replica;
mod route;
mod router;
mod screening;
mod space;
mod spending;
mod table;
#[cfg(test)]
mod tests;

pub use config::RoutingConfig;
pub(crate) use memory::Memory;
pub(crate) use peer::{Peer, PeerHealth};
pub use router::{Answer, Fixed, Router};
