//! Parses the fields of a request.

use std::fmt::Display;

use isomer_proto::{
    ProtoEnum,
    common::v1::Dtype,
    encoder::v1::{Input, Output, Priority as ProtoPriority, Truncation, input},
};
use isomer_service_kit::{Fault, choice, max_active_dimensions, outputs};

use super::Inner;
use crate::{
    batch::RequestedOutputs,
    engine::Priority,
    error::EmbedError,
    folder::Prompts,
    model::Model,
    registry::LoadedEncoder,
    tokenise::{Cut, Tokens},
};

/// Maximum bytes of all prompts of a request, because the prompt is tokenised with every text.
const MOST_OF_PROMPTS: usize = 4 << 20;

pub(super) enum Prompt {
    Named(String),
    Literal(String),
}

/// The literal prompt of a request.
pub(super) fn prompt(prompts: &Prompts, asked: Option<Prompt>) -> Result<String, EmbedError> {
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
        let hint = if known.is_empty() {
            "this encoder has no named prompts".into()
        } else {
            format!("one of: {known}")
        };
        EmbedError::invalid(
            "prompt_name",
            format!("unknown prompt `{name}`"),
            format!("{hint}; or give literal_prompt"),
        )
    })
}

/// Number of columns to keep. If a model lists the sizes it was trained for, only those are
/// permitted. Vectors of any other model can be truncated anywhere, as with sentence-transformers'
/// `truncate_dim`.
pub(super) fn dimensions(encoder: &LoadedEncoder, all: usize, asked: Option<u32>) -> Result<usize, EmbedError> {
    let Some(asked) = asked.map(|asked| usize::try_from(asked).unwrap_or(usize::MAX)) else {
        return Ok(all);
    };
    let permitted = &encoder.model.folder().matryoshka;
    let fine = asked == all || ((1..all).contains(&asked) && (permitted.is_empty() || permitted.contains(&asked)));
    if fine {
        return Ok(asked);
    }
    let hint = if permitted.is_empty() {
        format!("1 to {all}")
    } else {
        format!("one of {permitted:?}, or {all}")
    };
    Err(EmbedError::invalid(
        "dimensions",
        format!("{asked} is not permitted"),
        hint,
    ))
}

/// One thing to encode.
pub(super) enum Item {
    Text(String),
    Ids(Vec<u32>),
}

impl Item {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Ids(ids) => size_of_val(ids.as_slice()),
        }
    }
}

pub(super) fn items(inputs: Vec<Input>, inner: &Inner) -> Result<Vec<Item>, EmbedError> {
    let most = inner.config.max_batch_items;
    if inputs.is_empty() {
        return Err(EmbedError::invalid("inputs", "is empty", "give at least one text"));
    }
    if inputs.len() > most {
        return Err(too_many("inputs", inputs.len(), most));
    }
    let one = |(index, input): (usize, Input)| match input.input {
        Some(input::Input::Text(text)) => {
            check_bytes(format_args!("inputs[{index}].text"), &text, inner)?;
            Ok(Item::Text(text))
        }
        Some(input::Input::TokenIds(ids)) => Ok(Item::Ids(ids.ids)),
        None => Err(EmbedError::invalid(
            format!("inputs[{index}]"),
            "holds nothing",
            "set `text`; it may be empty",
        )),
    };
    inputs.into_iter().enumerate().map(one).collect()
}

pub(super) fn too_many(field: &str, count: usize, most: usize) -> EmbedError {
    EmbedError::invalid(
        field,
        format!("holds {count} texts, the most is {most}"),
        "send several requests or a stream",
    )
}

/// Checks that a text is short enough to tokenise. Until a text is truncated, its tokens take some
/// hundred times its memory.
pub(super) fn check_bytes(field: impl Display, text: &str, inner: &Inner) -> Result<(), EmbedError> {
    let most = inner.config.max_text_bytes;
    if text.len() <= most {
        return Ok(());
    }
    Err(EmbedError::invalid(
        field.to_string(),
        format!("has {} bytes, the most is {most}", text.len()),
        "shorten it, or raise embed.max_text_bytes",
    ))
}

/// Checks that the texts, each with the prompt in front, stay within the size of a message.
pub(super) fn check_prompt(prompt: &str, texts: usize, inner: &Inner) -> Result<(), EmbedError> {
    check_bytes("literal_prompt", prompt, inner)?;
    let bytes = prompt.len().saturating_mul(texts);
    if bytes <= MOST_OF_PROMPTS {
        return Ok(());
    }
    Err(EmbedError::invalid(
        "literal_prompt",
        format!("has {bytes} bytes with {texts} texts, the most is {MOST_OF_PROMPTS}"),
        "shorten it, or send fewer texts at once",
    ))
}

/// Checks that token ids from a client can be encoded; `marks` are those of the encoder's
/// tokenizer.
pub(super) fn check_ids(encoder: &LoadedEncoder, marks: &Marks, index: usize, ids: &[u32]) -> Result<(), EmbedError> {
    let model = &encoder.model;
    let field = || format!("inputs[{index}].token_ids");
    let most = model.max_tokens();
    if ids.is_empty() {
        return Err(EmbedError::invalid(
            field(),
            "is empty",
            "give ids of the encoder's own tokenizer, special tokens included",
        ));
    }
    if ids.len() > most {
        return Err(EmbedError::invalid(
            field(),
            format!("has {} ids, the encoder takes {most}", ids.len()),
            "shorten it; ids are not cut, whatever the truncation",
        ));
    }
    let rows = model.vocabulary();
    if let Some(id) = ids.iter().find(|id| **id as usize >= rows) {
        return Err(EmbedError::invalid(
            field(),
            format!("holds the id {id}, the encoder knows 0 to {}", rows.saturating_sub(1)),
            "give ids of the encoder's own tokenizer",
        ));
    }
    let Marks { before, after } = marks;
    if ids.len() >= before.len() + after.len() && ids.starts_with(before) && ids.ends_with(after) {
        return Ok(());
    }
    // Ids from another tokenizer that happen to be within the vocabulary would give meaningless
    // vectors.
    Err(EmbedError::invalid(
        field(),
        format!(
            "does not begin with the special tokens {before:?} and end with {after:?}, as the encoder's own ids do"
        ),
        "give ids of the encoder's own tokenizer, special tokens included, or send the text",
    ))
}

/// The special tokens that a tokenizer puts before and after a text.
#[derive(Debug, Default)]
pub(super) struct Marks {
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Marks {
    /// The marks of a model's tokenizer.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub(super) fn of(model: &Model) -> Result<Self, String> {
        let nothing = model.tokenise("", "", Cut::Tail)?.ids;
        let something = model.tokenise("", "a", Cut::Tail)?.ids;
        let before = nothing.iter().zip(&something).take_while(|(a, b)| a == b).count();
        let (before, after) = nothing.split_at(before);
        // If the tokenizer produces tokens even for an empty text, its marks cannot be determined.
        Ok(if something.ends_with(after) {
            Self {
                before: before.to_vec(),
                after: after.to_vec(),
            }
        } else {
            Self::default()
        })
    }
}

pub(super) fn refuse_long(tokens: &[Tokens], most: usize) -> Result<(), EmbedError> {
    match tokens.iter().enumerate().find(|(_, tokens)| tokens.truncated()) {
        None => Ok(()),
        Some((index, tokens)) => Err(EmbedError::invalid(
            format!("inputs[{index}].text"),
            format!("has {} tokens, the encoder takes {most}", tokens.count),
            "shorten it, or allow TRUNCATION_TAIL or TRUNCATION_HEAD",
        )),
    }
}

pub(super) fn invalid(fault: Fault) -> EmbedError {
    let hint = fault.hint.unwrap_or_default();
    EmbedError::invalid(fault.field.unwrap_or_default(), fault.message, hint)
}

pub(super) fn given<E: ProtoEnum>(field: &str, value: i32) -> Result<Option<E>, EmbedError> {
    choice(field, value).map_err(invalid)
}

pub(super) fn dtype(value: i32) -> Result<Dtype, EmbedError> {
    Ok(given("output_dtype", value)?.unwrap_or(Dtype::F32))
}

/// The results that a request asks for, by `output` or by `outputs`.
pub(super) fn results(output: i32, several: &[i32]) -> Result<Vec<Output>, EmbedError> {
    outputs(output, several).map_err(invalid)
}

/// The results of each text.
pub(super) fn want(results: &[Output]) -> RequestedOutputs {
    RequestedOutputs {
        text_vector: results.contains(&Output::TextVector),
        token_vectors: results.contains(&Output::TokenVectors),
        sparse: results.contains(&Output::Sparse),
    }
}

/// Checks that the encoder supports the requested results.
pub(super) fn served(encoder: &LoadedEncoder, want: RequestedOutputs, field: &str) -> Result<(), EmbedError> {
    let (model, id) = (&encoder.model, &encoder.source.id);
    if model.is_cross_encoder() {
        return Err(EmbedError::unserved(
            "encoder_id",
            format!("`{id}` is a cross-encoder: it scores pairs; call Rerank"),
        ));
    }
    let results = [
        (
            want.text_vector,
            model.has_text_vectors(),
            "OUTPUT_TEXT_VECTOR",
            "no pooling",
        ),
        (
            want.token_vectors,
            model.has_token_vectors(),
            "OUTPUT_TOKEN_VECTORS",
            "no token vectors",
        ),
        (
            want.sparse,
            model.has_sparse_vectors(),
            "OUTPUT_SPARSE",
            "no sparse vectors",
        ),
    ];
    match results.iter().find(|(wanted, has, ..)| *wanted && !has) {
        None => Ok(()),
        Some((.., lack)) => {
            let has = results.iter().filter(|(_, has, ..)| *has).map(|(_, _, name, _)| *name);
            let has = has.collect::<Vec<_>>().join(" or ");
            Err(EmbedError::unserved(field, format!("`{id}` has {lack}; ask for {has}")))
        }
    }
}

/// Number of entries to keep of a sparse vector.
pub(super) fn most_active(value: Option<u32>, results: &[Output]) -> Result<usize, EmbedError> {
    max_active_dimensions(value, results).map_err(invalid)
}

pub(super) fn truncation(value: i32) -> Result<Truncation, EmbedError> {
    Ok(given("truncation", value)?.unwrap_or(Truncation::Tail))
}

pub(super) fn priority(value: i32) -> Result<Priority, EmbedError> {
    Ok(match given("priority", value)? {
        Some(ProtoPriority::Batch) => Priority::Batch,
        _ => Priority::Interactive,
    })
}
