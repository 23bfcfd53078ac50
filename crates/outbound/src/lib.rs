//! The parts that all calls to third-party servers share.
//!
//! * [`client`]: the HTTP client.
//! * [`guard`]: restricts the addresses of calls.
//! * [`secret`]: the secret to send, read on use.
//! * [`headers`]: restricts the extra headers.
//! * [`rate_limiter`]: rates and concurrency of calls to a server.
//! * [`shared_limits`]: limits that apply to several processes together.
//! * [`body`]: answers, read up to a limit.
//! * [`said`]: texts from other servers, without the secret that was sent to them; `Retry-After`.

pub mod body;
pub mod client;
pub mod guard;
pub mod headers;
pub mod rate_limiter;
pub mod said;
pub mod secret;
pub mod shared_limits;

pub use guard::{AddressGuard, GuardConfig};
