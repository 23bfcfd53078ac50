//! What every Isomer server needs, whatever it serves.
//!
//! * [`config`]: built-in default ← TOML file ← environment (`ISOMER_…`) ← flag, validated before a port is bound.
//! * [`error`]: one shape of failure, [`Fault`], and its one mapping to [`tonic::Status`] with `google.rpc` details.
//! * [`services`]: the gRPC services and HTTP routes of a process, with health and reflection.
//! * [`client`]: the channel every generated client runs over, across a network or inside one process.

pub mod client;
pub mod error;
pub mod services;

pub use client::GrpcChannel;
pub use error::Fault;
pub use services::Services;
