//! `CountTokens`, `Tokenize` and `Detokenize`.

use std::sync::Arc;

use isomer_proto::encoder::v1::{
    CountTokensRequest, CountTokensResponse, DetokenizeRequest, DetokenizeResponse, TextTokens, Token, TokenizeRequest,
    TokenizeResponse, count_tokens_request, tokenize_request,
};

use super::{
    Inner,
    describe::number,
    encode::{named, tokenise},
    request::{Item, Prompt, check_bytes, check_prompt, prompt, too_many},
};
use crate::{
    error::EmbedError,
    tokenise::{Cut, parts::Part},
};

/// Bytes of an answer reserved per token, in addition to the text.
const TOKEN_BYTES: usize = 32;

/// Maximum number of tokens of an answer, however large a message may be. A token takes about 100
/// bytes of memory in this process and again in a gateway, several times its size in the message,
/// and up to 400 while its text is tokenised. With this many, and with texts of at most
/// [`MOST_TEXT_BYTES`], a request stays below 128 MiB (`tests/bench/peak_memory.py`).
const MOST_TOKENS: usize = 200_000;

/// Maximum bytes of all texts of a tokenise request.
const MOST_TEXT_BYTES: usize = 16 << 20;

/// Answers a `CountTokens` request.
pub(super) async fn count(inner: &Inner, request: CountTokensRequest) -> Result<CountTokensResponse, EmbedError> {
    check_texts(inner, &request.texts)?;
    let encoder = named(inner, &request.encoder_id).await?;
    let asked = request.prompt.map(|prompt| match prompt {
        count_tokens_request::Prompt::PromptName(name) => Prompt::Named(name),
        count_tokens_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt: Arc<str> = prompt(&encoder.model.folder().prompts, asked)?.into();
    check_prompt(&prompt, request.texts.len(), inner)?;
    let items = request.texts.into_iter().map(Item::Text).collect();
    let tokens = tokenise(inner, &encoder, items, prompt, Cut::Tail, |index| {
        format!("texts[{index}]")
    })
    .await?;
    Ok(CountTokensResponse {
        token_counts: tokens.iter().map(|tokens| number(tokens.count)).collect(),
        max_tokens: number(encoder.model.max_tokens()),
    })
}

/// Answers a `Tokenize` request.
pub(super) async fn tokenize(inner: &Inner, request: TokenizeRequest) -> Result<TokenizeResponse, EmbedError> {
    check_texts(inner, &request.texts)?;
    let bytes: usize = request.texts.iter().map(String::len).sum();
    if bytes > MOST_TEXT_BYTES {
        return Err(EmbedError::invalid(
            "texts",
            format!("have {bytes} bytes in all, the most is {MOST_TEXT_BYTES}"),
            "send several requests",
        ));
    }
    let encoder = named(inner, &request.encoder_id).await?;
    let asked = request.prompt.map(|prompt| match prompt {
        tokenize_request::Prompt::PromptName(name) => Prompt::Named(name),
        tokenize_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt = prompt(&encoder.model.folder().prompts, asked)?;
    check_prompt(&prompt, request.texts.len(), inner)?;
    let (texts, special) = (request.texts, request.special_tokens.unwrap_or(true));
    let room = inner.config.max_message_bytes;
    inner
        .helped(move || {
            // Texts are tokenised one by one, so that an answer that is too large is refused before
            // it is complete.
            let mut answer = TokenizeResponse::default();
            let (mut bytes, mut count) = (0, 0);
            for (index, text) in texts.into_iter().enumerate() {
                let parts = encoder.model.tokenizer().parts(&prompt, &text, special);
                let parts = parts.map_err(|message| EmbedError::tokenise(format_args!("texts[{index}]"), message))?;
                count += parts.len();
                bytes += parts.len() * TOKEN_BYTES + text.len() + prompt.len();
                let bound = if bytes > room {
                    Some(format!("{room} bytes"))
                } else {
                    (count > MOST_TOKENS).then(|| format!("{MOST_TOKENS} tokens"))
                };
                if let Some(bound) = bound {
                    return Err(EmbedError::invalid(
                        format!("texts[{index}]"),
                        format!("has too many tokens: the answer would exceed {bound}"),
                        "send fewer or shorter texts at once",
                    ));
                }
                let tokens = parts.into_iter().map(token).collect();
                answer.texts.push(TextTokens { tokens });
            }
            Ok(answer)
        })
        .await
}

fn token(part: Part) -> Token {
    Token {
        id: part.id,
        text: part.text,
        special: part.special,
        start: part.bytes.as_ref().map(|bytes| number(bytes.start)),
        end: part.bytes.as_ref().map(|bytes| number(bytes.end)),
    }
}

/// Answers a `Detokenize` request.
pub(super) async fn detokenize(inner: &Inner, request: DetokenizeRequest) -> Result<DetokenizeResponse, EmbedError> {
    let (count, most) = (request.token_ids.len(), inner.config.max_batch_items);
    if count > most {
        return Err(too_many("token_ids", count, most));
    }
    let (ids, most): (usize, _) = (
        request.token_ids.iter().map(|ids| ids.ids.len()).sum(),
        inner.config.max_text_bytes,
    );
    if ids > most {
        return Err(EmbedError::invalid(
            "token_ids",
            format!("holds {ids} ids, the most is {most}"),
            "send several requests, or raise embed.max_text_bytes",
        ));
    }
    let encoder = named(inner, &request.encoder_id).await?;
    inner
        .helped(move || {
            let of = |(index, ids): (usize, &isomer_proto::encoder::v1::TokenIds)| {
                let text = encoder.model.tokenizer().text_of(&ids.ids, request.special_tokens);
                text.map_err(|message| {
                    let hint = "give ids of the encoder's own tokenizer";
                    EmbedError::invalid(format!("token_ids[{index}]"), message, hint)
                })
            };
            let texts = request.token_ids.iter().enumerate().map(of);
            Ok(DetokenizeResponse {
                texts: texts.collect::<Result<_, _>>()?,
            })
        })
        .await
}

fn check_texts(inner: &Inner, texts: &[String]) -> Result<(), EmbedError> {
    let (count, most) = (texts.len(), inner.config.max_batch_items);
    if count > most {
        return Err(too_many("texts", count, most));
    }
    let mut texts = texts.iter().enumerate();
    texts.try_for_each(|(index, text)| check_bytes(format_args!("texts[{index}]"), text, inner))
}
