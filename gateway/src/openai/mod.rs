//! HTTP in OpenAI's shapes beside gRPC: `/v1/embeddings`, `/v1/models`, `/v1/rerank`.
//!
//! What OpenAI's own clients send is understood, what they read is answered. More than they know is asked for by further
//! fields (`augment`, `prompt_name`, `truncation`); a field that nobody knows is refused, since a misspelt one would
//! otherwise change vectors in silence. Bodies must be `application/json`: a page of another origin cannot send that
//! without the browser's asking first.
//!
//! Shapes: <https://platform.openai.com/docs/api-reference/embeddings>; of `/v1/rerank` Cohere's and Jina's, which agree.

mod augment;
mod embeddings;
mod error;
mod models;
mod rerank;
#[cfg(test)]
mod tests;

use axum::{
    Router,
    body::Bytes,
    routing::{get, post},
};
use http::{HeaderMap, header};
use isomer_proto::{
    encoder::v1::encoder_service_client::EncoderServiceClient,
    transform::v1::augmentation_service_client::AugmentationServiceClient,
};
use isomer_service_kit::{Fault, GrpcChannel};
use serde::de::DeserializeOwned;
use tonic::Code;

use error::ApiError;

/// The services that these routes call.
#[derive(Debug, Clone, Default)]
pub struct Backends {
    /// An `EncoderService`.
    pub encoder: Option<GrpcChannel>,
    /// An `AugmentationService`.
    pub augmentation: Option<GrpcChannel>,
    /// Largest message, in bytes.
    pub max_message_bytes: usize,
}

/// The routes.
pub fn routes(backends: Backends) -> Router {
    Router::new()
        .route("/v1/embeddings", post(embeddings::create))
        .route("/v1/rerank", post(rerank::create))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::get))
        .with_state(backends)
}

impl Backends {
    fn encoder(&self) -> Result<EncoderServiceClient<GrpcChannel>, ApiError> {
        let channel = self
            .encoder
            .clone()
            .ok_or_else(|| absent("an encoder service", "embed"))?;
        Ok(EncoderServiceClient::new(channel)
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes))
    }

    fn augmentation(&self) -> Result<AugmentationServiceClient<GrpcChannel>, ApiError> {
        let channel = self
            .augmentation
            .clone()
            .ok_or_else(|| absent("a transform service", "transform").at("augment"))?;
        Ok(AugmentationServiceClient::new(channel)
            .max_decoding_message_size(self.max_message_bytes)
            .max_encoding_message_size(self.max_message_bytes))
    }
}

fn absent(what: &str, section: &str) -> ApiError {
    ApiError::from(
        Fault::unimplemented(format!("this gateway has not been given {what}"))
            .mend(format!("name one in its configuration: {section}.address")),
    )
}

/// Reads a request's JSON.
fn body<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, ApiError> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let fault = Fault::new(
            Code::InvalidArgument,
            "UNSUPPORTED_MEDIA_TYPE",
            format!("the body is {media_type:?}, should be JSON"),
        );
        return Err(ApiError::from(
            fault.mend("send the header `Content-Type: application/json`"),
        ));
    }
    serde_json::from_slice(body).map_err(|error| {
        let fault = Fault::new(
            Code::InvalidArgument,
            "INVALID_JSON",
            format!("the body cannot be read: {error}"),
        );
        ApiError::from(fault)
    })
}
