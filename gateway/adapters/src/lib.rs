//! Encoder providers of every kind behind one interface.
//!
//! A provider is a server of somebody else's that turns text into vectors. [`connect`] makes an [`EncoderBackend`] of it, whatever it
//! speaks; what its protocol cannot say is refused, never guessed.

mod ask;
mod backend;
pub mod check;
mod connect;
mod estimate;
mod foreign;
mod grpc;
mod guard;
mod headers;
mod isomer;
mod kinds;
mod limits;
mod names;
mod rest;
mod secret;
mod target;

pub use backend::EncoderBackend;
pub use connect::{Surroundings, connect};
pub use guard::{AddressGuard, GuardConfig};
pub use isomer::IsomerBackend;
