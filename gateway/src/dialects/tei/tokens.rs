//! `/tokenize` and `/decode`.

use axum::extract::State;
use isomer_proto::encoder::v1::{
    Capability, DetokenizeRequest, Token, TokenIds, TokenizeRequest, tokenize_request::Prompt,
};
use serde::Serialize;

use super::{ApiResult, PathModel};
use crate::{
    dialects::{fields::fields, refusal::DialectError},
    json::Json,
    openai::{ApiError, Backends, Body, Call, inputs::Inputs},
};

/// The default of text-embeddings-inference.
fn yes() -> bool {
    true
}

fields! {
    /// A request for the tokens of texts.
    pub(super) struct Tokenize, rest = ignored;
    read {
        /// A text or texts.
        inputs: Inputs,
        #[serde(default = "yes")]
        add_special_tokens: bool,
        prompt_name: Option<String>,
    }
}

#[derive(Debug, Serialize)]
pub(super) struct TokenRow {
    id: u32,
    text: String,
    special: bool,
    start: Option<u32>,
    stop: Option<u32>,
}

impl From<Token> for TokenRow {
    fn from(token: Token) -> Self {
        Self {
            id: token.id,
            text: token.text,
            special: token.special,
            start: token.start,
            stop: token.end,
        }
    }
}

pub(super) async fn tokenize(
    State(backends): State<Backends>,
    model: PathModel,
    call: Call,
    body: Result<Body<Tokenize>, ApiError>,
) -> ApiResult<Vec<Vec<TokenRow>>> {
    let Body(request) = body?;
    let texts = request.inputs.texts().filter(|texts| !texts.is_empty());
    let texts = texts.ok_or_else(|| DialectError::invalid("inputs", "should be a text, or a list of texts"))?;
    let wanted = TokenizeRequest {
        encoder_id: model.or_only(&backends, Capability::Dense).await?,
        texts,
        prompt: request.prompt_name.map(Prompt::PromptName),
        special_tokens: Some(request.add_special_tokens),
    };
    let answer = backends.router.tokenize(wanted, call.deadline).await?;
    let rows = |tokens: Vec<Token>| tokens.into_iter().map(TokenRow::from).collect();
    Ok(Json(answer.texts.into_iter().map(|text| rows(text.tokens)).collect()))
}

fields! {
    /// A request for the texts of tokens.
    pub(super) struct Decode, rest = ignored;
    read {
        /// The token ids of a text, or those of several texts.
        ids: Inputs,
        #[serde(default = "yes")]
        skip_special_tokens: bool,
    }
}

pub(super) async fn decode(
    State(backends): State<Backends>,
    model: PathModel,
    call: Call,
    body: Result<Body<Decode>, ApiError>,
) -> ApiResult<Vec<String>> {
    let Body(request) = body?;
    let lists = request.ids.token_ids().filter(|lists| !lists.is_empty());
    let lists =
        lists.ok_or_else(|| DialectError::invalid("ids", "should be a list of token ids, or a list of such lists"))?;
    let wanted = DetokenizeRequest {
        encoder_id: model.or_only(&backends, Capability::Dense).await?,
        token_ids: lists.into_iter().map(|ids| TokenIds { ids }).collect(),
        special_tokens: !request.skip_special_tokens,
    };
    let answer = backends.router.detokenize(wanted, call.deadline).await?;
    Ok(Json(answer.texts))
}
