//! The workers of a fleet: requests of runs go to a queue, and workers execute them with their own
//! services ([`executor`]).

pub mod bulk;
pub(crate) mod engine;
pub mod executor;
mod wire;
