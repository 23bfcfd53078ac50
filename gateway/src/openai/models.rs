//! `GET /v1/models`: the encoders.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use isomer_proto::encoder::v1::Encoder;
use serde_json::{Value, json};

use super::{Backends, Call, error::ApiError};

/// Every encoder that can be asked for, loaded or not.
pub(super) async fn list(State(backends): State<Backends>) -> Json<Value> {
    let models: Vec<Value> = backends.router.list().await.iter().map(model).collect();
    Json(json!({ "object": "list", "data": models }))
}

/// One of them; loads it if need be.
pub(super) async fn get(
    State(backends): State<Backends>,
    call: Call,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|rejection| ApiError::invalid("model", rejection.body_text()))?;
    Ok(Json(model(&backends.router.get(&id, call.deadline).await?)))
}

/// OpenAI's four fields, and what a client of embeddings wants to know. When a model was made is
/// not known: 0.
fn model(encoder: &Encoder) -> Value {
    json!({
        "id": encoder.id,
        "object": "model",
        "created": 0,
        "owned_by": "isomer",
        "dimensions": encoder.dimensions,
        "max_tokens": encoder.max_tokens,
        "loaded": encoder.loaded,
    })
}
