//! `POST /v1/rerank`.

use axum::{Json, extract::State};
use isomer_proto::encoder::v1::RerankRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Backends, Body, Call, error::ApiError};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    model: String,
    query: String,
    #[serde(deserialize_with = "super::inputs::bounded")]
    documents: Vec<Document>,
    top_n: Option<u32>,
    #[serde(default)]
    return_documents: bool,
    /// The label to rank by, where the model has several.
    #[serde(default)]
    label: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a document should be a string or an object with `text`")]
pub(super) enum Document {
    Plain(String),
    Object { text: String },
}

impl Document {
    fn into_text(self) -> String {
        match self {
            Self::Plain(text) | Self::Object { text } => text,
        }
    }
}

/// Documents by relevance, best first.
pub(super) async fn create(
    State(backends): State<Backends>,
    call: Call,
    Body(request): Body<Request>,
) -> Result<Json<Value>, ApiError> {
    let model = request.model.clone();
    let documents: Vec<String> = request.documents.into_iter().map(Document::into_text).collect();
    let kept = request.return_documents.then(|| documents.clone());
    let wanted = RerankRequest {
        encoder_id: request.model,
        query: request.query,
        documents,
        top_n: request.top_n,
        label: request.label,
    };
    let answer = backends.router.rerank(wanted, call.deadline).await?;
    let results = answer.results.iter().map(|result| {
        let mut shown = json!({ "index": result.index, "relevance_score": result.score });
        if let Some(text) = kept.as_ref().and_then(|kept| kept.get(result.index as usize)) {
            shown["document"] = json!({ "text": text });
        }
        shown
    });
    let tokens = answer.usage.unwrap_or_default().tokens;
    call.charge(tokens, 0.0);
    Ok(Json(json!({
        "object": "list",
        "model": model,
        "results": results.collect::<Vec<_>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}
