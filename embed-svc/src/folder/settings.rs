//! `sentence_bert_config.json`, `config_sentence_transformers.json`, `tokenizer_config.json`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use isomer_proto::{ProtoEnum, common::v1::Similarity};
use serde::Deserialize;
use serde_json::Value;

use super::read_optional;
use crate::error::EmbedError;

/// Named prompts of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Name → literal text put before each input.
    pub by_name: BTreeMap<String, String>,
    /// The prompt for requests that name none.
    pub default: Option<String>,
}

pub(super) struct Transformer {
    pub(super) max_seq_length: Option<usize>,
    pub(super) lower_case: bool,
}

/// Names of the file with the transformer's settings, in the order in which sentence-transformers
/// looks for them.
const SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
#[derive(Default, Deserialize)]
struct SentenceBertConfig {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
    #[serde(default)]
    transformer_task: Option<String>,
    #[serde(default, alias = "tokenizer_args", alias = "tokenizer_kwargs")]
    processor_kwargs: Option<TokenizerLimit>,
}

/// The limit in `tokenizer_config.json`, or in arguments that replace it.
#[derive(Default, Deserialize)]
struct TokenizerLimit {
    // Some files use 1e30 for "no limit", so this is a float.
    #[serde(default)]
    model_max_length: Option<f64>,
    /// The older name.
    #[serde(default)]
    max_len: Option<f64>,
}

impl TokenizerLimit {
    fn tokens(&self) -> Option<usize> {
        let limit = self.model_max_length.or(self.max_len);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        limit
            .filter(|&limit| (1.0..1e9).contains(&limit))
            .map(|limit| limit as usize)
    }
}

/// The file with the transformer's settings; the first name if there is none.
pub(super) fn file(folder: &Path) -> PathBuf {
    let files = SETTINGS.map(|name| folder.join(name));
    let found = files.iter().find(|file| file.is_file());
    found.unwrap_or(&files[0]).clone()
}

/// Reads the length limit as sentence-transformers does: the argument `model_max_length`, else
/// `max_seq_length`, else the smaller of the tokenizer's limit and the size of the position table.
///
/// `task` is the name of the task that the other files describe.
pub(super) fn transformer(file: &Path, config: &Value, task: &str) -> Result<Transformer, EmbedError> {
    let settings: SentenceBertConfig = read_optional(file)?;
    if let Some(other) = settings.transformer_task.filter(|other| other != task) {
        return Err(EmbedError::file(
            file,
            format!("transformer_task `{other}` is not served"),
            format!("use {task}"),
        ));
    }
    if settings.max_seq_length == Some(0) {
        return Err(EmbedError::file(
            file,
            "max_seq_length is 0",
            "give the longest input in tokens",
        ));
    }
    let tokenizer: TokenizerLimit = read_optional(&file.with_file_name("tokenizer_config.json"))?;
    let from_positions = config
        .get("max_position_embeddings")
        .and_then(Value::as_u64)
        .and_then(|n| usize::try_from(n).ok())
        .map(|rows| rows.saturating_sub(unused_positions(config)));
    let argument = settings.processor_kwargs.and_then(|arguments| arguments.tokens());
    let max_seq_length = argument
        .or(settings.max_seq_length)
        .or(match (tokenizer.tokens(), from_positions) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        });
    Ok(Transformer {
        max_seq_length,
        lower_case: settings.do_lower_case,
    })
}

/// Rows of a position table that no text reaches: RoBERTa and its relatives count positions from
/// the padding id + 1.
fn unused_positions(config: &Value) -> usize {
    let padding = config.get("pad_token_id").and_then(Value::as_u64).unwrap_or(1);
    match config.get("model_type").and_then(Value::as_str) {
        Some("roberta" | "xlm-roberta" | "camembert") => usize::try_from(padding).map_or(0, |padding| padding + 1),
        Some("mpnet") => 2,
        _ => 0,
    }
}

pub(super) struct Model {
    pub(super) prompts: Prompts,
    pub(super) similarity: Similarity,
    /// The class that saved the folder.
    pub(super) model_type: Option<String>,
}

#[derive(Default, Deserialize)]
struct ModelConfig {
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    prompts: Option<BTreeMap<String, String>>,
    #[serde(default)]
    default_prompt_name: Option<String>,
    #[serde(default)]
    similarity_fn_name: Option<String>,
}

pub(super) fn model(root: &Path) -> Result<Model, EmbedError> {
    let file = root.join("config_sentence_transformers.json");
    let config: ModelConfig = read_optional(&file)?;
    let by_name = config.prompts.unwrap_or_default();
    if let Some(name) = config
        .default_prompt_name
        .as_ref()
        .filter(|name| !by_name.contains_key(*name))
    {
        let known = by_name.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(EmbedError::file(
            &file,
            format!("default_prompt_name is `{name}`, which `prompts` does not hold"),
            format!("name one of [{known}]"),
        ));
    }
    let name = config.similarity_fn_name.as_deref().unwrap_or("cosine");
    let similarity = Similarity::named(name).ok_or_else(|| {
        let known: Vec<_> = Similarity::all().map(ProtoEnum::name).collect();
        EmbedError::file(
            &file,
            format!("similarity_fn_name is `{name}`"),
            format!("supported: {}", known.join(", ")),
        )
    })?;
    Ok(Model {
        prompts: Prompts {
            by_name,
            default: config.default_prompt_name,
        },
        similarity,
        model_type: config.model_type,
    })
}

/// `matryoshka_dimensions` of `config.json`, if present.
pub(super) fn matryoshka(file: &Path, config: &Value) -> Result<Vec<usize>, EmbedError> {
    match config.get("matryoshka_dimensions") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(value) => serde_json::from_value(value.clone()).map_err(|error| {
            EmbedError::file(
                file,
                format!("matryoshka_dimensions: {error}"),
                "give a list of whole numbers",
            )
        }),
    }
}
