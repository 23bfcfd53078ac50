//! text-embeddings-inference's API over HTTP, and what the hub's own client asks for: `/embed`, `/embed_all`, `/rerank`, `/predict`,
//! `/similarity`, `/info`, `/health`, `POST /`.
//!
//! Such a server has one model, so that no request names one. Here the model is the only encoder there is (the only cross-encoder for
//! `/rerank` and `/predict`), or the one that the address names: `/tei/NAME/embed`, or `/embed?model=NAME`.
//!
//! <https://huggingface.github.io/text-embeddings-inference/>

use axum::{
    extract::{FromRequestParts, Query, RawPathParams, State},
    http::request::Parts,
    routing::{get, post},
};
use isomer_proto::{
    common::v1::Dtype,
    encoder::v1::{Capability, EncodeRequest, Encoder, Output, RerankRequest, Truncation, encode_request::Prompt},
};
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    model,
    numbers::Numbers,
    refusal::{Dialect, Refused},
};
use crate::json::Json;
use crate::openai::{
    ApiError, Backends, Body, Call,
    embeddings::{self, floats},
    inputs::{Inputs, bounded},
    nulls, rerank,
};

/// Paths that are this API's.
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

/// The shape of its errors: a sentence and a kind.
#[derive(Debug)]
pub(super) struct Tei;

impl Dialect for Tei {
    const FIELDS: &'static [(&'static str, &'static str)] =
        &[("encoder_id", "model"), ("id", "model"), ("documents", "texts")];

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

type Answer<T> = Result<Json<T>, Refused<Tei>>;

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
        ("/rerank", post(rank)),
        ("/tei/{model}/rerank", post(rank)),
        ("/predict", post(predict)),
        ("/tei/{model}/predict", post(predict)),
        ("/similarity", post(similarity)),
        ("/tei/{model}/similarity", post(similarity)),
        ("/tokenize", post(tokenize)),
        ("/tei/{model}/tokenize", post(tokenize)),
        ("/decode", post(tokenize)),
        ("/tei/{model}/decode", post(tokenize)),
        ("/info", get(info)),
        ("/tei/{model}/info", get(info)),
        ("/health", get(health)),
        ("/tei/{model}/health", get(health)),
        ("/ping", get(health)),
        ("/tei/{model}/ping", get(health)),
    ]
}

/// The model that the address names; none where it names none.
#[derive(Debug)]
struct Named(Option<String>);

#[derive(Debug, Deserialize)]
struct Wanted {
    model: Option<String>,
}

impl FromRequestParts<Backends> for Named {
    type Rejection = Refused<Tei>;

    async fn from_request_parts(parts: &mut Parts, state: &Backends) -> Result<Self, Self::Rejection> {
        if let Ok(path) = RawPathParams::from_request_parts(parts, state).await
            && let Some((_, model)) = path.iter().find(|(name, _)| *name == "model")
        {
            return Ok(Self(Some(model.to_owned())));
        }
        let query = Query::<Wanted>::from_request_parts(parts, state).await;
        query
            .map(|Query(wanted)| Self(wanted.model))
            .map_err(|rejection| Refused::invalid("model", rejection.body_text()))
    }
}

impl Named {
    async fn or_only(self, backends: &Backends, capability: Capability) -> Result<String, Fault> {
        match self.0 {
            Some(named) => Ok(named),
            None => model::only(&backends.router, capability).await,
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

/// As that server: a text that is too long is refused unless it may be cut.
fn truncation(truncate: bool, direction: Direction) -> Truncation {
    match (truncate, direction) {
        (false, _) => Truncation::Error,
        (true, Direction::Left) => Truncation::Head,
        (true, Direction::Right) => Truncation::Tail,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Embed {
    inputs: Inputs,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncate: bool,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncation_direction: Direction,
    normalize: Option<bool>,
    prompt_name: Option<String>,
    dimensions: Option<u32>,
}

impl Embed {
    fn request(self, encoder_id: String, output: Output) -> EncodeRequest {
        EncodeRequest {
            encoder_id,
            inputs: self.inputs.into_inputs(),
            prompt: self.prompt_name.map(Prompt::PromptName),
            truncation: truncation(self.truncate, self.truncation_direction).into(),
            dimensions: self.dimensions,
            // That server scales to unit length unless it is told not to; token vectors never.
            normalise: (output == Output::TextVector).then_some(self.normalize.unwrap_or(true)),
            output_dtype: Dtype::F32.into(),
            output: output.into(),
            ..EncodeRequest::default()
        }
    }
}

async fn embed(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> Answer<Vec<Numbers>> {
    let Body(request) = body?;
    let encoder = named.or_only(&backends, Capability::Dense).await?;
    let wanted = request.request(encoder, Output::TextVector);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    Ok(Json(encoded.vectors()?.into_iter().map(Numbers).collect()))
}

/// One vector a token, text by text.
async fn embed_all(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Embed>, ApiError>,
) -> Answer<Vec<Vec<Numbers>>> {
    let Body(request) = body?;
    if request.normalize.is_some() {
        return Err(Refused::invalid(
            "normalize",
            "is for one vector a text; vectors of tokens are as the model gives them",
        ));
    }
    let encoder = named.or_only(&backends, Capability::Dense).await?;
    let wanted = request.request(encoder, Output::TokenVectors);
    let encoded = embeddings::encode(&backends, &call, wanted).await?;
    let mut rows = encoded.vectors()?.into_iter().map(Numbers);
    let of_text = |count: &u32| rows.by_ref().take(*count as usize).collect();
    Ok(Json(encoded.row_counts.iter().map(of_text).collect()))
}

async fn embed_sparse() -> Refused<Tei> {
    Fault::unimplemented("no encoder here gives sparse vectors (SPLADE)")
        .mend("ask /embed for dense vectors")
        .into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rank {
    query: String,
    #[serde(deserialize_with = "bounded")]
    texts: Vec<String>,
    #[serde(default, deserialize_with = "nulls::or_default")]
    raw_scores: bool,
    #[serde(default, deserialize_with = "nulls::or_default")]
    return_text: bool,
    /// Pairs that are too long are cut, the longer side first.
    #[serde(default, rename = "truncate")]
    _truncate: Option<bool>,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncation_direction: Direction,
}

#[derive(Debug, Serialize)]
struct Ranked {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    score: f32,
}

fn refuse_raw(raw: bool) -> Result<(), Refused<Tei>> {
    if !raw {
        return Ok(());
    }
    Err(Fault::invalid(
        "raw_scores",
        "is true, and scores here have gone through the model's own function",
    )
    .mend("leave it out")
    .into())
}

fn refuse_left(direction: Direction) -> Result<(), Refused<Tei>> {
    if direction == Direction::Right {
        return Ok(());
    }
    Err(Refused::invalid(
        "truncation_direction",
        "is Left, and pairs are cut on the right only",
    ))
}

async fn rank(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Rank>, ApiError>,
) -> Answer<Vec<Ranked>> {
    let Body(request) = body?;
    refuse_raw(request.raw_scores)?;
    refuse_left(request.truncation_direction)?;
    let kept = request.return_text.then(|| request.texts.clone());
    let wanted = RerankRequest {
        encoder_id: named.or_only(&backends, Capability::Rerank).await?,
        query: request.query,
        documents: request.texts,
        ..RerankRequest::default()
    };
    let answer = rerank::rank(&backends, &call, wanted).await?;
    let text = |index: u32| kept.as_ref().and_then(|kept| kept.get(index as usize).cloned());
    let ranked = answer.results.iter().map(|result| Ranked {
        index: result.index,
        text: text(result.index),
        score: result.score,
    });
    Ok(Json(ranked.collect()))
}

/// What is classified: a pair of texts, or several pairs. One text alone is for models that read one, and none here does.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "inputs should be a pair of texts, or a list of pairs")]
enum Classified {
    #[expect(dead_code, reason = "whatever the text, it is refused")]
    One(String),
    Pair(Vec<String>),
    Pairs(Vec<Vec<String>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predict {
    inputs: Classified,
    #[serde(default, deserialize_with = "nulls::or_default")]
    raw_scores: bool,
    #[serde(default, rename = "truncate")]
    _truncate: Option<bool>,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncation_direction: Direction,
}

#[derive(Debug, Clone, Serialize)]
struct Labelled {
    score: f32,
    label: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Predicted {
    One(Vec<Labelled>),
    Many(Vec<Vec<Labelled>>),
}

async fn predict(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Predict>, ApiError>,
) -> Answer<Predicted> {
    let Body(request) = body?;
    refuse_raw(request.raw_scores)?;
    refuse_left(request.truncation_direction)?;
    let several = matches!(request.inputs, Classified::Pairs(_));
    let pairs = match request.inputs {
        Classified::One(_) => Vec::new(),
        Classified::Pair(pair) => vec![pair],
        Classified::Pairs(pairs) => pairs,
    };
    let pairs: Option<Vec<[String; 2]>> = pairs.into_iter().map(|pair| pair.try_into().ok()).collect();
    let pairs = pairs.filter(|pairs| !pairs.is_empty()).ok_or_else(|| {
        Refused::invalid(
            "inputs",
            "should be a pair of texts, or a list of pairs: the models here that classify read pairs",
        )
    })?;
    let encoder = backends
        .router
        .get(&named.or_only(&backends, Capability::Rerank).await?, call.deadline)
        .await?;
    let label = encoder.labels.first().cloned().unwrap_or_default();
    let mut all = Vec::with_capacity(pairs.len());
    for [query, document] in pairs {
        let wanted = RerankRequest {
            encoder_id: encoder.id.clone(),
            query,
            documents: vec![document],
            top_n: None,
            label: if encoder.labels.len() > 1 {
                label.clone()
            } else {
                String::new()
            },
        };
        let answer = rerank::rank(&backends, &call, wanted).await?;
        let result = answer.results.first();
        let result = result.ok_or_else(|| Fault::internal("the encoder gave no score for the pair"))?;
        let mut labelled: Vec<Labelled> = if result.label_scores.is_empty() {
            vec![Labelled {
                score: result.score,
                label: if label.is_empty() {
                    "LABEL_0".to_owned()
                } else {
                    label.clone()
                },
            }]
        } else {
            let scores = softmax(&result.label_scores);
            let named = scores.into_iter().zip(&answer.labels);
            named
                .map(|(score, label)| Labelled {
                    score,
                    label: label.clone(),
                })
                .collect()
        };
        labelled.sort_by(|a, b| b.score.total_cmp(&a.score));
        all.push(labelled);
    }
    Ok(Json(if several {
        Predicted::Many(all)
    } else {
        Predicted::One(all.into_iter().next().unwrap_or_default())
    }))
}

/// Scores as shares of 1.
fn softmax(scores: &[f32]) -> Vec<f32> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Similarity {
    inputs: Compared,
    #[serde(default, deserialize_with = "nulls::or_default")]
    parameters: SimilarityParameters,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimilarityParameters {
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncate: bool,
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncation_direction: Direction,
    prompt_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compared {
    source_sentence: String,
    #[serde(deserialize_with = "bounded")]
    sentences: Vec<String>,
}

async fn similarity(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Similarity>, ApiError>,
) -> Answer<Vec<f32>> {
    let Body(request) = body?;
    cosines(&backends, named, &call, request.inputs, request.parameters).await
}

/// Cosines of a sentence with others.
async fn cosines(
    backends: &Backends,
    named: Named,
    call: &Call,
    Compared {
        source_sentence,
        sentences,
    }: Compared,
    parameters: SimilarityParameters,
) -> Answer<Vec<f32>> {
    if sentences.is_empty() {
        return Err(Refused::invalid(
            "inputs.sentences",
            "is empty; give at least one sentence",
        ));
    }
    let encoder = named.or_only(backends, Capability::Dense).await?;
    let request = Embed {
        inputs: Inputs::Texts(std::iter::once(source_sentence).chain(sentences).collect()),
        truncate: parameters.truncate,
        truncation_direction: parameters.truncation_direction,
        normalize: Some(true),
        prompt_name: parameters.prompt_name,
        dimensions: None,
    };
    let wanted = request.request(encoder, Output::TextVector);
    let vectors = embeddings::encode(backends, call, wanted).await?.vectors()?;
    let Some((source, others)) = vectors.split_first() else {
        return Err(Fault::internal("the encoder gave no vectors").into());
    };
    let dot = |other: &bytes::Bytes| {
        floats(source)
            .zip(floats(other))
            .map(|(a, b)| f64::from(a) * f64::from(b))
            .sum::<f64>()
    };
    Ok(Json(others.iter().map(|other| dot(other) as f32).collect()))
}

/// What the hub's client sends to a server's address itself: texts to embed, or sentences to compare.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "the body should have `inputs`: texts, or `source_sentence` with `sentences`"
)]
enum Hub {
    Compare(Similarity),
    Embed {
        inputs: Inputs,
        #[serde(default, deserialize_with = "nulls::or_default")]
        parameters: HubParameters,
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncate: bool,
        #[serde(default, deserialize_with = "nulls::or_default")]
        truncation_direction: Direction,
        normalize: Option<bool>,
        prompt_name: Option<String>,
        dimensions: Option<u32>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HubParameters {
    #[serde(default, deserialize_with = "nulls::or_default")]
    truncate: bool,
    truncation_direction: Option<Direction>,
    normalize: Option<bool>,
    prompt_name: Option<String>,
    dimensions: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HubAnswer {
    Vectors(Vec<Numbers>),
    Cosines(Vec<f32>),
}

async fn hub(
    State(backends): State<Backends>,
    named: Named,
    call: Call,
    body: Result<Body<Hub>, ApiError>,
) -> Answer<HubAnswer> {
    let Body(request) = body?;
    match request {
        Hub::Compare(Similarity { inputs, parameters }) => {
            let Json(cosines) = cosines(&backends, named, &call, inputs, parameters).await?;
            Ok(Json(HubAnswer::Cosines(cosines)))
        }
        Hub::Embed {
            inputs,
            parameters,
            truncate,
            truncation_direction,
            normalize,
            prompt_name,
            dimensions,
        } => {
            let request = Embed {
                inputs,
                truncate: truncate || parameters.truncate,
                truncation_direction: parameters.truncation_direction.unwrap_or(truncation_direction),
                normalize: normalize.or(parameters.normalize),
                prompt_name: prompt_name.or(parameters.prompt_name),
                dimensions: dimensions.or(parameters.dimensions),
            };
            let Json(vectors) = embed(State(backends), named, call, Ok(Body(request))).await?;
            Ok(Json(HubAnswer::Vectors(vectors)))
        }
    }
}

/// Token ids with their places are not told by any encoder's interface; how many there are is, over gRPC.
async fn tokenize() -> Refused<Tei> {
    Fault::unimplemented("tokens are counted here, not listed")
        .mend("ask EncoderService.CountTokens for their number")
        .into()
}

async fn info(State(backends): State<Backends>, named: Named, call: Call) -> Answer<Value> {
    let id = match named.0 {
        Some(id) => id,
        None => match model::only(&backends.router, Capability::Dense).await {
            Ok(id) => id,
            Err(fault) => model::only(&backends.router, Capability::Rerank)
                .await
                .map_err(|_| fault)?,
        },
    };
    let encoder = backends.router.get(&id, call.deadline).await?;
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
    let pooling = encoder.vector_space.as_ref().map_or("", |space| space.pooling.as_str());
    json!({ "embedding": { "pooling": pooling } })
}

/// Whether the server answers; `/readyz` asks the services behind it too.
async fn health() -> &'static str {
    ""
}
