//! text-embeddings-inference's API over HTTP, with the calls of the Hugging Face hub's own client:
//! `/embed`, `/embed_all`, `/rerank`, `/predict`, `/similarity`, `/tokenize`, `/decode`, `/info`,
//! `/health`, `POST /`; and over gRPC ([`grpc`]).
//!
//! A text-embeddings-inference server has one model, so its requests name none. Here the address
//! may name the model: `/tei/NAME/embed`, or `/embed?model=NAME`. Otherwise the model is the only
//! encoder (the only cross-encoder for `/rerank` and `/predict`).
//!
//! <https://huggingface.github.io/text-embeddings-inference/>

pub(super) mod grpc;
mod rank;
mod tokens;

use std::fmt;

use axum::{
    extract::{FromRequestParts, Query, RawPathParams, State},
    http::request::Parts,
    routing::{get, post},
};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{Capability, EncodeRequest, Encoder, Output, SparseVector, Truncation, encode_request::Prompt},
};
use isomer_service_kit::{Fault, off_runtime, vectors::floats};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    fields::{Fields, RequestFields, fields},
    model,
    numbers::Numbers,
    refusal::{Dialect, DialectError},
};
use crate::json::Json;
use crate::openai::{
    ApiError, Backends, Body, Call, embeddings,
    inputs::{Inputs, bounded},
    nulls,
};

/// Paths of this API.
pub(super) const OWN: [&str; 12] = [
    "/tei/",
    "/embed",
    "/embed_all",
    "/embed_sparse",
    "/rerank",
    "/predict",
    "/similarity",
    "/tokenize",
    "/decode",
    "/info",
    "/health",
    "/ping",
];

/// The shape of this API's errors: a message and a kind.
#[derive(Debug)]
pub(super) struct Tei;

impl Dialect for Tei {
    const FIELDS: &'static [(&'static str, &'static str)] =
        // The route chooses the output, so an output that an encoder lacks is a wrong choice of
        // model.
        &[
            ("encoder_id", "model"),
            ("id", "model"),
            ("output", "model"),
            ("documents", "texts"),
        ];

    fn body(message: String, fault: &Fault) -> Value {
        let kind = match fault.code {
            Code::ResourceExhausted => "Overloaded",
            Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::Unimplemented => "Validation",
            Code::Unavailable => "Unhealthy",
            _ => "Backend",
        };
        json!({ "error": message, "error_type": kind })
    }
}

type ApiResult<T> = Result<Json<T>, DialectError<Tei>>;

pub(super) fn table() -> Vec<super::Route> {
    vec![
        ("/", post(hub)),
        ("/tei/{model}", post(hub)),
        ("/embed", post(embed)),
        ("/tei/{model}/embed", post(embed)),
        ("/embed_all", post(embed_all)),
        ("/tei/{model}/embed_all", post(embed_all)),
        ("/embed_sparse", post(embed_sparse)),
        ("/tei/{model}/embed_sparse", post(embed_sparse)),
        ("/rerank", post(rank::rerank)),
        ("/tei/{model}/rerank", post(rank::rerank)),
        ("/predict", post(rank::predict)),
        ("/tei/{model}/predict", post(rank::predict)),
        ("/similarity", post(similarity)),
        ("/tei/{model}/similarity", post(similarity)),
        ("/tokenize", post(tokens::tokenize)),
        ("/tei/{model}/tokenize", post(tokens::tokenize)),
        ("/decode", post(tokens::decode)),
        ("/tei/{model}/decode", post(tokens::decode)),
        ("/info", get(info)),
        ("/tei/{model}/info", get(info)),
        ("/health", get(health)),
        ("/tei/{model}/health", get(health)),
        ("/ping", get(health)),
        ("/tei/{model}/ping", get(health)),
    ]
}

pub(super) fn fields() -> Vec<RequestFields> {
    const API: &str = "text-embeddings-inference";
    vec![
        Embed::at(API, &["/embed", "/embed_all", "/embed_sparse"]),
        Hub::at(API, &["/"]),
        Similarity::at(API, &["/similarity"]),
        rank::Rank::at(API, &["/rerank"]),
        rank::Predict::at(API, &["/predict"]),
        tokens::Tokenize::at(API, &["/tokenize"]),
        tokens::Decode::at(API, &["/decode"]),
    ]
}

/// The model in the address, if there is one.
#[derive(Debug, Clone)]
struct PathModel(Option<String>);

#[derive(Debug, Deserialize)]
struct ModelQuery {
    model: Option<String>,
}

impl FromRequestParts<Backends> for PathModel {
    type Rejection = DialectError<Tei>;

    async fn from_request_parts(parts: &mut Parts, state: &Backends) -> Result<Self, Self::Rejection> {
        if let Ok(path) = RawPathParams::from_request_parts(parts, state).await
            && let Some((_, model)) = path.iter().find(|(name, _)| *name == "model")
        {
            return Ok(Self(Some(model.to_owned())));
        }
        let query = Query::<ModelQuery>::from_request_parts(parts, state).await;
        query
            .map(|Query(wanted)| Self(wanted.model))
            .map_err(|rejection| DialectError::invalid("model", rejection.body_text()))
    }
}

impl PathModel {
    async fn or_only(&self, backends: &Backends, capability: Capability) -> Result<String, Fault> {
        match &self.0 {
            Some(path_model) => Ok(path_model.clone()),
            None => model::unnamed(&backends.router, capability).await,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

/// As in text-embeddings-inference, a text that is too long is refused unless `truncate` is set.
fn truncation(truncate: bool, direction: Direction) -> Truncation {
    match (truncate, direction) {
        (false, _) => Truncation::Error,
        (true, Direction::Left) => Truncation::Head,
        (true, Direction::Right) => Truncation::Tail,
    }
}

fields! {
    /// A request for vectors.
    struct Embed, rest = ignored;
    read {
        /// A text, texts, the token ids of a text, or those of several texts.
        inputs: Inputs,
        /// Whether a text that is too long is cut; otherwise it is refused.
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncate: bool,
        /// `Right` (the default) or `Left`.
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncation_direction: Direction,
        /// Whether vectors have unit length; by default they have. Refused by `/embed_all` and
        /// `/embed_sparse`.
        normalize: Option<bool>,
        prompt_name: Option<String>,
        /// Matryoshka dimensions. Refused by `/embed_sparse`.
        dimensions: Option<u32>,
    }
}

impl Embed {
    fn request(self, encoder_id: String, output: Output) -> EncodeRequest {
        EncodeRequest {
            encoder_id,
            inputs: self.inputs.into_inputs(),
            prompt: self.prompt_name.map(Prompt::PromptName),
            truncation: truncation(self.truncate, self.truncation_direction).into(),
            dimensions: self.dimensions,
            // text-embeddings-inference scales vectors to unit length by default; token vectors are
            // never scaled.
            normalise: (output == Output::TextVector).then_some(self.normalize.unwrap_or(true)),
            output_dtype: Dtype::F32.into(),
            output: output.into(),
            ..EncodeRequest::default()
        }
    }
}

async fn embed(
    State(backends): State<Backends>,
    path_model: PathModel,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<Vec<Numbers>> {
    let Body(request) = body?;
    let encoder = path_model.or_only(&backends, Capability::Dense).await?;
    let wanted = request.request(encoder, Output::TextVector);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    Ok(Json(encoded.vectors()?.into_iter().map(Numbers).collect()))
}

/// One vector per token, text by text.
async fn embed_all(
    State(backends): State<Backends>,
    path_model: PathModel,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<Vec<Vec<Numbers>>> {
    let Body(request) = body?;
    if request.normalize.is_some() {
        return Err(DialectError::invalid(
            "normalize",
            "applies to one vector per text; token vectors are never normalised",
        ));
    }
    let encoder = path_model.or_only(&backends, Capability::Dense).await?;
    let wanted = request.request(encoder, Output::TokenVectors);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    let mut rows = encoded.vectors()?.into_iter().map(Numbers);
    let of_text = |count: &u32| rows.by_ref().take(*count as usize).collect();
    Ok(Json(encoded.row_counts.iter().map(of_text).collect()))
}

/// An entry of a sparse vector.
#[derive(Debug, Serialize)]
struct Entry {
    index: u32,
    value: f32,
}

fn entries(vector: SparseVector) -> impl Iterator<Item = Entry> {
    let entry = |(index, value)| Entry { index, value };
    vector.indices.into_iter().zip(vector.values).map(entry)
}

async fn embed_sparse(
    State(backends): State<Backends>,
    path_model: PathModel,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> ApiResult<Vec<Vec<Entry>>> {
    let Body(request) = body?;
    for (field, given) in [
        ("normalize", request.normalize.is_some()),
        ("dimensions", request.dimensions.is_some()),
    ] {
        if given {
            return Err(DialectError::invalid(field, "applies to dense vectors only"));
        }
    }
    let encoder = path_model.or_only(&backends, Capability::Sparse).await?;
    let wanted = request.request(encoder, Output::Sparse);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    encoded.whole()?;
    let vectors = encoded.sparse.into_iter();
    Ok(Json(vectors.map(|vector| entries(vector).collect()).collect()))
}

fields! {
    /// A request to compare a sentence with others.
    struct Similarity, rest = ignored;
    read {
        /// `source_sentence` and `sentences`.
        inputs: SimilarityInputs,
        /// `truncate`, `truncation_direction`, `prompt_name`.
        #[serde(default, deserialize_with = "nulls::or_default")]
        parameters: SimilarityParameters,
    }
}

#[derive(Debug, Default, Deserialize)]
struct SimilarityParameters {
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncate: bool,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncation_direction: Direction,
    prompt_name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct SimilarityInputs {
    source_sentence: String,
    #[serde(deserialize_with = "bounded")]
    sentences: Vec<String>,
}

async fn similarity(
    State(backends): State<Backends>,
    path_model: PathModel,
    call: Call,
    body: Result<Body<Similarity>, ApiError>,
) -> ApiResult<Vec<f32>> {
    let Body(request) = body?;
    cosines(&backends, path_model, &call, request.inputs, request.parameters).await
}

/// Cosines of one sentence with several others.
async fn cosines(
    backends: &Backends,
    path_model: PathModel,
    call: &Call,
    SimilarityInputs {
        source_sentence,
        sentences,
    }: SimilarityInputs,
    parameters: SimilarityParameters,
) -> ApiResult<Vec<f32>> {
    if sentences.is_empty() {
        return Err(DialectError::invalid(
            "inputs.sentences",
            "is empty; give at least one sentence",
        ));
    }
    let encoder = path_model.or_only(backends, Capability::Dense).await?;
    let request = Embed {
        inputs: Inputs::Texts(std::iter::once(source_sentence).chain(sentences).collect()),
        truncate: parameters.truncate,
        truncation_direction: parameters.truncation_direction,
        normalize: Some(true),
        prompt_name: parameters.prompt_name,
        dimensions: None,
    };
    let wanted = request.request(encoder, Output::TextVector);
    let encoded = embeddings::encode(backends, call, wanted).await?;
    let (size, vectors) = (encoded.vector_bytes(), encoded.vectors()?);
    let cosines = off_runtime(size, move || {
        let (source, others) = vectors.split_first()?;
        let dot = |other: &bytes::Bytes| {
            floats(source)
                .zip(floats(other))
                .map(|(a, b)| f64::from(a) * f64::from(b))
                .sum::<f64>()
        };
        Some(others.iter().map(|other| dot(other) as f32).collect())
    });
    let cosines = cosines.await?;
    let cosines = cosines.ok_or_else(|| Fault::internal("the encoder returned no vectors"))?;
    Ok(Json(cosines))
}

fields! {
    /// The hub client's request to the server's root path: texts to embed, or sentences to compare.
    struct Hub, rest = ignored;
    read {
        /// A text, texts, token ids, or an object with `source_sentence` and `sentences`.
        inputs: HubInputs,
        /// The fields below.
        #[serde(default, deserialize_with = "nulls::or_default")]
        parameters: HubParameters,
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncate: bool,
        truncation_direction: Option<Direction>,
        normalize: Option<bool>,
        prompt_name: Option<String>,
        dimensions: Option<u32>,
    }
}

#[derive(Debug, Default, Deserialize)]
struct HubParameters {
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncate: bool,
    truncation_direction: Option<Direction>,
    normalize: Option<bool>,
    prompt_name: Option<String>,
    dimensions: Option<u32>,
}

/// An object holds sentences to compare.
#[derive(Debug)]
enum HubInputs {
    Compare(SimilarityInputs),
    Embed(Inputs),
}

impl<'de> Deserialize<'de> for HubInputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = HubInputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, texts, or an object with `source_sentence` and `sentences`")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HubInputs, A::Error> {
                SimilarityInputs::deserialize(MapAccessDeserializer::new(map)).map(HubInputs::Compare)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<HubInputs, A::Error> {
                Inputs::deserialize(SeqAccessDeserializer::new(list)).map(HubInputs::Embed)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<HubInputs, E> {
                Ok(HubInputs::Embed(Inputs::Text(text.to_owned())))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HubAnswer {
    Vectors(Vec<Numbers>),
    Cosines(Vec<f32>),
}

async fn hub(
    State(backends): State<Backends>,
    path_model: PathModel,
    call: Call,
    body: Result<Body<Hub>, ApiError>,
) -> ApiResult<HubAnswer> {
    let Body(Hub {
        inputs,
        parameters,
        truncate,
        truncation_direction,
        normalize,
        prompt_name,
        dimensions,
    }) = body?;
    let truncate = truncate || parameters.truncate;
    let truncation_direction = parameters
        .truncation_direction
        .or(truncation_direction)
        .unwrap_or_default();
    let normalize = normalize.or(parameters.normalize);
    let prompt_name = prompt_name.or(parameters.prompt_name);
    let dimensions = dimensions.or(parameters.dimensions);
    match inputs {
        HubInputs::Compare(inputs) => {
            let message = "is given with sentences to compare, for which the answer holds cosines and no vectors";
            if normalize.is_some() {
                return Err(DialectError::invalid("normalize", message));
            }
            if dimensions.is_some() {
                return Err(DialectError::invalid("dimensions", message));
            }
            let parameters = SimilarityParameters {
                truncate,
                truncation_direction,
                prompt_name,
            };
            let Json(cosines) = cosines(&backends, path_model, &call, inputs, parameters).await?;
            Ok(Json(HubAnswer::Cosines(cosines)))
        }
        HubInputs::Embed(inputs) => {
            let request = Embed {
                inputs,
                truncate,
                truncation_direction,
                normalize,
                prompt_name,
                dimensions,
            };
            let Json(vectors) = embed(State(backends), path_model, call, Ok(Body(request))).await?;
            Ok(Json(HubAnswer::Vectors(vectors)))
        }
    }
}

/// The encoder that the request describes: the one it names, the only encoder, or the only
/// cross-encoder.
async fn described(backends: &Backends, path_model: PathModel, call: &Call) -> Result<Encoder, Fault> {
    let id = match path_model.0 {
        Some(id) => id,
        None => match model::unnamed(&backends.router, Capability::Dense).await {
            Ok(id) => id,
            Err(fault) => model::unnamed(&backends.router, Capability::Rerank)
                .await
                .map_err(|_| fault)?,
        },
    };
    backends.router.get(&id, call.deadline).await
}

async fn info(State(backends): State<Backends>, path_model: PathModel, call: Call) -> ApiResult<Value> {
    let encoder = described(&backends, path_model, &call).await?;
    Ok(Json(json!({
        "model_id": encoder.id,
        "model_sha": (!encoder.revision.is_empty()).then_some(&encoder.revision),
        "model_dtype": "float32",
        "model_type": kind(&encoder),
        "max_concurrent_requests": 0,
        "max_input_length": encoder.max_tokens,
        "max_batch_tokens": encoder.max_batch_tokens,
        "max_batch_requests": null,
        "max_client_batch_size": encoder.max_batch_items,
        "auto_truncate": false,
        "tokenization_workers": 0,
        "version": env!("CARGO_PKG_VERSION"),
        "sha": null,
        "docker_label": null,
    })))
}

fn kind(encoder: &Encoder) -> Value {
    if encoder.capabilities().any(|own| own == Capability::Rerank) {
        let by_id: serde_json::Map<String, Value> = encoder
            .labels
            .iter()
            .enumerate()
            .map(|(place, label)| (place.to_string(), label.as_str().into()))
            .collect();
        let by_label: serde_json::Map<String, Value> = encoder
            .labels
            .iter()
            .enumerate()
            .map(|(place, label)| (label.clone(), place.into()))
            .collect();
        return json!({ "reranker": { "id2label": by_id, "label2id": by_label } });
    }
    match pooling(encoder) {
        Some(pooling) => json!({ "embedding": { "pooling": pooling } }),
        None => {
            tracing::debug!(
                encoder = encoder.id,
                "/info omits a pooling that text-embeddings-inference does not have"
            );
            json!({ "embedding": {} })
        }
    }
}

/// text-embeddings-inference's name for an encoder's pooling, which its clients validate. `None`
/// if it has none for this pooling.
fn pooling(encoder: &Encoder) -> Option<&'static str> {
    let has = |capability| encoder.capabilities().any(|own| own == capability);
    if has(Capability::Sparse) && !has(Capability::Dense) {
        return Some("splade");
    }
    let steps = encoder.vector_space.as_ref()?.pooling.split('>');
    steps.into_iter().find_map(|step| match step {
        "mean" => Some("mean"),
        "cls" => Some("cls"),
        "lasttoken" => Some("last_token"),
        _ => None,
    })
}

/// Whether this server answers; `/readyz` also checks the services behind it.
async fn health() -> &'static str {
    ""
}

#[cfg(test)]
mod tests {
    use isomer_proto::common::v1::VectorSpace;

    use super::*;

    #[test]
    fn poolings_have_the_names_of_text_embeddings_inference() {
        let of = |pipeline: &str| {
            pooling(&Encoder {
                vector_space: Some(VectorSpace {
                    pooling: pipeline.to_owned(),
                    ..VectorSpace::default()
                }),
                ..Encoder::default()
            })
        };
        for (pipeline, expected) in [
            ("mean>normalize", Some("mean")),
            ("bf16-linear>cls", Some("cls")),
            ("lasttoken>normalize", Some("last_token")),
            ("int8-8x7>mean>dense", Some("mean")),
            ("max", None),
            ("cls+mean>normalize", None),
            ("", None),
        ] {
            assert_eq!(of(pipeline), expected, "{pipeline}");
        }
        let sparse = Encoder {
            capabilities: vec![Capability::Sparse.into()],
            ..Encoder::default()
        };
        assert_eq!(pooling(&sparse), Some("splade"));
        assert_eq!(kind(&Encoder::default()), json!({ "embedding": {} }));
    }
}
