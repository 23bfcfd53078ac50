//! `Encode` and `CountTokens`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_proto::{
    common::v1::{Dtype, Timing, Usage},
    encoder::v1::{
        CountTokensRequest, CountTokensResponse, EncodeRequest, EncodeResponse, Input, Priority as ProtoPriority,
        Truncation, count_tokens_request, encode_request, input,
    },
};
use rayon::prelude::*;

use super::{
    Inner,
    describe::{number, vector_space},
    finish::{Delivery, element_bytes, matrix},
};
use crate::{
    engine::Priority,
    error::EmbedError,
    folder::Prompts,
    model::Model,
    registry::Loaded,
    tokenise::{Cut, Tokens},
};

/// Room for everything of an answer that is not vectors.
const ANSWER_OVERHEAD: usize = 4096;

/// Answers an `Encode`.
pub(super) async fn encode(
    inner: &Inner,
    request: EncodeRequest,
    arrived: Instant,
    deadline: Option<Instant>,
) -> Result<EncodeResponse, EmbedError> {
    let dtype = dtype(request.output_dtype)?;
    let truncation = truncation(request.truncation)?;
    let priority = priority(request.priority)?;
    let texts = texts(request.inputs, inner.config.max_batch_items)?;
    let count = texts.len();
    let encoder = named(inner, &request.encoder_id).await?;
    let asked = request.prompt.map(|prompt| match prompt {
        encode_request::Prompt::PromptName(name) => Prompt::Named(name),
        encode_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt: Arc<str> = prompt(&encoder.model.folder().prompts, asked)?.into();
    let delivery = Delivery {
        width: encoder.model.dimensions(),
        dimensions: dimensions(&encoder, request.dimensions)?,
        normalise: request.normalise.unwrap_or(encoder.model.normalises()),
        dtype,
    };
    let bytes = count * (delivery.dimensions * element_bytes(dtype) + 8) + ANSWER_OVERHEAD;
    if bytes > inner.config.max_message_bytes {
        return Err(EmbedError::invalid(
            "inputs",
            format!(
                "the answer would take {bytes} bytes, the limit is {}",
                inner.config.max_message_bytes
            ),
            "send fewer texts at once",
        ));
    }

    let tokenising = Instant::now();
    let cut = if truncation == Truncation::Head {
        Cut::Head
    } else {
        Cut::Tail
    };
    let tokens = tokenise(inner, &encoder, texts, prompt.clone(), cut).await?;
    let tokenise = tokenising.elapsed();
    if truncation == Truncation::Error {
        refuse_long(&tokens, encoder.model.max_tokens())?;
    }
    let token_counts = tokens.iter().map(|tokens| number(tokens.count)).collect();
    let truncated = tokens.iter().map(Tokens::truncated).collect();
    let used: usize = tokens.iter().map(|tokens| tokens.ids.len()).sum();

    let sequences = tokens.into_iter().map(Into::into).collect();
    let encoded = encoder.engine.encode(sequences, priority, deadline).await?;
    let (queued, computed) = (encoded.queued, encoded.computed);
    let id = encoder.source.id.clone();
    let embeddings = inner.helped(move || matrix(&id, &encoded.vectors, delivery)).await?;

    Ok(EncodeResponse {
        embeddings: Some(embeddings),
        token_counts,
        truncated,
        errors: Vec::new(),
        vector_space: Some(vector_space(
            &encoder,
            &prompt,
            delivery.dimensions,
            delivery.normalise,
            dtype,
        )),
        usage: Some(Usage {
            texts: count as u64,
            tokens: used as u64,
            ..Usage::default()
        }),
        timing: Some(Timing {
            queue: Some(duration(queued)),
            tokenise: Some(duration(tokenise)),
            compute: Some(duration(computed)),
            total: Some(duration(arrived.elapsed())),
        }),
    })
}

/// Answers a `CountTokens`.
pub(super) async fn count_tokens(
    inner: &Inner,
    request: CountTokensRequest,
) -> Result<CountTokensResponse, EmbedError> {
    if request.texts.len() > inner.config.max_batch_items {
        return Err(too_many("texts", request.texts.len(), inner.config.max_batch_items));
    }
    let encoder = named(inner, &request.encoder_id).await?;
    let asked = request.prompt.map(|prompt| match prompt {
        count_tokens_request::Prompt::PromptName(name) => Prompt::Named(name),
        count_tokens_request::Prompt::LiteralPrompt(text) => Prompt::Literal(text),
    });
    let prompt = prompt(&encoder.model.folder().prompts, asked)?.into();
    let tokens = tokenise(inner, &encoder, request.texts, prompt, Cut::Tail).await?;
    Ok(CountTokensResponse {
        token_counts: tokens.iter().map(|tokens| number(tokens.count)).collect(),
        max_tokens: number(encoder.model.max_tokens()),
    })
}

async fn named(inner: &Inner, id: &str) -> Result<Arc<Loaded>, EmbedError> {
    if id.is_empty() {
        return Err(EmbedError::invalid(
            "encoder_id",
            "is empty",
            "name an encoder; ListEncoders lists them",
        ));
    }
    inner.registry.get(id).await
}

async fn tokenise(
    inner: &Inner,
    encoder: &Loaded,
    texts: Vec<String>,
    prompt: Arc<str>,
    cut: Cut,
) -> Result<Vec<Tokens>, EmbedError> {
    let model: Arc<Model> = encoder.model.clone();
    inner
        .helped(move || {
            let unpooled = model
                .unpooled(&prompt)
                .map_err(|message| EmbedError::Tokenise { index: 0, message })?;
            let one = |(index, text): (usize, &String)| {
                let mut tokens = model
                    .tokenise(&prompt, text, cut)
                    .map_err(|message| EmbedError::Tokenise { index, message })?;
                tokens.prompt = unpooled;
                Ok(tokens)
            };
            texts.par_iter().enumerate().map(one).collect()
        })
        .await
}

enum Prompt {
    Named(String),
    Literal(String),
}

/// The literal prompt of a request.
fn prompt(prompts: &Prompts, asked: Option<Prompt>) -> Result<String, EmbedError> {
    let name = match asked {
        Some(Prompt::Literal(text)) => return Ok(text),
        Some(Prompt::Named(name)) => name,
        None => match &prompts.default {
            Some(name) => name.clone(),
            None => return Ok(String::new()),
        },
    };
    prompts.by_name.get(&name).cloned().ok_or_else(|| {
        let known = prompts.by_name.keys().cloned().collect::<Vec<_>>().join(", ");
        let mend = if known.is_empty() {
            "this encoder has no named prompts".into()
        } else {
            format!("one of: {known}")
        };
        EmbedError::invalid(
            "prompt_name",
            format!("unknown prompt `{name}`"),
            format!("{mend}; or give literal_prompt"),
        )
    })
}

/// Columns to keep. A model that says which sizes it was trained for is held to them; any other can be cut anywhere, as
/// sentence-transformers' `truncate_dim` allows.
fn dimensions(encoder: &Loaded, asked: Option<u32>) -> Result<usize, EmbedError> {
    let all = encoder.model.dimensions();
    let Some(asked) = asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX)) else {
        return Ok(all);
    };
    let permitted = &encoder.model.folder().matryoshka;
    let fine = asked == all || ((1..all).contains(&asked) && (permitted.is_empty() || permitted.contains(&asked)));
    if fine {
        return Ok(asked);
    }
    let mend = if permitted.is_empty() {
        format!("1 to {all}")
    } else {
        format!("one of {permitted:?}, or {all}")
    };
    Err(EmbedError::invalid(
        "dimensions",
        format!("{asked} is not permitted"),
        mend,
    ))
}

fn texts(inputs: Vec<Input>, most: usize) -> Result<Vec<String>, EmbedError> {
    if inputs.is_empty() {
        return Err(EmbedError::invalid("inputs", "is empty", "give at least one text"));
    }
    if inputs.len() > most {
        return Err(too_many("inputs", inputs.len(), most));
    }
    let one = |(index, input): (usize, Input)| match input.input {
        Some(input::Input::Text(text)) => Ok(text),
        Some(input::Input::TokenIds(_)) => {
            let what = "token ids are not served yet; send text";
            Err(EmbedError::unserved(format!("inputs[{index}].token_ids"), what))
        }
        None => Err(EmbedError::invalid(
            format!("inputs[{index}]"),
            "holds nothing",
            "set `text`; it may be empty",
        )),
    };
    inputs.into_iter().enumerate().map(one).collect()
}

fn too_many(field: &str, count: usize, most: usize) -> EmbedError {
    EmbedError::invalid(
        field,
        format!("holds {count} texts, the most is {most}"),
        "send several requests or a stream",
    )
}

fn refuse_long(tokens: &[Tokens], most: usize) -> Result<(), EmbedError> {
    match tokens.iter().enumerate().find(|(_, tokens)| tokens.truncated()) {
        None => Ok(()),
        Some((index, tokens)) => Err(EmbedError::invalid(
            format!("inputs[{index}].text"),
            format!("has {} tokens, the encoder takes {most}", tokens.count),
            "shorten it, or allow TRUNCATION_TAIL or TRUNCATION_HEAD",
        )),
    }
}

fn dtype(value: i32) -> Result<Dtype, EmbedError> {
    match Dtype::try_from(value) {
        Ok(Dtype::Unspecified | Dtype::F32) => Ok(Dtype::F32),
        Ok(Dtype::F16) => Ok(Dtype::F16),
        Ok(other) => {
            let what = format!("{} is not served yet; DTYPE_F32 and DTYPE_F16 are", other.as_str_name());
            Err(EmbedError::unserved("output_dtype", what))
        }
        Err(_) => Err(EmbedError::invalid(
            "output_dtype",
            format!("unknown value {value}"),
            "DTYPE_F32 or DTYPE_F16",
        )),
    }
}

fn truncation(value: i32) -> Result<Truncation, EmbedError> {
    match Truncation::try_from(value) {
        Ok(Truncation::Unspecified) => Ok(Truncation::Tail),
        Ok(other) => Ok(other),
        Err(_) => Err(EmbedError::invalid(
            "truncation",
            format!("unknown value {value}"),
            "ERROR, HEAD or TAIL",
        )),
    }
}

fn priority(value: i32) -> Result<Priority, EmbedError> {
    match ProtoPriority::try_from(value) {
        Ok(ProtoPriority::Unspecified | ProtoPriority::Interactive) => Ok(Priority::Interactive),
        Ok(ProtoPriority::Batch) => Ok(Priority::Batch),
        Err(_) => Err(EmbedError::invalid(
            "priority",
            format!("unknown value {value}"),
            "INTERACTIVE or BATCH",
        )),
    }
}

fn duration(value: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}
