//! Every service composed in one process: what `isomer serve` runs, and the other commands when no
//! server is named.
//!
//! The services call each other over in-memory channels with the same layers as on a port, so there
//! is one code path.

mod compose;
pub mod config;
#[cfg(feature = "fleet")]
mod fleet;
mod forget;

pub use compose::{App, Caller, compose};
pub use config::IsomerConfig;
#[cfg(feature = "fleet")]
pub use fleet::{BulkEncoder, work};
pub use forget::{Forgotten, forget};
pub use isomer_embed::summary::Summary;
pub use isomer_gateway::migrate;
