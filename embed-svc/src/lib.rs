//! Text to vectors: sentence-transformers models behind `isomer.encoder.v1.EncoderService`.
//!
//! The way of a request, outside in:
//!
//! * [`service`]: the gRPC handler; checks the request, builds the answer.
//! * [`registry`]: which encoders there are; loads them on demand.
//! * [`tokenise`]: text to ids, on helper threads.
//! * [`engine`]: a bounded queue and the threads of each model; batches by tokens.
//! * [`model`]: a loaded encoder; pure computing on packed tokens, without padding.
//! * [`arch`] over [`backend`]: the transformer, written once for every device; [`vectors`]: fixed
//!   vectors instead.
//! * [`summary`]: a model as its files describe it, for people.
//! * [`pooling`], [`activation`], [`folder`], [`weights`], [`batch`], [`space`]: the pieces.
//!
//! A text's vector depends on the text alone: its bits are the same alone, in any batch, in any
//! order.

pub mod activation;
pub mod arch;
pub mod backend;
pub mod batch;
pub mod cache;
pub mod config;
pub mod device;
pub mod engine;
pub mod error;
pub mod folder;
mod head;
mod metric_names;
pub mod model;
pub mod pooling;
pub mod quantise;
pub mod registry;
pub mod service;
mod shared;
pub mod space;
mod steps;
pub mod summary;
pub mod tokenise;
pub mod vectors;
pub mod weights;

use std::future::Future;

use isomer_models::Resolver;
use isomer_service_kit::{Fault, server};
use tokio::net::TcpListener;

pub use config::{EmbedConfig, Instructions, ServeConfig};
pub use error::EmbedError;
pub use service::{EmbedService, services};
pub use shared::SharedVectors;

/// Serves until `shutdown` resolves, then finishes what is in flight.
///
/// # Errors
/// If the configuration, a model or the socket cannot be used.
pub async fn run(
    config: ServeConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let resolver = Resolver::new(config.models).map_err(EmbedError::from)?;
    let service = EmbedService::new(config.embed, resolver)?;
    service.warm_up().await?;
    server::serve(services(service), &config.server, listener, shutdown).await
}
