//! Decides which requests a caller may make to the gateway, and how much it may use.
//!
//! * [`Access`] admits a request from the network or refuses it with a
//!   [`Fault`](isomer_service_kit::Fault), and puts the [`Caller`], which is charged for its use,
//!   into the request's extensions.
//! * [`Keys`] creates, changes and revokes API keys, with or without a running gateway.
//! * [`AccessServer`]: key management over gRPC.
//! * [`DeferredCharge`]: charges a caller for work that continues after its request, across
//!   restarts.
//! * [`JwtConfig`]: tokens of an identity provider, in addition to keys.
//! * [`AuditEvent`], [`Verifier`], [`HeadFile`]: acts of administrators, in a chain that shows
//!   tampering and loss.
//!
//! # Exactness
//!
//! Counts are kept in memory and written twice a second. So a killed process loses at most the last
//! half second of them (and none when it drains). Budgets are shared by all gateways of one
//! database: each learns of the others' usage about half a second late. The maximum usage of a
//! request is reserved in the database while the request is in flight ([`Caller::reserve`]). So a
//! budget is overdrawn by at most one request, however many requests and gateways there are. Rates
//! and concurrency are bounded per gateway process. A revocation takes effect at once at the
//! gateway that made it, and within half a second at other gateways of the database. While the
//! database is unavailable, keys keep their last known state.

mod access;
mod attempts;
mod audit;
mod calendar;
mod caller;
mod config;
mod counts;
mod credential;
mod deferred_charge;
mod faults;
#[doc(hidden)]
pub mod fuzz;
mod head_file;
mod host;
mod jwks;
mod jwt;
mod key;
mod keys;
mod limits;
mod meter;
mod metric_names;
mod path_requirement;
mod reserve;
mod scope;
mod service;
mod signature;
mod store;
mod token_cache;
mod wire;

pub use access::Access;
pub use audit::{AuditEvent, AuditHead, Verifier};
pub use calendar::{micros_now, read_expiry, read_span, rfc3339};
pub use caller::Caller;
pub use config::{AccessConfig, Mode, Requirement};
pub use deferred_charge::{DeferredCharge, Total};
pub use head_file::HeadFile;
pub use isomer_proto::gateway::v1::{AccessScope, BudgetPeriod};
pub use jwt::JwtConfig;
pub use keys::{KeyChange, Keys, NewKey};
pub use limits::{Budget, Limits, nano};
pub use meter::{Allowance, RemainingLimits};
pub use reserve::Reservation;
pub use scope::Scopes;
pub use service::AccessServer;
pub use store::{KeyRecord, Usage, UsageTotals};
pub use wire::{key as wire_key, key_limits as wire_limits, time as wire_time};
