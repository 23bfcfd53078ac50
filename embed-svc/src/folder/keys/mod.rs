//! The keys of a model folder's JSON files that sentence-transformers and transformers read, and
//! the rule of each. A value that would give other vectors here than there is refused by name.

mod table;

use std::{
    fmt::{self, Display, Formatter},
    path::Path,
};

use serde_json::{Map, Value};

use super::read_optional;
use crate::error::EmbedError;

pub use table::TABLE;

/// A JSON file of a model folder, or the part of it that is listed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderFile {
    Config,
    Model,
    Modules,
    /// `sentence_bert_config.json`, or one of its older names.
    Transformer,
    /// The arguments for transformers in `sentence_bert_config.json`.
    Arguments,
    Tokenizer,
    TokenizerConfig,
    SpecialTokens,
    AddedTokens,
    Pooling,
    SpladePooling,
    Dense,
    LayerNorm,
    Normalize,
    Dropout,
    WordWeights,
    WordEmbeddings,
    WordList,
}

impl FolderFile {
    /// The file's name, or the class of the module whose `config.json` it is.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config.json",
            Self::Model => "config_sentence_transformers.json",
            Self::Modules => "modules.json",
            Self::Transformer => "sentence_bert_config.json",
            Self::Arguments => "arguments",
            Self::Tokenizer => "tokenizer.json",
            Self::TokenizerConfig => "tokenizer_config.json",
            Self::SpecialTokens => "special_tokens_map.json",
            Self::AddedTokens => "added_tokens.json",
            Self::Pooling => "Pooling",
            Self::SpladePooling => "SpladePooling",
            Self::Dense => "Dense",
            Self::LayerNorm => "LayerNorm",
            Self::Normalize => "Normalize",
            Self::Dropout => "Dropout",
            Self::WordWeights => "WordWeights",
            Self::WordEmbeddings => "wordembedding_config.json",
            Self::WordList => "whitespacetokenizer_config.json",
        }
    }

    /// The file that configures a module of a class.
    pub(super) fn of_module(class: &str) -> Option<Self> {
        let modules = [
            Self::Pooling,
            Self::SpladePooling,
            Self::Dense,
            Self::LayerNorm,
            Self::Normalize,
            Self::Dropout,
            Self::WordWeights,
        ];
        modules.into_iter().find(|file| file.name() == class)
    }

    /// Whether other keys than those of the table are rare. `config.json` and the files of
    /// tokenizers of the hub hold many that no program reads.
    const fn is_closed(self) -> bool {
        !matches!(
            self,
            Self::Config | Self::Tokenizer | Self::TokenizerConfig | Self::SpecialTokens | Self::AddedTokens
        )
    }
}

/// The treatment of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// Its value is followed, as sentence-transformers follows it.
    Obeyed,
    /// Its value must agree with another file, which is followed.
    Compared(&'static str),
    /// No value changes a vector, for this reason.
    NoEffect(&'static str),
    /// Only these values (JSON) are served.
    Only(&'static [&'static str]),
    /// A value is refused, unless it is null, false or empty. The text is the remedy.
    Refused(&'static str),
    /// Arguments for transformers. Each has a row of its own, and others are refused.
    Arguments,
}

impl Display for KeyRule {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Obeyed => write!(formatter, "obeyed"),
            Self::Compared(file) => write!(formatter, "must agree with {file}"),
            Self::NoEffect(reason) => write!(formatter, "no effect: {reason}"),
            Self::Only(served) => write!(formatter, "only `{}`", served.join("` or `")),
            Self::Refused(remedy) => write!(formatter, "refused, unless null, false or empty: {remedy}"),
            Self::Arguments => write!(formatter, "each argument has a row below; others are refused"),
        }
    }
}

/// Keys of one file that have the same rule.
#[derive(Debug, Clone, Copy)]
pub struct KeyGroup {
    pub file: FolderFile,
    pub rule: KeyRule,
    /// Separated by spaces.
    keys: &'static str,
}

impl KeyGroup {
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.keys.split(' ')
    }
}

/// The rule of a key; `None` for a key that sentence-transformers does not read.
pub fn rule(file: FolderFile, key: &str) -> Option<KeyRule> {
    let mut groups = TABLE.iter().filter(|group| group.file == file);
    groups
        .find(|group| group.keys().any(|name| name == key))
        .map(|group| group.rule)
}

/// Checks the keys of a file, which may be absent, or of each object in its list. Keys without a
/// rule become a warning.
pub(super) fn check(kind: FolderFile, file: &Path, warnings: &mut Vec<String>) -> Result<(), EmbedError> {
    let content: Value = read_optional(file)?;
    let objects = match &content {
        Value::Array(entries) => entries.iter().filter_map(Value::as_object).collect(),
        other => other.as_object().into_iter().collect::<Vec<_>>(),
    };
    let mut unknown = Vec::new();
    for object in objects {
        unknown.extend(check_object(kind, file, object)?);
    }
    if kind.is_closed() && !unknown.is_empty() {
        warnings.push(format!(
            "{}: neither sentence-transformers nor this server reads {}",
            file.display(),
            unknown.join(", ")
        ));
    }
    Ok(())
}

/// Checks the values of an object, and returns its keys without a rule.
fn check_object<'a>(kind: FolderFile, file: &Path, object: &'a Map<String, Value>) -> Result<Vec<&'a str>, EmbedError> {
    let refuse = |key: &str, value: &Value, hint: String| {
        // An untrusted file may contain a value of any length.
        let shown: String = value.to_string().chars().take(100).collect();
        Err(EmbedError::file(
            file,
            format!("{key} is {shown}, which is not served"),
            hint,
        ))
    };
    let mut unknown = Vec::new();
    for (key, value) in object {
        match rule(kind, key) {
            None => unknown.push(key.as_str()),
            Some(KeyRule::Only(served)) => {
                let is = |text: &&str| serde_json::from_str::<Value>(text).is_ok_and(|served| served == *value);
                if !value.is_null() && !served.iter().any(is) {
                    return refuse(key, value, format!("served is: {}", served.join(", ")));
                }
            }
            Some(KeyRule::Refused(remedy)) if !is_empty(value) => return refuse(key, value, remedy.to_owned()),
            Some(KeyRule::Arguments) => {
                let arguments = value.as_object().into_iter().flatten();
                for (argument, value) in arguments {
                    if rule(FolderFile::Arguments, argument).is_none() {
                        let hint = "write the setting into config.json or tokenizer.json and remove it here";
                        return refuse(&format!("{key}.{argument}"), value, hint.to_owned());
                    }
                }
            }
            Some(_) => {}
        }
    }
    Ok(unknown)
}

/// Whether a value requests nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
