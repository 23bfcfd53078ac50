//! HTTP APIs of other servers, so that their clients work unchanged: Cohere's, text-embeddings-inference's, Ollama's, the hub's.
//!
//! Each API is a module that turns its requests into ours and our answers into its own, errors included. Encoding, reranking and charging
//! are those of [`crate::openai`]. A field that would change the result and that we do not support is refused by name; one that
//! cannot change it (`keep_alive`, `priority`) is accepted.

mod cohere;
mod model;
mod numbers;
mod ollama;
mod refusal;
mod tei;
#[cfg(test)]
mod tests;

use isomer_service_kit::Services;

use crate::openai::Backends;
pub(crate) use model::{Purpose, prompt};
use refusal::Dialect;

/// Adds the routes and their shapes of errors.
pub(crate) fn add(services: Services, backends: &Backends) -> Services {
    let mut services = services
        .http(routes(backends))
        .refusals("/v1/embed", cohere::Cohere::respond)
        .refusals("/v2/", cohere::Cohere::respond)
        .refusals("/api/", ollama::Ollama::respond);
    for prefix in tei::PREFIXES {
        services = services.refusals(prefix, tei::Tei::respond);
    }
    services
}

fn routes(backends: &Backends) -> axum::Router {
    cohere::routes()
        .merge(ollama::routes())
        .merge(tei::routes())
        .with_state(backends.clone())
}
