//! Entry points for the fuzz targets of `tests/fuzz` to readers that are private to this crate. Not
//! part of the crate's interface.

use std::sync::Arc;

use isomer_adapters::EncoderBackend;
use isomer_proto::gateway::v1::Provider;
use isomer_service_kit::Fault;
use tokio::sync::watch;

use crate::{
    dialects, openai, page,
    routing::{ConfiguredEncoders, Router, RoutingConfig},
};

/// The HTTP routes in the shapes of OpenAI, Cohere, Ollama and text-embeddings-inference, over one
/// encoder server and without the layers around them.
pub async fn routes(backend: Arc<dyn EncoderBackend>, max_message_bytes: usize) -> axum::Router {
    let (_providers, none) = watch::channel(Vec::new().into());
    let refuse = |_: &Provider| Err(Fault::internal("no providers here"));
    let fixed = ConfiguredEncoders {
        name: "fuzz".to_owned(),
        backend,
        remote: false,
    };
    let backends = openai::Backends {
        router: Router::new(RoutingConfig::default(), None, vec![fixed], none, refuse).await,
        augmentation: None,
        augmented: std::sync::Arc::default(),
        variants: None,
        max_message_bytes,
    };
    openai::routes(backends.clone()).merge(dialects::routes(&backends))
}

/// Reads the query of the page's trial and returns its error, if any.
pub fn trial(query: &str) -> Option<String> {
    page::read_trial(query)
}
