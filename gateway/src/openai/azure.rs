//! Embeddings at Azure's addresses: `POST /openai/deployments/DEPLOYMENT/embeddings`. The
//! deployment is the encoder; ids with a slash work too. `api-version` is ignored.
//!
//! <https://learn.microsoft.com/azure/ai-foundry/openai/reference#embeddings>

use axum::{
    extract::{Path, State, rejection::PathRejection},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{Backends, Body, Call, embeddings, error::ApiError};

/// Like `/v1/embeddings`. A `model` in the body is the client's own name for the deployment and is
/// ignored.
pub(super) async fn create(
    State(backends): State<Backends>,
    path: Result<Path<String>, PathRejection>,
    call: Call,
    body: Result<Body<embeddings::Request>, ApiError>,
) -> Result<Response, ApiError> {
    let Path(path) = path.map_err(|rejection| ApiError::invalid("model", rejection.body_text()))?;
    let Some(deployment) = path.strip_suffix("/embeddings") else {
        // The answer for any path that is not served.
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let Body(mut request) = body?;
    deployment.clone_into(&mut request.model);
    embeddings::create(State(backends), call, Body(request)).await
}
