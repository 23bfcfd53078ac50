//! HTTP in OpenAI's format, in addition to gRPC: `/v1/embeddings`, `/v1/models`, `/v1/rerank`, and
//! embeddings at Azure's addresses.
//!
//! OpenAI's own clients can send all their fields and get the answers they read. Additional fields
//! (`augment`, `outputs`, `prompt_name`, `truncation`) offer what those clients do not know. An
//! unknown field is refused, because a misspelt one would otherwise change vectors silently.
//!
//! Shapes: <https://platform.openai.com/docs/api-reference/embeddings>; `/v1/rerank` follows
//! Cohere's and Jina's APIs, which agree.

mod augment;
pub(crate) mod augmented_models;
mod azure;
mod body;
mod decimals;
pub(crate) mod embeddings;
pub(crate) mod encoded_inputs;
mod error;
pub(crate) mod inputs;
mod list;
#[cfg(test)]
mod memory_tests;
mod models;
pub(crate) mod nulls;
#[cfg(test)]
mod refused;
pub(crate) mod rerank;
#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    response::IntoResponse,
    routing::{MethodRouter, get, post},
};
use http::request::Parts;
use isomer_access::Caller;
use isomer_proto::transform::v1::augmentation_service_client::AugmentationServiceClient;
use isomer_service_kit::{CallDeadline, Fault, Services};
use tokio::time::Instant;

use augmented_models::AugmentedModels;
pub(crate) use body::Body;
pub(crate) use error::ApiError;

use crate::{
    billing,
    dialects::fields::{Fields, RequestFields},
    proxy::{Servers, missing_variants::VariantQueue},
    rate_limits,
    routing::Router,
    timing,
};

/// Azure's current addresses, which groq's clients use, too.
const ALIASES: &[(&str, &str)] = &[("/openai/v1", "/v1"), ("/openai/models", "/v1/models")];

/// The services that these routes call.
#[derive(Debug, Clone)]
pub struct Backends {
    /// Routes to every encoder.
    pub router: Router,
    /// An `AugmentationService`.
    pub augmentation: Option<Servers>,
    /// Names that stand for an encoder with augmentation.
    pub(crate) augmented: AugmentedModels,
    /// The queue that makes the variants that answers lack.
    pub(crate) variants: Option<VariantQueue>,
    /// Largest message that is accepted, in bytes.
    pub max_message_bytes: usize,
}

/// Adds the routes. Every error below `/v1/` and `/openai/` has OpenAI's format, whichever layer
/// raises it.
pub(crate) fn add(services: Services, backends: Backends) -> Services {
    let shape = |fault| ApiError::from(fault).into_response();
    services
        .http(routes(backends).layer((rate_limits::shown(), timing::timed(), billing::charged())))
        .paths(ALIASES, paths())
        .refusals("/v1/", shape)
        .refusals("/openai/", shape)
}

fn table() -> Vec<(&'static str, MethodRouter<Backends>)> {
    vec![
        ("/v1/embeddings", post(embeddings::create)),
        ("/v1/rerank", post(rerank::create)),
        ("/v1/models", get(models::list)),
        ("/v1/models/{*id}", get(models::get)),
        ("/openai/deployments/{*path}", post(azure::create)),
    ]
}

/// The fields of the requests of these routes.
pub(crate) fn fields() -> Vec<RequestFields> {
    vec![
        embeddings::Request::at(
            "OpenAI, Azure, Voyage, Jina, NVIDIA",
            &["/v1/embeddings", "/openai/deployments/ID/embeddings"],
        ),
        rerank::Request::at("Cohere's version 1, Jina, Voyage, vLLM", &["/v1/rerank"]),
    ]
}

/// The paths of all routes.
pub fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

pub(crate) fn routes(backends: Backends) -> axum::Router {
    let add = |routes: axum::Router<Backends>, (path, route)| routes.route(path, route);
    table().into_iter().fold(axum::Router::new(), add).with_state(backends)
}

impl Backends {
    /// The encoder behind a name.
    pub(crate) fn encoder_of<'a>(&'a self, model: &'a str) -> &'a str {
        self.augmented.get(model).map_or(model, |own| own.encoder.as_str())
    }

    fn augmentation(&self) -> Result<AugmentationServiceClient<Servers>, ApiError> {
        let channel = self.augmentation.clone().ok_or_else(|| absent().at("augment"))?;
        Ok(AugmentationServiceClient::new(channel)
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes))
    }
}

fn absent() -> ApiError {
    ApiError::from(
        Fault::unimplemented("this gateway has no transform service")
            .hint("name one in its configuration: transform.address"),
    )
}

/// The caller and the deadline of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    caller: Option<Caller>,
    pub(crate) deadline: Option<Instant>,
}

impl Call {
    fn of(extensions: &http::Extensions) -> Self {
        Self {
            caller: extensions.get::<Caller>().cloned(),
            deadline: extensions.get::<CallDeadline>().map(|deadline| deadline.0),
        }
    }
}

impl Call {
    /// The caller and the deadline of a gRPC request.
    pub(crate) fn of_grpc(extensions: &tonic::Extensions) -> Self {
        Self {
            caller: extensions.get::<Caller>().cloned(),
            deadline: extensions.get::<CallDeadline>().map(|deadline| deadline.0),
        }
    }

    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }
}

impl<S: Sync> FromRequestParts<S> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}
