//! `GET /v1/models`: lists the encoders.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use isomer_proto::encoder::v1::Encoder;
use serde_json::{Value, json};

use super::{Backends, Call, error::ApiError};

/// All encoders, loaded or not, installed or not.
pub(super) async fn list(State(backends): State<Backends>) -> Json<Value> {
    let encoders = backends.router.list().await;
    let augmented = backends.augmented.keys().filter_map(|name| {
        let encoder = encoders
            .iter()
            .find(|encoder| encoder.id == backends.encoder_of(name))?;
        Some(augmented(name, encoder))
    });
    // As in requests, a configured name hides an encoder of the same id.
    let own = encoders
        .iter()
        .filter(|encoder| !backends.augmented.contains_key(&encoder.id));
    let models: Vec<Value> = own.map(model).chain(augmented).collect();
    Json(json!({ "object": "list", "data": models }))
}

/// Describes one encoder; loads it if necessary.
pub(super) async fn get(
    State(backends): State<Backends>,
    call: Call,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|rejection| ApiError::invalid("model", rejection.body_text()))?;
    let encoder = backends.router.get(backends.encoder_of(&id), call.deadline).await?;
    Ok(Json(match backends.augmented.contains_key(&id) {
        true => augmented(&id, &encoder),
        false => model(&encoder),
    }))
}

/// Describes a name that stands for an encoder with augmentation.
fn augmented(name: &str, encoder: &Encoder) -> Value {
    let mut shown = model(encoder);
    shown["id"] = json!(name);
    shown["augments"] = json!(encoder.id);
    shown
}

/// OpenAI's four fields, and facts that clients of embeddings need: a number is null until the
/// encoder has been loaded. The creation time of a model is unknown, so it is 0.
fn model(encoder: &Encoder) -> Value {
    let known = |number: u32| Some(number).filter(|number| *number > 0);
    json!({
        "id": encoder.id,
        "object": "model",
        "created": 0,
        "owned_by": "isomer",
        "dimensions": known(encoder.dimensions),
        "max_tokens": known(encoder.max_tokens),
        "loaded": encoder.loaded,
        "installed": !encoder.not_installed,
    })
}
