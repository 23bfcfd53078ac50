//! Ollama's API for embeddings: `/api/embed`, `/api/embeddings`, `/api/tags`, `/api/show`,
//! `/api/version`.
//!
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>

use std::{borrow::Cow, fmt, time::Instant};

use axum::{
    extract::State,
    routing::{get, post},
};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Encoder, Input, Truncation, input},
};
use isomer_service_kit::Fault;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json};

use super::{
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

/// Maximum number of bytes of an option's name that an error repeats.
const LONGEST_NAME: usize = 100;

/// Options of a model that do not change vectors: where the model runs, and how it generates text.
const WITHOUT_EFFECT: [&str; 25] = [
    "f16_kv",
    "frequency_penalty",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
];

pub(super) fn table() -> Vec<super::Route> {
    vec![
        ("/api/embed", post(embed)),
        ("/api/embeddings", post(embeddings_of_one)),
        ("/api/tags", get(tags)),
        ("/api/show", post(show)),
        ("/api/version", get(version)),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Embed {
    model: String,
    input: Inputs,
    truncate: Option<bool>,
    dimensions: Option<u32>,
    #[serde(default, deserialize_with = "nulls::or_default")]
    options: Options,
    /// How long Ollama keeps the model in memory. Ignored: requests cannot decide that here.
    #[serde(default, rename = "keep_alive")]
    _keep_alive: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbedOne {
    model: String,
    prompt: String,
    #[serde(default, deserialize_with = "nulls::or_default")]
    options: Options,
    #[serde(default, rename = "keep_alive")]
    _keep_alive: Option<IgnoredAny>,
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

/// The first option that might change vectors. Values are not kept: it only matters whether an
/// option is set.
#[derive(Debug, Default)]
struct Options(Option<String>);

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OptionsVisitor)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = Options;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut options: A) -> Result<Options, A::Error> {
        let mut unsupported = None;
        while let Some(name) = options.next_key::<Cow<'de, str>>()? {
            let value = options.next_value::<Option<IgnoredAny>>()?;
            if value.is_some() && !WITHOUT_EFFECT.contains(&&*name) {
                unsupported.get_or_insert_with(|| name[..name.floor_char_boundary(LONGEST_NAME)].to_owned());
            }
        }
        Ok(Options(unsupported))
    }
}

fn check_options(Options(unsupported): &Options) -> Result<(), DialectError<Ollama>> {
    match unsupported {
        None => Ok(()),
        Some(name) => Err(Fault::invalid(
            format!("options.{name}"),
            "is not supported and might change the vectors",
        )
        .hint("leave it out; a text is cut at the encoder's own length")
        .into()),
    }
}

async fn embed(
    State(backends): State<Backends>,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<EmbedResponse> {
    let began = Instant::now();
    let Body(request) = body?;
    check_options(&request.options)?;
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
    let truncation = match request.truncate {
        Some(false) => Truncation::Error,
        Some(true) => Truncation::Tail,
        // The encoder's default: not every provider offers a choice of side.
        None => Truncation::Unspecified,
    };
    let wanted = wanted(&backends, request.model.clone(), texts, truncation, request.dimensions).await;
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
    check_options(&request.options)?;
    let wanted = wanted(
        &backends,
        request.model,
        vec![request.prompt],
        Truncation::Unspecified,
        None,
    )
    .await;
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    let one = encoded.vectors()?.into_iter().next();
    let one = one.ok_or_else(|| Fault::internal("the encoder returned no vector for the text"))?;
    Ok(Json(EmbeddedOne {
        embedding: Numbers(one),
    }))
}

async fn wanted(
    backends: &Backends,
    model: String,
    texts: Vec<String>,
    truncation: Truncation,
    dimensions: Option<u32>,
) -> EncodeRequest {
    let input = |text| Input {
        input: Some(input::Input::Text(text)),
    };
    EncodeRequest {
        encoder_id: named(backends, model).await,
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

#[derive(Debug, Deserialize)]
struct Show {
    model: Option<String>,
    /// The name of this field in older clients.
    name: Option<String>,
}

async fn show(State(backends): State<Backends>, call: Call, body: Result<Body<Show>, ApiError>) -> ApiResult<Value> {
    let Body(Show { model, name }) = body?;
    let model = model
        .or(name)
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
