//! HTTP APIs of other servers, so that their clients work unchanged: those of Cohere,
//! text-embeddings-inference, Ollama and the Hugging Face hub.
//!
//! Each module translates one API's requests into ours and our answers and errors into that API's.
//! Encoding, reranking and charging are those of [`crate::openai`]. A field that would change the
//! result and is not supported is refused by name. A field that cannot change the result, or that
//! the API's own server ignores, is accepted. [`fields`] declares them.

mod cohere;
pub(crate) mod fields;
mod model;
mod numbers;
mod ollama;
mod refusal;
mod tei;
#[cfg(test)]
mod tests;

use axum::routing::MethodRouter;
use isomer_service_kit::Services;

use crate::{billing, openai::Backends, rate_limits, timing};
use fields::RequestFields;
pub(crate) use model::{Purpose, check_lengths, prompt};
use refusal::Dialect;

/// Adds the routes and the shapes of their errors.
pub(crate) fn add(services: Services, backends: &Backends) -> Services {
    let mut services = services
        .http(routes(backends).layer((rate_limits::shown(), timing::timed(), billing::charged())))
        .refusals("/v1/embed", cohere::Cohere::respond)
        .refusals("/v2/", cohere::Cohere::respond)
        .refusals("/api/", ollama::Ollama::respond);
    services = tei::grpc::add(services, backends);
    for path in tei::OWN {
        services = services.refusals(path, tei::Tei::respond);
    }
    services
}

/// A path and its handler.
type Route = (&'static str, MethodRouter<Backends>);

fn table() -> Vec<Route> {
    [cohere::table(), ollama::table(), tei::table()].concat()
}

/// The fields of the requests of these routes.
pub(crate) fn fields() -> Vec<RequestFields> {
    [cohere::fields(), ollama::fields(), tei::fields()].concat()
}

/// The paths of these routes.
pub(crate) fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

pub(crate) fn routes(backends: &Backends) -> axum::Router {
    let add = |routes: axum::Router<Backends>, (path, route)| routes.route(path, route);
    table()
        .into_iter()
        .fold(axum::Router::new(), add)
        .with_state(backends.clone())
}
