//! `GET /v1/models`: lists the encoders.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use isomer_proto::encoder::v1::Encoder;
use serde_json::{Value, json};

use super::{Backends, Call, error::ApiError};

/// All encoders, loaded or not.
pub(super) async fn list(State(backends): State<Backends>) -> Json<Value> {
    let models: Vec<Value> = backends.router.list().await.iter().map(model).collect();
    Json(json!({ "object": "list", "data": models }))
}

/// One encoder; loads it if necessary.
pub(super) async fn get(
    State(backends): State<Backends>,
    call: Call,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|rejection| ApiError::invalid("model", rejection.body_text()))?;
    Ok(Json(model(&backends.router.get(&id, call.deadline).await?)))
}

/// OpenAI's four fields, and facts that clients of embeddings need. The time at which a model was
/// made is not known: 0.
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
