//! `POST /v1/embeddings`.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderName, HeaderValue, header};
use isomer_proto::{
    common::v1::{Dtype, ItemError, Matrix, Usage, VectorSpace},
    encoder::v1::{EncodeRequest, Input, TokenIds, Truncation, encode_request::Prompt, input},
};
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tonic::Code;

use super::{
    Backends, Body, Call,
    augment::{self, Augment},
    decimals,
    error::ApiError,
    inputs::Inputs,
};

/// Header of the answer with the digest of the vectors' space: vectors of two spaces may not be compared.
const VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-vector-space");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What is asked for. `user` is taken and not used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) input: Inputs,
    #[serde(default)]
    encoding_format: EncodingFormat,
    pub(super) dimensions: Option<u32>,
    #[serde(default, rename = "user")]
    _user: Option<String>,
    /// One of the encoder's prompts by name.
    pub(super) prompt_name: Option<String>,
    /// What to do with a text that is too long; absent: drop its end.
    pub(super) truncation: Option<TruncationName>,
    pub(super) augment: Option<Augment>,
}

impl Inputs {
    fn into_inputs(self) -> Vec<Input> {
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

    /// The texts, where they are texts.
    pub(super) fn into_texts(self) -> Result<Vec<String>, ApiError> {
        match self {
            Self::Text(text) => Ok(vec![text]),
            Self::Texts(texts) => Ok(texts),
            Self::Tokens(_) | Self::ManyTokens(_) => Err(ApiError::invalid(
                "input",
                "token ids cannot be augmented: a generator reads texts",
            )
            .mend("send texts, or leave `augment` out")),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    #[default]
    Float,
    Base64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TruncationName {
    Error,
    Head,
    Tail,
}

/// Vectors with what they cost.
pub(super) struct Encoded {
    pub(super) matrix: Matrix,
    pub(super) space: VectorSpace,
    pub(super) usage: Usage,
    pub(super) errors: Vec<ItemError>,
    /// What augmentation has to say.
    pub(super) augment: Option<Value>,
}

pub(super) async fn create(
    State(backends): State<Backends>,
    call: Call,
    Body(mut request): Body<Request>,
) -> Result<Response, ApiError> {
    let (model, format) = (request.model.clone(), request.encoding_format);
    let encoded = match request.augment.take() {
        Some(wanted) => augment::encode(&backends, &call, request, wanted).await?,
        None => encode(&backends, &call, request).await?,
    };
    answer(model, format, encoded)
}

async fn encode(backends: &Backends, call: &Call, request: Request) -> Result<Encoded, ApiError> {
    let truncation = match request.truncation {
        None => Truncation::Unspecified,
        Some(TruncationName::Error) => Truncation::Error,
        Some(TruncationName::Head) => Truncation::Head,
        Some(TruncationName::Tail) => Truncation::Tail,
    };
    let request = EncodeRequest {
        encoder_id: request.model,
        inputs: request.input.into_inputs(),
        prompt: request.prompt_name.map(Prompt::PromptName),
        truncation: truncation.into(),
        dimensions: request.dimensions,
        output_dtype: Dtype::F32.into(),
        ..EncodeRequest::default()
    };
    let answer = backends.router.encode(request, call.deadline).await?;
    let (answer, cost) = (answer.response, answer.cost_usd);
    let mut usage = answer.usage.unwrap_or_default();
    call.charge(usage.tokens, cost);
    if usage.cached_texts > 0 {
        // No model ran for these, and nothing is charged; OpenAI's number is that of what was sent.
        usage.tokens = answer.token_counts.iter().map(|count| u64::from(*count)).sum();
    }
    Ok(Encoded {
        matrix: answer.embeddings.unwrap_or_default(),
        space: answer.vector_space.unwrap_or_default(),
        usage,
        errors: answer.errors,
        augment: None,
    })
}

fn answer(model: String, format: EncodingFormat, encoded: Encoded) -> Result<Response, ApiError> {
    // OpenAI's answer has no place for a text that failed: the request fails with the first of them.
    if let Some(first) = encoded.errors.first() {
        let fault = Fault::new(Code::from_i32(first.code), "ITEM_FAILED", first.message.clone());
        return Err(ApiError::from(fault).at(&format!("input[{}]", first.index)));
    }
    let Matrix {
        rows,
        cols,
        dtype,
        data,
    } = encoded.matrix;
    let (rows, row) = (rows as usize, cols as usize * size_of::<f32>());
    if dtype != i32::from(Dtype::F32) || data.len() != rows * row {
        return Err(ApiError::from(Fault::internal(
            "the encoder's answer is no matrix of 32-bit floats",
        )));
    }
    let usage = Tokens {
        prompt_tokens: encoded.usage.tokens,
        total_tokens: encoded.usage.tokens + encoded.usage.generated_tokens,
    };
    let vectors = (0..rows).map(|index| &data[index * row..(index + 1) * row]);
    let body = body(&model, format, vectors, &usage, encoded.augment.as_ref())
        .map_err(|error| ApiError::from(Fault::internal(format!("the answer cannot be written: {error}"))))?;
    let mut response = ([(header::CONTENT_TYPE, JSON)], body).into_response();
    if let Ok(digest) = HeaderValue::from_str(&encoded.space.digest) {
        response.headers_mut().insert(VECTOR_SPACE, digest);
    }
    Ok(response)
}

#[derive(Serialize)]
struct Tokens {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// OpenAI's list, written by hand: nearly all of it is numbers, which [`decimals`] writes.
fn body<'a>(
    model: &str,
    format: EncodingFormat,
    vectors: impl Iterator<Item = &'a [u8]>,
    usage: &Tokens,
    augment: Option<&Value>,
) -> serde_json::Result<Vec<u8>> {
    let mut out = br#"{"object":"list","data":["#.to_vec();
    for (index, vector) in vectors.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"object":"embedding","index":"#);
        serde_json::to_writer(&mut out, &index)?;
        out.extend_from_slice(br#","embedding":"#);
        match format {
            EncodingFormat::Float => {
                let values = vector.as_chunks::<4>().0.iter();
                decimals::array(values.map(|value| f32::from_le_bytes(*value)), &mut out);
            }
            EncodingFormat::Base64 => serde_json::to_writer(&mut out, &BASE64_STANDARD.encode(vector))?,
        }
        out.push(b'}');
    }
    out.extend_from_slice(br#"],"model":"#);
    serde_json::to_writer(&mut out, model)?;
    out.extend_from_slice(br#","usage":"#);
    serde_json::to_writer(&mut out, usage)?;
    if let Some(augment) = augment {
        out.extend_from_slice(br#","augment":"#);
        serde_json::to_writer(&mut out, augment)?;
    }
    out.push(b'}');
    Ok(out)
}
