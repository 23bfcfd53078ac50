//! All services composed in one process: used by `isomer serve`, and by the other commands when no
//! server is named.
//!
//! The services call each other over in-memory channels with the same layers as on a port. The
//! gateway calls the embed service by its Rust methods.

mod compose;
pub mod config;
#[cfg(feature = "fleet")]
mod fleet;
mod forget;
#[cfg(feature = "fleet")]
mod worker;

pub use compose::{App, Caller, compose};
pub use config::IsomerConfig;
#[cfg(feature = "fleet")]
pub use fleet::BulkEncoder;
pub use forget::{ErasureReport, forget};
pub use isomer_embed::{
    EmbedConfig,
    device::{CpuBackend, Precision},
    summary::Summary,
};
pub use isomer_gateway::migrate;
#[cfg(feature = "fleet")]
pub use worker::work;
