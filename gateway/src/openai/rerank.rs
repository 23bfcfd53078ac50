//! `POST /v1/rerank`.

use std::fmt;

use axum::extract::State;
use isomer_proto::encoder::v1::{Activation, RerankRequest, RerankResponse};
use isomer_service_kit::Fault;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};

use super::{Backends, Body, Call, error::ApiError, list::id, nulls};
use crate::{
    billing,
    dialects::{check_lengths, fields::fields},
    json::Json,
};

fields! {
    /// A request to rank documents.
    pub(super) struct Request, rest = refused;
    read {
        /// A cross-encoder.
        model: String,
        query: String,
        /// Texts, or objects with `text`.
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
        /// Infinity: whether scores are logits; otherwise they have passed through the model's own
        /// function.
        #[serde(default, deserialize_with = "nulls::or_default")]
        raw_scores: bool,
        /// Voyage: whether a pair that is too long is cut. Only `true` is accepted, because pairs
        /// are always cut.
        truncation: Option<bool>,
        /// Cohere: maximum number of chunks per document. Here a document is one chunk, cut at the
        /// encoder's length.
        max_chunks_per_doc: Option<u32>,
    }
    ignored { user, metadata, priority, request_id, provider }
    harmless {
        rank_fields: Vec<String>, |fields| fields.iter().all(|field| field == "text"),
            "names fields other than `text`, and documents are ranked by their text" => "leave it out";
    }
    length { max_tokens_per_doc, truncate_prompt_tokens }
}

/// A text, or an object with `text`. The object's other fields are dropped.
#[derive(Debug)]
pub(crate) struct Document(pub(crate) String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or an object with `text`")
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
    check_lengths(&backends, &request.model, call.deadline, request.lengths()).await?;
    let is_voyage = request.top_k.is_some() || request.truncation.is_some();
    let shape = match (request.return_documents, is_voyage) {
        (with_documents, true) => AnswerShape::Voyage { with_documents },
        (with_documents, false) => AnswerShape::Cohere { with_documents },
    };
    let wanted = RerankRequest {
        encoder_id: request.model,
        query: request.query,
        documents: request.documents.into_iter().map(|Document(text)| text).collect(),
        top_n,
        label: request.label,
        activation: activation(request.raw_scores).into(),
    };
    Ok(Json(answered(&backends, &call, wanted, shape).await?))
}

/// Infinity's `raw_scores`: logits in place of the scores that the model's own function gives.
pub(crate) fn activation(raw_scores: bool) -> Activation {
    if raw_scores {
        Activation::Identity
    } else {
        Activation::Unspecified
    }
}

/// The form of an answer, and whether it repeats the documents.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnswerShape {
    Cohere { with_documents: bool },
    Voyage { with_documents: bool },
}

/// Documents by relevance, best first, as `/v1/rerank` answers them.
///
/// # Errors
/// Those of [`rank`].
pub(crate) async fn answered(
    backends: &Backends,
    call: &Call,
    wanted: RerankRequest,
    shape: AnswerShape,
) -> Result<Value, Fault> {
    let (AnswerShape::Cohere { with_documents } | AnswerShape::Voyage { with_documents }) = shape;
    let is_voyage = matches!(shape, AnswerShape::Voyage { .. });
    let model = wanted.encoder_id.clone();
    let kept = with_documents.then(|| wanted.documents.clone());
    let answer = rank(backends, call, wanted).await?;
    let results = answer.results.iter().map(|result| {
        let mut shown = json!({ "index": result.index, "relevance_score": result.score });
        if let Some(text) = kept.as_ref().and_then(|kept| kept.get(result.index as usize)) {
            shown["document"] = if is_voyage {
                json!(text)
            } else {
                json!({ "text": text })
            };
        }
        shown
    });
    let tokens = answer.usage.unwrap_or_default().tokens;
    // Voyage's clients read the results from another field.
    let results_are = if is_voyage { "data" } else { "results" };
    Ok(json!({
        "id": id("rerank"),
        "object": "list",
        "model": model,
        results_are: results.collect::<Vec<_>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    }))
}

/// Ranks documents by relevance and charges the caller.
///
/// # Errors
/// Those of [`crate::routing::Router::rerank`].
pub(crate) async fn rank(backends: &Backends, call: &Call, wanted: RerankRequest) -> Result<RerankResponse, Fault> {
    billing::rerank(&backends.router, call.caller.as_ref(), wanted, call.deadline).await
}
