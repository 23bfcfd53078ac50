//! Decides which requests a caller may make of the gateway, and how much it may use.
//!
//! * [`Access`] admits a request from the network or refuses it with a
//!   [`Fault`](isomer_service_kit::Fault), and puts a [`Caller`] into its extensions, who is
//!   charged for what is used.
//! * [`Keys`] makes, changes and revokes API keys, with or without a running gateway.
//! * [`AccessServer`]: the same over gRPC.
//! * [`DeferredCharge`]: what work that goes on after its request costs who asked for it, across
//!   restarts.
//! * [`JwtConfig`]: tokens of an identity provider beside the keys.
//! * [`AuditEvent`], [`Verifier`]: what administrators did, in a chain that shows tampering.
//!
//! # What is exact and what is not
//!
//! Counts live in memory and are written twice a second, so a killed process loses at most the last
//! half second of them (and none when it drains). Budgets are shared by all gateways of one
//! database: each knows of the others' use about half a second late. What a request may use at most
//! is set aside in the database while the request is in flight ([`Caller::reserve`]), so a budget
//! is overdrawn by at most one request, however many come at once and at however many gateways.
//! Rates and concurrency are each gateway process's own. A revocation is seen at once where it was
//! made, and by other gateways of the database within half a second; while the database is away,
//! keys go on as they were last known.

mod access;
mod attempts;
mod audit;
mod calendar;
mod caller;
mod config;
mod counts;
mod credential;
mod faults;
#[doc(hidden)]
pub mod fuzz;
mod host;
mod jwks;
mod jwt;
mod key;
mod keys;
mod limits;
mod meter;
mod metric_names;
mod need;
mod reserve;
mod scope;
mod service;
mod store;
mod tabs;
mod verified;
mod wire;

pub use access::Access;
pub use audit::{AuditEvent, AuditHead, Verifier};
pub use calendar::{Period, micros_now, read_expiry, read_span, rfc3339};
pub use caller::Caller;
pub use config::{AccessConfig, Mode, Requirement};
pub use jwt::JwtConfig;
pub use keys::{KeyChange, Keys, NewKey};
pub use limits::{Budget, Limits, nano};
pub use reserve::Reservation;
pub use scope::{Scope, Scopes};
pub use service::AccessServer;
pub use store::{KeyRecord, Usage, Used};
pub use tabs::{DeferredCharge, Total};
pub use wire::{key as wire_key, limits_told as wire_limits, time as wire_time};
