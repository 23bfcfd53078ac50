//! Ollama's API for embeddings: `/api/embed`, `/api/embeddings`, `/api/tags`, `/api/show`,
//! `/api/version`.
//!
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>

use std::time::Instant;

use axum::{
    extract::State,
    routing::{get, post},
};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Encoder, Input, Truncation, input},
};
use isomer_service_kit::Fault;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    fields::{Fields, RequestFields, fields},
    model::check_lengths,
    numbers::Numbers,
    refusal::{Dialect, DialectError},
};
use crate::json::Json;
use crate::openai::{ApiError, Backends, Body, Call, embeddings, inputs::Inputs, nulls};

/// The shape of this API's errors: a string.
#[derive(Debug)]
pub(super) struct Ollama;

impl Dialect for Ollama {
    const FIELDS: &'static [(&'static str, &'static str)] =
        &[("encoder_id", "model"), ("id", "model"), ("inputs", "input")];

    fn body(message: String, _: &Fault) -> Value {
        json!({ "error": message })
    }
}

type ApiResult<T> = Result<Json<T>, DialectError<Ollama>>;

pub(super) fn table() -> Vec<super::Route> {
    vec![
        ("/api/embed", post(embed)),
        ("/api/embeddings", post(embeddings_of_one)),
        ("/api/tags", get(tags)),
        ("/api/show", post(show)),
        ("/api/version", get(version)),
    ]
}

pub(super) fn fields() -> Vec<RequestFields> {
    vec![
        Embed::at("Ollama", &["/api/embed"]),
        EmbedOne::at("Ollama", &["/api/embeddings"]),
        Options::at("Ollama", &["`options`"]),
        Show::at("Ollama", &["/api/show"]),
    ]
}

fields! {
    /// A request for vectors. Like Ollama, ignores unknown fields, e.g. `keep_alive`.
    struct Embed, rest = ignored;
    read {
        model: String,
        /// A text or texts.
        input: Inputs,
        /// Whether a text that is too long is cut; absent: the encoder's default.
        truncate: Option<bool>,
        /// Matryoshka dimensions.
        dimensions: Option<u32>,
        /// Only `num_ctx` can change vectors.
        #[serde(default, deserialize_with = "nulls::or_default")]
        options: Options,
    }
    ignored { keep_alive }
}

fields! {
    /// A request for the vector of one text.
    struct EmbedOne, rest = ignored;
    read {
        model: String,
        prompt: String,
        /// Only `num_ctx` can change vectors.
        #[serde(default, deserialize_with = "nulls::or_default")]
        options: Options,
    }
    ignored { keep_alive }
}

fields! {
    /// Options of a model. All others choose where the model runs, or how it generates text.
    #[derive(Default)]
    struct Options, rest = ignored;
    length { num_ctx }
}

#[derive(Debug, Serialize)]
struct EmbedResponse {
    model: String,
    embeddings: Vec<Numbers>,
    /// Nanoseconds.
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: u64,
}

#[derive(Debug, Serialize)]
struct EmbeddedOne {
    embedding: Numbers,
}

/// The encoder for a name with a tag. `NAME:latest` means `NAME`, unless an encoder has exactly
/// that id.
async fn named(backends: &Backends, model: String) -> String {
    let Some(plain) = model.strip_suffix(":latest") else {
        return model;
    };
    if backends.router.list().await.iter().any(|encoder| encoder.id == model) {
        return model;
    }
    plain.to_owned()
}

/// Checks that a limit on tokens changes nothing.
async fn check_options(
    backends: &Backends,
    model: &str,
    options: &Options,
    call: &Call,
) -> Result<(), DialectError<Ollama>> {
    let checked = check_lengths(backends, model, call.deadline, options.lengths()).await;
    checked.map_err(|fault| match fault.field.as_deref() {
        Some("num_ctx") => fault.field("options.num_ctx").into(),
        _ => fault.into(),
    })
}

async fn embed(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<EmbedResponse> {
    let began = Instant::now();
    let Body(request) = body?;
    let model = named(&backends, request.model.clone()).await;
    let texts = match request.input {
        // An empty list has no element to show its kind, so it is a list of no texts.
        Inputs::Tokens(ids) if ids.is_empty() => Vec::new(),
        Inputs::Text(text) => vec![text],
        Inputs::Texts(texts) => texts,
        Inputs::Tokens(_) | Inputs::ManyTokens(_) => {
            return Err(DialectError::invalid(
                "input",
                "holds numbers; should be a string or a list of strings",
            ));
        }
    };
    // Ollama answers a request without texts with no vectors; clients send one to load a model.
    if texts.is_empty() {
        return Ok(Json(EmbedResponse {
            model: request.model,
            embeddings: Vec::new(),
            total_duration: nanoseconds(began),
            load_duration: 0,
            prompt_eval_count: 0,
        }));
    }
    check_options(&backends, &model, &request.options, &call).await?;
    let truncation = match request.truncate {
        Some(false) => Truncation::Error,
        Some(true) => Truncation::Tail,
        // The encoder's default: not every provider offers a choice of side.
        None => Truncation::Unspecified,
    };
    let wanted = wanted(model, texts, truncation, request.dimensions);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    Ok(Json(EmbedResponse {
        model: request.model,
        embeddings: encoded.vectors()?.into_iter().map(Numbers).collect(),
        total_duration: nanoseconds(began),
        load_duration: 0,
        prompt_eval_count: encoded.usage.tokens,
    }))
}

async fn embeddings_of_one(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<EmbedOne>, ApiError>,
) -> ApiResult<EmbeddedOne> {
    let Body(request) = body?;
    let model = named(&backends, request.model).await;
    check_options(&backends, &model, &request.options, &call).await?;
    let wanted = wanted(model, vec![request.prompt], Truncation::Unspecified, None);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    let one = encoded.vectors()?.into_iter().next();
    let one = one.ok_or_else(|| Fault::internal("the encoder returned no vector for the text"))?;
    Ok(Json(EmbeddedOne {
        embedding: Numbers(one),
    }))
}

fn wanted(model: String, texts: Vec<String>, truncation: Truncation, dimensions: Option<u32>) -> EncodeRequest {
    let input = |text| Input {
        input: Some(input::Input::Text(text)),
    };
    EncodeRequest {
        encoder_id: model,
        inputs: texts.into_iter().map(input).collect(),
        truncation: truncation.into(),
        dimensions,
        output_dtype: Dtype::F32.into(),
        ..EncodeRequest::default()
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The known facts about an encoder. Facts that Ollama reports and this server does not know are
/// empty.
fn details(encoder: &Encoder) -> Value {
    json!({
        "parent_model": "",
        "format": "",
        "family": encoder.architecture,
        "families": [encoder.architecture],
        "parameter_size": "",
        "quantization_level": "",
    })
}

/// The installed encoders, as Ollama lists the models that it has.
async fn tags(State(backends): State<Backends>) -> Json<Value> {
    let encoders = backends.router.list().await;
    let models: Vec<Value> = encoders
        .iter()
        .filter(|encoder| !encoder.not_installed)
        .map(|encoder| {
            json!({
                "name": encoder.id,
                "model": encoder.id,
                "modified_at": "1970-01-01T00:00:00Z",
                "size": 0,
                "digest": encoder.weights_digest,
                "details": details(encoder),
            })
        })
        .collect();
    Json(json!({ "models": models }))
}

fields! {
    /// A request to describe a model.
    struct Show, rest = ignored;
    read {
        model: Option<String>,
        /// The name of `model` in older clients.
        name: Option<String>,
    }
}

async fn show(State(backends): State<Backends>, call: Call, body: Result<Body<Show>, ApiError>) -> ApiResult<Value> {
    let Body(request) = body?;
    let model = request
        .model
        .or(request.name)
        .ok_or_else(|| DialectError::invalid("model", "is missing"))?;
    let encoder = backends
        .router
        .get(&named(&backends, model).await, call.deadline)
        .await?;
    let architecture = match encoder.architecture.as_str() {
        "" => "encoder",
        known => known,
    };
    let mut info = Map::new();
    info.insert("general.architecture".to_owned(), architecture.into());
    info.insert(format!("{architecture}.embedding_length"), encoder.dimensions.into());
    info.insert(format!("{architecture}.context_length"), encoder.max_tokens.into());
    Ok(Json(json!({
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": details(&encoder),
        "model_info": info,
        "modified_at": "1970-01-01T00:00:00Z",
        "capabilities": ["embedding"],
    })))
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}
