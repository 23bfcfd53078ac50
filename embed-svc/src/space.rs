//! The identity of a vector space.

pub use isomer_service_kit::vectors::{digest, sealed};
