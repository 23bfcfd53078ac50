//! What all calls to servers of others have in common.
//!
//! * [`guard`]: which addresses may be called.
//! * [`headers`]: which extra headers may be sent along.
//! * [`body`]: answers, read under a limit.
//! * [`said`]: what others say, without the secret that they were sent; `Retry-After`.

pub mod body;
pub mod guard;
pub mod headers;
pub mod said;

pub use guard::{AddressGuard, GuardConfig};
