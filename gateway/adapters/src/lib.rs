//! Encoder providers of every kind behind one interface.
//!
//! A provider is a server of somebody else's that turns text into vectors. [`connect`] makes an [`EncoderBackend`] of it, whatever it
//! speaks; what its protocol cannot say is refused, never guessed.

mod backend;

pub use backend::EncoderBackend;
