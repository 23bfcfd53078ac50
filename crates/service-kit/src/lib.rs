//! What every Isomer server needs, whatever it serves.
//!
//! * [`config`]: built-in default ← TOML file ← environment (`ISOMER_…`) ← flag, validated before a
//!   port is bound.
//! * [`error`]: one form of failure, [`Fault`], and its one mapping to [`tonic::Status`] with
//!   `google.rpc` details.
//! * [`services`]: the gRPC services and HTTP routes of a process, with health and reflection.
//! * [`server`], [`memory`]: serving them on a port, or to clients of the same process.
//! * [`client`]: the channel every generated client runs over.
//! * [`vectors`]: the identity of a vector space, and vectors in smaller types.
//! * [`page_token`]: the tokens of lists.
//! * [`home`]: the folder where a server keeps its own files.
//! * [`probe`]: whether a server lives and takes requests.
//! * [`Process`]: the `main` of a service that is a process of its own.
//! * [`Bucket`]: the arithmetic of every rate limiter.
//! * [`Authenticator`]: decides which requests are admitted.
//! * [`limits`], [`tls`], [`telemetry`], [`shutdown`]: what their names say.

mod auth;
mod bucket;
mod caller;
pub mod client;
pub mod config;
mod connect;
mod connections;
pub mod dispatch;
pub mod error;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod health;
pub mod holder;
pub mod home;
mod layers;
pub mod limits;
pub mod memory;
pub mod metric_names;
mod off_runtime;
pub mod page_token;
pub mod priority;
pub mod probe;
mod process;
mod refusals;
pub mod server;
pub mod services;
pub mod shutdown;
mod stream;
pub mod telemetry;
pub mod tls;
mod trace_context;
pub mod vectors;
mod versions;
mod web;
mod wire;

pub use auth::Authenticator;
pub use bucket::Bucket;
pub use caller::CALLER;
pub use client::GrpcChannel;
pub use error::{Fault, with_subject};
pub use layers::CallDeadline;
pub use limits::LimitsConfig;
pub use off_runtime::off_runtime;
pub use process::{Process, ProcessConfig};
pub use refusals::{Shape, body_fault, plain_refusal};
pub use services::Services;
pub use stream::until_error;
pub use versions::ClientVersion;
