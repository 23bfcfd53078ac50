//! Text to text: the transformations of the papers behind `isomer.transform.v1`.
//!
//! A request passes through these modules, from the outside in:
//!
//! * [`service`]: the gRPC handler; reads the request, builds and counts the response.
//! * [`engine`]: plans the request, groups equal texts, attempts each text until its checks pass.
//! * [`cache`]: every generation on disk, addressed by content; a text is never paid for twice.
//! * [`generator`]: an OpenAI-compatible server or a GGUF model in this process.
//! * [`augment`]: variants, encoded with their text and pooled (GASE). [`judge`]: ratings of pairs
//!   by a language model.
//! * [`forget`]: removes a text, and the texts derived from it, from the caches.
//! * [`prompt`], [`rules`]: the implementations of the transformations in `isomer-transformations`.
//! * [`checks`], [`clean`], [`list`], [`distractors`], [`measures`], [`language`],
//!   [`words`], [`seed`]: pure functions.
//!
//! A result depends on (text, transformation, prompt, generator, sampling, seed) and on nothing
//! else: neither on the order of a request nor on its other items.

pub mod augment;
pub mod cache;
pub mod checks;
pub mod clean;
pub mod config;
pub mod distractors;
pub mod engine;
pub mod error;
pub mod forget;
pub mod generator;
pub mod guards;
pub mod judge;
pub mod language;
pub mod list;
pub mod measures;
mod metric_names;
pub mod prompt;
pub mod rules;
pub mod seed;
pub mod service;
mod word_lists;
pub mod words;

use std::future::Future;

use isomer_models::Resolver;
use isomer_service_kit::{Fault, client, server};
use tokio::net::TcpListener;

pub use config::{GeneratorConfig, GeneratorKind, ServeConfig, TransformConfig};
pub use error::TransformError;
pub use service::{TransformService, services};

/// Serves until `shutdown` resolves, then completes requests in flight.
///
/// # Errors
/// If the configuration, a prompt file, the cache directory or the socket cannot be used.
pub async fn run(
    config: ServeConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let resolver = Resolver::new(config.models).map_err(TransformError::from)?;
    let mut service = TransformService::new(config.transform, resolver)?;
    if let Some(encoder) = &config.encoder {
        service = service.with_encoder(client::connect_lazy(encoder)?);
    }
    server::serve(services(service), &config.server, listener, shutdown).await
}
