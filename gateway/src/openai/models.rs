//! `GET /v1/models`: the encoders.

use axum::{
    Json,
    extract::{Path, State},
};
use isomer_proto::encoder::v1::{Encoder, GetEncoderRequest, ListEncodersRequest};
use serde_json::{Value, json};

use super::{Backends, error::ApiError};

const PAGE: u32 = 1000;

/// Every encoder that can be asked for, loaded or not.
pub(super) async fn list(State(backends): State<Backends>) -> Result<Json<Value>, ApiError> {
    let mut client = backends.encoder()?;
    let mut request = ListEncodersRequest {
        page_size: PAGE,
        ..ListEncodersRequest::default()
    };
    let mut models: Vec<Value> = Vec::new();
    loop {
        let page = client.list_encoders(request.clone()).await?.into_inner();
        models.extend(page.encoders.iter().map(model));
        if page.next_page_token.is_empty() {
            return Ok(Json(json!({ "object": "list", "data": models })));
        }
        request.page_token = page.next_page_token;
    }
}

/// One of them; loads it if need be.
pub(super) async fn get(State(backends): State<Backends>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let found = backends.encoder()?.get_encoder(GetEncoderRequest { id }).await?;
    let encoder = found.into_inner().encoder.unwrap_or_default();
    Ok(Json(model(&encoder)))
}

/// OpenAI's four fields, and what a client of embeddings wants to know. When a model was made is not known: 0.
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
