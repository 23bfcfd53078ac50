//! The parts that all calls to third-party servers share.
//!
//! * [`client`]: the HTTP client.
//! * [`guard`]: which addresses may be called.
//! * [`secret`]: the secret that is sent, read on use.
//! * [`headers`]: which extra headers may be sent along.
//! * [`rate_limiter`]: rates and concurrency of calls to a server.
//! * [`shared_limits`]: limits that hold over several processes together.
//! * [`body`]: answers, read under a limit.
//! * [`said`]: texts from other servers, without the secret that they were sent; `Retry-After`.

pub mod body;
pub mod client;
pub mod guard;
pub mod headers;
pub mod rate_limiter;
pub mod said;
pub mod secret;
pub mod shared_limits;

pub use guard::{AddressGuard, GuardConfig};
