//! The common parts of all Isomer servers.
//!
//! * [`config`]: built-in default ← TOML file ← environment (`ISOMER_…`) ← flag, validated before a
//!   port is bound.
//! * [`Fault`]: one form of failure, and its one mapping to [`tonic::Status`] with `google.rpc`
//!   details.
//! * [`services`]: the gRPC services and HTTP routes of a process, with health and reflection.
//! * [`server`], [`memory`]: serve them on a port, or to clients of the same process.
//! * [`client`]: the channel every generated client runs over.
//! * [`vectors`]: the identity of a vector space, and vectors in smaller types.
//! * [`page_token`]: the tokens of paged lists.
//! * [`probe`]: checks whether a server is alive and accepts requests.
//! * [`Process`]: the `main` of a service that runs as its own process.
//! * [`Bucket`]: the arithmetic of every rate limiter.
//! * [`Authenticator`]: decides which requests are admitted.
//! * [`wrap()`]: what happens around each request of a route.
//! * [`limits`], [`tls`], [`telemetry`], [`shutdown`]: what their names say.
//!
//! Without the feature `server`, only the client's parts are built: the channel, errors, secrets,
//! vectors.

// Code that both sides share is not split any further by feature.
#![cfg_attr(not(feature = "server"), allow(dead_code))]

#[cfg(feature = "server")]
mod auth;
#[cfg(feature = "server")]
mod bucket;
#[cfg(feature = "server")]
mod budget;
#[cfg(feature = "server")]
mod caller;
mod choice;
pub mod client;
#[cfg(feature = "server")]
mod connect;
#[cfg(feature = "server")]
mod connections;
#[cfg(feature = "server")]
pub mod dispatch;
#[cfg(feature = "server")]
mod files;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "server")]
mod health;
#[cfg(feature = "server")]
pub mod holder;
#[cfg(feature = "server")]
mod layers;
pub mod limits;
#[cfg(feature = "server")]
mod long_work;
#[cfg(feature = "server")]
pub mod memory;
pub mod metric_names;
#[cfg(feature = "server")]
mod minimum_rate;
#[cfg(feature = "server")]
mod off_runtime;
mod outputs;
#[cfg(feature = "server")]
pub mod page_token;
#[cfg(feature = "server")]
mod paths;
#[cfg(feature = "server")]
pub mod priority;
#[cfg(feature = "server")]
pub mod probe;
#[cfg(feature = "server")]
mod process;
#[cfg(feature = "server")]
mod refusals;
#[cfg(feature = "server")]
mod request_id;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod services;
#[cfg(feature = "server")]
pub mod shutdown;
#[cfg(feature = "server")]
mod stream;
#[cfg(feature = "server")]
pub mod telemetry;
pub mod tenant;
pub mod tls;
mod trace_context;
pub mod vectors;
mod versions;
#[cfg(feature = "server")]
mod web;
mod wire;
#[cfg(feature = "server")]
mod wrap;

#[cfg(feature = "server")]
pub use auth::Authenticator;
#[cfg(feature = "server")]
pub use bucket::Bucket;
#[cfg(feature = "server")]
pub use budget::{WorkMemory, reserve_answer};
#[cfg(feature = "server")]
pub use caller::CALLER;
pub use choice::choice;
pub use client::GrpcChannel;
/// Configuration: the crate `isomer-config`.
pub use isomer_config as config;
/// Failures: the crate `isomer-fault`.
pub use isomer_fault::{Fault, code_name, with_subject};
#[cfg(feature = "server")]
pub use layers::{CallDeadline, UpstreamTime};
pub use limits::LimitsConfig;
#[cfg(feature = "server")]
pub use long_work::long_work;
#[cfg(feature = "server")]
pub use off_runtime::off_runtime;
pub use outputs::{max_active_dimensions, outputs, without_dense};
#[cfg(feature = "server")]
pub use process::{Process, ProcessConfig};
#[cfg(feature = "server")]
pub use refusals::{Shape, body_fault, plain_refusal};
#[cfg(feature = "server")]
pub use services::Services;
#[cfg(feature = "server")]
pub use stream::until_error;
pub use tenant::Tenant;
pub use versions::ClientVersion;
#[cfg(feature = "server")]
pub use wrap::{Next, Wrap, WrappedService, wrap};
