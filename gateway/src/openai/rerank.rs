//! `POST /v1/rerank`.

use std::fmt;

use axum::extract::State;
use isomer_proto::encoder::v1::{RerankRequest, RerankResponse};
use isomer_service_kit::Fault;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};

use super::{Backends, Body, Call, error::ApiError, nulls};
use crate::{billing, json::Json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    model: String,
    query: String,
    #[serde(deserialize_with = "super::inputs::bounded")]
    documents: Vec<Document>,
    top_n: Option<u32>,
    /// Voyage's name for `top_n`.
    top_k: Option<u32>,
    #[serde(default, deserialize_with = "nulls::or_default")]
    return_documents: bool,
    /// The label to rank by, if the model has several.
    #[serde(default, deserialize_with = "nulls::or_default")]
    label: String,
    /// Voyage: whether a pair that is too long is cut. Only `true` is accepted, because pairs are
    /// always cut.
    truncation: Option<bool>,
    /// Cohere: maximum number of chunks per document. Here a document is one chunk, cut at the
    /// encoder's length.
    max_chunks_per_doc: Option<u32>,
}

/// A text, or an object with `text`. The object's other fields are dropped.
#[derive(Debug)]
pub(super) struct Document(String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document that is a string or an object with `text`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Document, E> {
        Ok(Document(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Document, A::Error> {
        #[derive(Deserialize)]
        struct Object {
            text: String,
        }
        let Object { text } = Object::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(Document(text))
    }
}

/// Documents by relevance, best first.
pub(super) async fn create(
    State(backends): State<Backends>,
    call: Call,
    Body(request): Body<Request>,
) -> Result<Json<Value>, ApiError> {
    if request.truncation == Some(false) {
        let message = "is false, but pairs that are too long are always cut; leave it out";
        return Err(ApiError::invalid("truncation", message));
    }
    if request.max_chunks_per_doc == Some(0) {
        return Err(ApiError::invalid("max_chunks_per_doc", "is 0, should be 1 or more"));
    }
    let top_n = match (request.top_n, request.top_k) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "top_k",
                "is given together with `top_n`, which means the same; give one of the two",
            ));
        }
        (one, other) => one.or(other),
    };
    let voyage = request.top_k.is_some() || request.truncation.is_some();
    let model = request.model.clone();
    let documents: Vec<String> = request.documents.into_iter().map(|Document(text)| text).collect();
    let kept = request.return_documents.then(|| documents.clone());
    let wanted = RerankRequest {
        encoder_id: request.model,
        query: request.query,
        documents,
        top_n,
        label: request.label,
    };
    let answer = rank(&backends, &call, wanted).await?;
    let results = answer.results.iter().map(|result| {
        let mut shown = json!({ "index": result.index, "relevance_score": result.score });
        if let Some(text) = kept.as_ref().and_then(|kept| kept.get(result.index as usize)) {
            shown["document"] = if voyage { json!(text) } else { json!({ "text": text }) };
        }
        shown
    });
    let tokens = answer.usage.unwrap_or_default().tokens;
    // Voyage's clients read the results from another field.
    let results_are = if voyage { "data" } else { "results" };
    Ok(Json(json!({
        "object": "list",
        "model": model,
        results_are: results.collect::<Vec<_>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}

/// Ranks documents by relevance and charges the caller.
///
/// # Errors
/// Those of [`crate::routing::Router::rerank`].
pub(crate) async fn rank(backends: &Backends, call: &Call, wanted: RerankRequest) -> Result<RerankResponse, Fault> {
    billing::rerank(&backends.router, call.caller.as_ref(), wanted, call.deadline).await
}
