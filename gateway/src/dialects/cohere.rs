//! Cohere's API, versions 1 and 2: `POST /v1/embed`, `/v2/embed`, `/v2/rerank`. `/v1/rerank` is
//! served in `openai`, because Jina's and Voyage's clients use it too.
//!
//! <https://docs.cohere.com/reference/embed>, <https://docs.cohere.com/reference/rerank>

use std::collections::BTreeMap;

use axum::{extract::State, routing::post};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Input, RerankRequest, Truncation, input},
};
use isomer_service_kit::{Fault, off_runtime, vectors::floats};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    fields::{Fields, RequestFields, fields},
    model::{self, Purpose, check_lengths},
    numbers::Numbers,
    refusal::{Dialect, DialectError},
};
use crate::json::Json;
use crate::openai::{
    ApiError, Backends, Body, Call, embeddings,
    inputs::{bounded, bounded_or_empty},
    nulls,
    rerank::{self, AnswerShape, Document},
};

/// The shape of this API's errors: an object with a message.
#[derive(Debug)]
pub(super) struct Cohere;

impl Dialect for Cohere {
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("encoder_id", "model"),
        ("id", "model"),
        ("inputs", "texts"),
        ("dimensions", "output_dimension"),
    ];

    fn body(message: String, _: &Fault) -> Value {
        json!({ "message": message })
    }
}

type ApiResult<T> = Result<Json<T>, DialectError<Cohere>>;

pub(super) fn table() -> Vec<super::Route> {
    vec![
        ("/v1/embed", post(embed_1)),
        ("/v2/embed", post(embed_2)),
        ("/v2/rerank", post(rerank_2)),
    ]
}

pub(super) fn fields() -> Vec<RequestFields> {
    vec![
        Embed::at("Cohere", &["/v1/embed", "/v2/embed"]),
        Rerank::at("Cohere", &["/v2/rerank"]),
    ]
}

fields! {
    /// A request to embed, in either version.
    struct Embed, rest = refused;
    read {
        model: String,
        #[serde(default, deserialize_with = "bounded_or_empty")]
        texts: Vec<String>,
        /// Selects one of the encoder's prompts: `search_query`, `search_document`,
        /// `classification`, `clustering`. Required in version 2.
        input_type: Option<InputType>,
        /// `float`, `base64`, `binary`, `ubinary`.
        #[serde(default, deserialize_with = "bounded_or_empty")]
        embedding_types: Vec<EmbeddingType>,
        /// Handling of a text that is too long: `NONE`, `START`, `END`.
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncate: Truncate,
        output_dimension: Option<u32>,
    }
    ignored { priority }
    length { max_tokens }
    refused {
        images: "encoders here read texts, not images" => "leave it out";
        inputs: "encoders here read texts, not mixed inputs" => "send `texts`";
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InputType {
    SearchQuery,
    SearchDocument,
    Classification,
    Clustering,
    Image,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EmbeddingType {
    Float,
    Base64,
    Int8,
    Uint8,
    Binary,
    Ubinary,
}

isomer_names::names!(EmbeddingType {
    Float = "float", Base64 = "base64", Int8 = "int8", Uint8 = "uint8", Binary = "binary", Ubinary = "ubinary"
});

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Truncate {
    None,
    Start,
    End,
    /// The encoder's default. An encoder that supports both sides cuts at the end.
    #[default]
    #[serde(skip)]
    Unsaid,
}

/// One vector in one of the element types.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Vector {
    Floats(Numbers),
    Base64(String),
    Bytes(Vec<i16>),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Embeddings {
    Plain(Vec<Vector>),
    ByType(BTreeMap<&'static str, Vec<Vector>>),
}

#[derive(Debug, Serialize)]
struct EmbedResponse {
    response_type: &'static str,
    id: String,
    texts: Vec<String>,
    embeddings: Embeddings,
    meta: Value,
}

async fn embed_1(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<EmbedResponse> {
    let Body(request) = body?;
    let plain = request.embedding_types.is_empty();
    let mut embedded = embed(&backends, &call, request, "1").await?;
    if plain && let Embeddings::ByType(mut types) = embedded.embeddings {
        embedded.response_type = "embeddings_floats";
        embedded.embeddings = Embeddings::Plain(types.remove("float").unwrap_or_default());
    }
    Ok(Json(embedded))
}

async fn embed_2(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<EmbedResponse> {
    let Body(request) = body?;
    if request.input_type.is_none() {
        let missing =
            Fault::invalid("input_type", "is missing").hint("say what the texts are for, e.g. \"search_document\"");
        return Err(missing.into());
    }
    embed(&backends, &call, request, "2").await.map(Json)
}

async fn embed(
    backends: &Backends,
    call: &Call,
    request: Embed,
    version: &str,
) -> Result<EmbedResponse, DialectError<Cohere>> {
    check_lengths(backends, &request.model, call.deadline, request.lengths()).await?;
    let purpose = match request.input_type {
        None => None,
        Some(InputType::SearchQuery) => Some(Purpose::Query),
        Some(InputType::SearchDocument) => Some(Purpose::Document),
        Some(InputType::Classification) => Some(Purpose::Classification),
        Some(InputType::Clustering) => Some(Purpose::Clustering),
        Some(InputType::Image) => {
            return Err(DialectError::invalid(
                "input_type",
                "is `image`, but encoders here read texts only",
            ));
        }
    };
    let mut types = request.embedding_types;
    if types.is_empty() {
        types.push(EmbeddingType::Float);
    }
    types.sort_unstable();
    types.dedup();
    if let Some(other) = types
        .iter()
        .find(|kind| matches!(kind, EmbeddingType::Int8 | EmbeddingType::Uint8))
    {
        let message = format!(
            "`{}` needs ranges from a calibration set; request float, base64, binary or ubinary, or DTYPE_INT8 over gRPC",
            other.name()
        );
        return Err(DialectError::invalid("embedding_types", message));
    }
    let prompt = model::prompt(backends, &request.model, purpose, call.deadline).await?;
    let wanted = EncodeRequest {
        encoder_id: request.model,
        inputs: request
            .texts
            .iter()
            .map(|text| Input {
                input: Some(input::Input::Text(text.clone())),
            })
            .collect(),
        prompt,
        truncation: match request.truncate {
            Truncate::None => Truncation::Error,
            Truncate::Start => Truncation::Head,
            Truncate::End => Truncation::Tail,
            Truncate::Unsaid => Truncation::Unspecified,
        }
        .into(),
        dimensions: request.output_dimension,
        output_dtype: Dtype::F32.into(),
        ..EncodeRequest::default()
    };
    let encoded = embeddings::encode(backends, call, wanted).await?;
    let vectors = encoded.vectors()?;
    let size = encoded.vector_bytes();
    let by_type = off_runtime(size, move || by_type(types, &vectors)).await?;
    Ok(EmbedResponse {
        response_type: "embeddings_by_type",
        id: id(),
        texts: request.texts,
        embeddings: Embeddings::ByType(by_type),
        meta: meta(version, json!({ "input_tokens": encoded.usage.tokens })),
    })
}

/// The vectors in each of the element types.
fn by_type(types: Vec<EmbeddingType>, vectors: &[Bytes]) -> BTreeMap<&'static str, Vec<Vector>> {
    let one = |kind: EmbeddingType, vector: &Bytes| match kind {
        EmbeddingType::Base64 => Vector::Base64(BASE64_STANDARD.encode(vector)),
        EmbeddingType::Ubinary => Vector::Bytes(signs(vector).map(i16::from).collect()),
        // As in numpy: the bytes of `ubinary` minus 128.
        EmbeddingType::Binary => Vector::Bytes(signs(vector).map(|byte| i16::from(byte) - 128).collect()),
        EmbeddingType::Float | EmbeddingType::Int8 | EmbeddingType::Uint8 => Vector::Floats(Numbers(vector.clone())),
    };
    let types = types.into_iter().map(|kind| {
        let all: Vec<Vector> = vectors.iter().map(|vector| one(kind, vector)).collect();
        (kind.name(), all)
    });
    types.collect()
}

/// One bit per dimension, set if the value is above 0; eight bits per byte, the first in the
/// highest bit (as `numpy.packbits`).
fn signs(vector: &[u8]) -> impl Iterator<Item = u8> {
    let bits: Vec<bool> = floats(vector).map(|value| value > 0.0).collect();
    let bytes: Vec<u8> = bits
        .chunks(8)
        .map(|eight| {
            let set = eight.iter().enumerate().filter(|(_, bit)| **bit);
            set.fold(0, |byte, (place, _)| byte | (0x80 >> place))
        })
        .collect();
    bytes.into_iter()
}

fields! {
    /// A request to rerank.
    struct Rerank, rest = refused;
    read {
        /// A cross-encoder.
        model: String,
        query: String,
        /// Texts, or objects with `text`.
        #[serde(deserialize_with = "bounded")]
        documents: Vec<Document>,
        top_n: Option<u32>,
        /// Version 1: whether results repeat their documents. Clients of version 2 still send it.
        #[serde(default, deserialize_with = "nulls::or_default")]
        return_documents: bool,
    }
    ignored { priority }
    harmless {
        rank_fields: Vec<String>, |fields| fields.iter().all(|field| field == "text"),
            "names fields other than `text`, and documents are ranked by their text" => "leave it out";
    }
    length { max_tokens_per_doc }
}

async fn rerank_2(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<Rerank>, ApiError>,
) -> ApiResult<Value> {
    let Body(request) = body?;
    check_lengths(&backends, &request.model, call.deadline, request.lengths()).await?;
    let wanted = RerankRequest {
        encoder_id: request.model,
        query: request.query,
        documents: request.documents.into_iter().map(|Document(text)| text).collect(),
        top_n: request.top_n,
        ..RerankRequest::default()
    };
    let shape = AnswerShape::Cohere {
        with_documents: request.return_documents,
    };
    let mut answer = rerank::answered(&backends, &call, wanted, shape).await?;
    let results = answer["results"].take();
    Ok(Json(json!({
        "id": id(),
        "results": results,
        "meta": meta("2", json!({ "search_units": 1 })),
    })))
}

/// The API version of the answer, and its units. Cohere bills a search of up to a hundred documents
/// as one unit; here the number implies no price.
fn meta(version: &str, units: Value) -> Value {
    json!({ "api_version": { "version": version }, "billed_units": units })
}

fn id() -> String {
    uuid::Uuid::new_v4().to_string()
}
