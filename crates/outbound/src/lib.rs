//! What all calls to servers of others have in common.
//!
//! * [`guard`]: which addresses may be called.
//! * [`headers`]: which extra headers may be sent along.

pub mod guard;
pub mod headers;

pub use guard::{AddressGuard, GuardConfig};
