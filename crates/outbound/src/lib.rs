//! What all calls to servers of others have in common.
//!
//! * [`client`]: the HTTP client.
//! * [`guard`]: which addresses may be called.
//! * [`secret`]: the secret that is sent, read when it is needed.
//! * [`headers`]: which extra headers may be sent along.
//! * [`rate_limiter`]: how fast and how much at once a server may be called.
//! * [`body`]: answers, read under a limit.
//! * [`said`]: what others say, without the secret that they were sent; `Retry-After`.

pub mod body;
pub mod client;
pub mod guard;
pub mod headers;
pub mod rate_limiter;
pub mod said;
pub mod secret;

pub use guard::{AddressGuard, GuardConfig};
