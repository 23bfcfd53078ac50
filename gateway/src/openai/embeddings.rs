//! `POST /v1/embeddings`.

use std::fmt;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, header};
use isomer_proto::{
    ProtoEnum,
    common::v1::Dtype,
    encoder::v1::{EncodeRequest, Input, Output, TokenIds, Truncation, encode_request::Prompt, input},
};
use isomer_service_kit::{Fault, off_runtime};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, Unexpected, Visitor},
};

use super::{
    Backends, Body, Call,
    augment::Augment,
    augmented_models::AugmentedModel,
    encoded_inputs::EncodedInputs,
    error::ApiError,
    inputs::{Inputs, bounded_or_none},
    list::{self, EncodingFormat},
    nulls,
};
use crate::{
    billing,
    dialects::{Purpose, prompt},
    tenant,
};

/// Header of the answer with the digest of the vectors' space. Vectors of different spaces may not
/// be compared.
const VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-vector-space");
/// The spaces of sparse and of token vectors in an answer with several outputs.
const SPARSE_VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-sparse-vector-space");
const TOKEN_VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-token-vector-space");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The request. `user` is accepted and not used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Absent at Azure's addresses, which contain the model's name.
    #[serde(default, deserialize_with = "nulls::or_default")]
    pub(super) model: String,
    pub(super) input: Inputs,
    #[serde(default, deserialize_with = "nulls::or_default")]
    encoding_format: EncodingFormat,
    pub(super) dimensions: Option<u32>,
    #[serde(default, rename = "user")]
    _user: Option<String>,
    /// The name of one of the encoder's prompts.
    pub(super) prompt_name: Option<String>,
    /// Handling of a text that is too long; absent: its end is cut.
    pub(super) truncation: Option<TruncationName>,
    pub(super) augment: Option<Augment>,
    /// Names of the results for each text; absent: one dense vector.
    #[serde(default, deserialize_with = "bounded_or_none")]
    outputs: Option<Vec<String>>,
    /// Maximum number of entries of each sparse vector.
    max_active_dimensions: Option<u32>,
    /// Voyage: the purpose of the texts. Selects the encoder's own prompt for that purpose.
    input_type: Option<InputType>,
    /// Voyage's name for `dimensions`.
    output_dimension: Option<u32>,
    /// Voyage: type of the elements.
    output_dtype: Option<String>,
    /// Jina's name for `encoding_format`.
    embedding_type: Option<EncodingFormat>,
    /// Jina: whether vectors have unit length.
    normalized: Option<bool>,
    /// Jina: an adapter of the model.
    task: Option<IgnoredAny>,
    /// Jina: one vector for each part of a text that is encoded as a whole.
    late_chunking: Option<bool>,
}

/// The purpose of texts, in Voyage's terms.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputType {
    Query,
    Document,
}

impl Inputs {
    pub(crate) fn into_inputs(self) -> Vec<Input> {
        let text = |text| input::Input::Text(text);
        let tokens = |ids| input::Input::TokenIds(TokenIds { ids });
        let all: Vec<input::Input> = match self {
            Self::Text(one) => vec![text(one)],
            Self::Texts(many) => many.into_iter().map(text).collect(),
            Self::Tokens(ids) => vec![tokens(ids)],
            Self::ManyTokens(many) => many.into_iter().map(tokens).collect(),
        };
        all.into_iter().map(|input| Input { input: Some(input) }).collect()
    }
}

/// Handling of a text that is too long: our names, or Voyage's booleans.
#[derive(Debug, Clone, Copy)]
pub(super) struct TruncationName(Truncation);

impl<'de> Deserialize<'de> for TruncationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TruncationVisitor)
    }
}

struct TruncationVisitor;

impl Visitor<'_> for TruncationVisitor {
    type Value = TruncationName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a truncation: \"error\", \"head\", \"tail\", true or false")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<TruncationName, E> {
        let named = Truncation::named(name).ok_or_else(|| E::invalid_value(Unexpected::Str("another name"), &self))?;
        Ok(TruncationName(named))
    }

    fn visit_bool<E: de::Error>(self, cut: bool) -> Result<TruncationName, E> {
        Ok(TruncationName(if cut { Truncation::Tail } else { Truncation::Error }))
    }
}

impl Request {
    /// Refuses unsupported fields that would change the vectors, and maps other servers' field
    /// names to ours.
    fn settle(&mut self) -> Result<(), ApiError> {
        if self.model.is_empty() {
            return Err(ApiError::invalid("model", "is missing").hint("name an encoder; GET /v1/models lists them"));
        }
        if self.task.is_some() {
            return Err(ApiError::invalid(
                "task",
                "chooses one of Jina's adapters, but encoders here have no adapters",
            )
            .hint("name one of the encoder's prompts with `prompt_name`, or leave it out"));
        }
        if self.late_chunking == Some(true) {
            return Err(
                ApiError::invalid("late_chunking", "is not offered: each text has one vector of its own")
                    .hint("leave it out; over gRPC, OUTPUT_TOKEN_VECTORS gives a vector for each token"),
            );
        }
        if let Some(other) = self.output_dtype.as_deref().filter(|dtype| *dtype != "float") {
            return Err(
                ApiError::invalid("output_dtype", format!("is `{other}`, and vectors here are `float`"))
                    .hint("leave it out; over gRPC, output_dtype gives int8 and ubinary"),
            );
        }
        if let Some(wanted) = self.output_dimension {
            if self.dimensions.is_some_and(|own| own != wanted) {
                return Err(ApiError::invalid(
                    "output_dimension",
                    "differs from `dimensions`; give one of the two",
                ));
            }
            self.dimensions = Some(wanted);
        }
        if let Some(format) = self.embedding_type {
            self.encoding_format = format;
        }
        if self.input_type.is_some() && self.prompt_name.is_some() {
            return Err(ApiError::invalid(
                "input_type",
                "is given together with `prompt_name`; give one of the two",
            ));
        }
        Ok(())
    }
}

pub(super) async fn create(
    State(backends): State<Backends>,
    call: Call,
    Body(mut request): Body<Request>,
) -> Result<Response, ApiError> {
    request.settle()?;
    let (model, format) = (request.model.clone(), request.encoding_format);
    let augment = request.augment.take();
    if augment.is_some() && backends.augmented.contains_key(&model) {
        return Err(ApiError::invalid(
            "augment",
            format!("`{model}` is augmented by the configuration of this server"),
        )
        .hint(format!(
            "leave it out, or name the encoder: {}",
            backends.encoder_of(&model)
        )));
    }
    let outputs = outputs(request.outputs.take())?;
    let wanted = EncodeRequest {
        outputs,
        ..wanted(&backends, &call, request).await?
    };
    let encoded = match augment {
        Some(augment) => {
            let own = AugmentedModel::of_request(model.clone(), augment);
            own.encode(&backends, &call, wanted).await?
        }
        None => encode(&backends, &call, wanted).await?,
    };
    let size = encoded.json_size();
    off_runtime(size, move || answer(model, format, encoded)).await?
}

/// The equivalent gRPC request.
async fn wanted(backends: &Backends, call: &Call, request: Request) -> Result<EncodeRequest, Fault> {
    let purpose = request.input_type.map(|kind| match kind {
        InputType::Query => Purpose::Query,
        InputType::Document => Purpose::Document,
    });
    let prompt = match request.prompt_name {
        Some(name) => Some(Prompt::PromptName(name)),
        None => prompt(backends, &request.model, purpose, call.deadline).await?,
    };
    Ok(EncodeRequest {
        encoder_id: request.model,
        inputs: request.input.into_inputs(),
        prompt,
        truncation: request
            .truncation
            .map_or(Truncation::Unspecified, |TruncationName(named)| named)
            .into(),
        dimensions: request.dimensions,
        normalise: request.normalized,
        output_dtype: Dtype::F32.into(),
        max_active_dimensions: request.max_active_dimensions,
        ..EncodeRequest::default()
    })
}

fn outputs(names: Option<Vec<String>>) -> Result<Vec<i32>, ApiError> {
    let known = || Output::all().map(Output::name).collect::<Vec<_>>().join(", ");
    let Some(names) = names else { return Ok(Vec::new()) };
    if names.is_empty() {
        return Err(ApiError::invalid("outputs", "is empty").hint(format!("name some of {}, or leave it out", known())));
    }
    let named = |(index, name): (usize, &String)| match Output::named(name) {
        Some(output) => Ok(output.into()),
        None => Err(
            ApiError::invalid(format!("outputs[{index}]"), "is not the name of a result")
                .hint(format!("give one of {}", known())),
        ),
    };
    let numbers = names.iter().enumerate().map(named).collect::<Result<Vec<i32>, _>>()?;
    isomer_service_kit::outputs(0, &numbers)?;
    Ok(numbers)
}

/// Encodes texts and charges the caller. Applies augmentation if the model's name stands for it.
///
/// # Errors
/// Those of [`crate::routing::Router::encode`].
pub(crate) async fn encode(backends: &Backends, call: &Call, request: EncodeRequest) -> Result<EncodedInputs, Fault> {
    if let Some(own) = backends.augmented.get(&request.encoder_id) {
        let encoded = own.clone().encode(backends, call, request).await;
        return encoded.map_err(ApiError::into_fault);
    }
    let caller = call.caller.as_ref();
    let whose = (caller, &tenant::of_caller(caller));
    let answer = billing::encode(&backends.router, whose, request, call.deadline).await?;
    let answer = answer.response;
    let mut usage = answer.usage.unwrap_or_default();
    if usage.cached_texts > 0 {
        // Cached texts use no model and are not charged; OpenAI's `prompt_tokens` counts the tokens
        // that were sent.
        usage.tokens = answer.token_counts.iter().map(|count| u64::from(*count)).sum();
    }
    EncodedInputs {
        matrix: answer.embeddings,
        sparse: answer.sparse_embeddings,
        token_matrix: answer.token_embeddings,
        space: answer.vector_space,
        sparse_space: answer.sparse_vector_space,
        token_space: answer.token_vector_space,
        usage,
        errors: answer.errors,
        row_counts: answer.row_counts,
        timing: answer.timing,
        augment: None,
    }
    .reserved()
}

fn answer(model: String, format: EncodingFormat, encoded: EncodedInputs) -> Result<Response, ApiError> {
    let body = list::written(&model, format, &encoded)?;
    let mut response = ([(header::CONTENT_TYPE, JSON)], body).into_response();
    for (name, space) in [
        (VECTOR_SPACE, &encoded.space),
        (SPARSE_VECTOR_SPACE, &encoded.sparse_space),
        (TOKEN_VECTOR_SPACE, &encoded.token_space),
    ] {
        let digest = space.as_ref().map(|space| HeaderValue::from_str(&space.digest));
        if let Some(Ok(digest)) = digest {
            response.headers_mut().insert(name, digest);
        }
    }
    Ok(response)
}
