//! `POST /v1/embeddings`.

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

use super::{
    Backends, Body, Call,
    augment::Augment,
    augmented_models::AugmentedModel,
    encoded_inputs::EncodedInputs,
    error::ApiError,
    inputs::{Inputs, bounded_or_none},
    list::{self, EncodingFormat},
    nulls,
    words::{InputType, TruncationName, one_name},
};
use crate::{
    billing,
    dialects::{Purpose, check_lengths, fields::fields, prompt},
    tenant,
};

/// Header of the answer with the digest of the vectors' space. Vectors of different spaces may not
/// be compared.
const VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-vector-space");
/// The spaces of sparse and of token vectors in an answer with several outputs.
const SPARSE_VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-sparse-vector-space");
const TOKEN_VECTOR_SPACE: HeaderName = HeaderName::from_static("isomer-token-vector-space");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fields! {
    /// A request for vectors.
    pub(crate) struct Request, rest = refused;
    read {
        /// The encoder. Azure's addresses contain it instead.
        #[serde(default, deserialize_with = "nulls::or_default")]
        pub(super) model: String,
        /// A text, texts, the token ids of a text, or those of several texts.
        pub(super) input: Inputs,
        /// `float` or `base64`.
        #[serde(default, deserialize_with = "one_name")]
        encoding_format: Option<EncodingFormat>,
        /// Matryoshka dimensions.
        pub(super) dimensions: Option<u32>,
        /// One of the encoder's prompts.
        pub(super) prompt_name: Option<String>,
        /// Handling of a text that is too long: `tail` (the default), `head`, `error`; true and
        /// false of Voyage.
        pub(super) truncation: Option<TruncationName>,
        /// NVIDIA's name for `truncation`: `NONE`, `START`, `END`.
        truncate: Option<TruncationName>,
        /// GASE: how vectors are augmented.
        pub(super) augment: Option<Augment>,
        /// The results for each text; absent: one dense vector.
        #[serde(default, deserialize_with = "bounded_or_none")]
        outputs: Option<Vec<String>>,
        /// Maximum number of entries of each sparse vector.
        max_active_dimensions: Option<u32>,
        /// The purpose of the texts, which selects one of the encoder's prompts: `query`,
        /// `document` or `passage`. `text` selects none.
        input_type: Option<InputType>,
        /// Voyage's name for `dimensions`.
        output_dimension: Option<u32>,
        /// Jina's name for `encoding_format`; also a list of one name.
        #[serde(default, deserialize_with = "one_name")]
        embedding_type: Option<EncodingFormat>,
        /// Another name for `encoding_format`, of older clients of Jina.
        #[serde(default, deserialize_with = "one_name")]
        encoding_type: Option<EncodingFormat>,
        /// Jina: whether vectors have unit length.
        normalized: Option<bool>,
    }
    ignored {
        user, metadata, store, service_tier, safety_identifier, prompt_cache_key, priority, request_id, provider,
    }
    harmless {
        output_dtype: String, |dtype| dtype == "float",
            "is not `float`, the type of vectors here" => "leave it out; over gRPC, output_dtype gives int8 and ubinary";
        late_chunking: bool, |is_wanted| !is_wanted,
            "is not offered: each text has one vector of its own"
            => "leave it out; over gRPC, OUTPUT_TOKEN_VECTORS gives a vector for each token";
        add_special_tokens: bool, |are_added| *are_added,
            "is false, but texts are always read with the encoder's special tokens" => "leave it out, or send token ids";
        modality: String, |modality| modality == "text",
            "is not `text`, and encoders here read texts" => "leave it out";
    }
    length { truncate_prompt_tokens }
    refused {
        task: "chooses one of Jina's adapters, but encoders here have no adapters"
            => "name one of the encoder's prompts with `prompt_name`, or leave it out";
    }
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

impl Request {
    /// Maps other servers' field names to ours.
    fn settle(&mut self) -> Result<(), ApiError> {
        if self.model.is_empty() {
            return Err(ApiError::invalid("model", "is missing").hint("name an encoder; GET /v1/models lists them"));
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
        if self.truncate.is_some() && self.truncation.is_some() {
            return Err(ApiError::invalid(
                "truncate",
                "is given together with `truncation`; give one of the two",
            ));
        }
        self.truncation = self.truncation.or(self.truncate);
        self.encoding_format = self.embedding_type.or(self.encoding_type).or(self.encoding_format);
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
    let (model, format) = (request.model.clone(), request.encoding_format.unwrap_or_default());
    check_lengths(&backends, &model, call.deadline, request.lengths()).await?;
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
    let purpose = request.input_type.and_then(|kind| match kind {
        InputType::Query => Some(Purpose::Query),
        InputType::Document => Some(Purpose::Document),
        InputType::Text => None,
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
