//! Text to vectors: sentence-transformers models behind `isomer.encoder.v1.EncoderService`.
//!
//! The path of a request, from the outside in:
//!
//! * [`service`]: the gRPC handler; checks the request, builds the answer.
//! * [`registry`]: the available encoders; loads them on demand.
//! * [`tokenise`]: text to ids, on helper threads.
//! * [`engine`]: a bounded queue and the threads of each model; batches by tokens.
//! * [`model`]: a loaded encoder; pure computation on packed tokens, without padding.
//! * [`arch`] over [`backend`]: the transformer, written once for every device; [`vectors`]: fixed
//!   vectors instead.
//! * [`summary`]: a description of a model from its files, for people.
//! * [`pooling`], [`activation`], [`folder`], [`weights`], [`batch`], [`space`]: the pieces.
//!
//! A text's vector depends only on the text: its bits are the same alone, in any batch, in any
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
pub mod registry;
pub mod service;
mod shared;
pub mod space;
mod steps;
pub mod summary;
mod token_heads;
pub mod tokenise;
pub mod vectors;
pub mod weights;

use std::future::Future;

use isomer_models::Resolver;
use isomer_service_kit::{
    Fault,
    server::{self, ServerConfig},
};
use tokio::net::TcpListener;

pub use config::{EmbedConfig, Instructions, ServeConfig};
pub use error::EmbedError;
pub use service::{EmbedService, services};
pub use shared::SharedVectors;

/// Serves until `shutdown` resolves or a device is lost, then finishes the requests in flight.
///
/// # Errors
/// If the configuration, a model or the socket cannot be used, or a device was lost.
pub async fn run(
    config: ServeConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let resolver = Resolver::new(config.models).map_err(EmbedError::from)?;
    let service = EmbedService::new(config.embed, resolver)?;
    service.warm_up().await?;
    serve(service, &config.server, listener, shutdown).await
}

async fn serve(
    service: EmbedService,
    config: &ServerConfig,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let lost = service.lost_device();
    let ending = {
        let lost = lost.clone();
        async move { lost.or(shutdown).await }
    };
    server::serve(services(service), config, listener, ending).await?;
    Ok(lost.check()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_models::ModelsConfig;

    use super::*;

    #[tokio::test]
    async fn a_server_whose_device_is_lost_ends() {
        let home = tempfile::tempdir().unwrap();
        let models = ModelsConfig {
            home: home.path().into(),
            offline: true,
            ..ModelsConfig::default()
        };
        let service = EmbedService::new(EmbedConfig::default(), Resolver::new(models).unwrap()).unwrap();
        let lost = service.lost_device();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving =
            tokio::spawn(
                async move { serve(service, &ServerConfig::default(), listener, std::future::pending()).await },
            );
        lost.note::<()>(&Err(EmbedError::DeviceLost {
            device: "cuda:0".into(),
            problem: "an illegal address".into(),
        }));
        let fault = serving.await.unwrap().unwrap_err();
        assert_eq!(fault.reason, "DEVICE_LOST");
    }
}
