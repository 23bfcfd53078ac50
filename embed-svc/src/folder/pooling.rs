//! The folder of a `Pooling` module.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::read_json;
use crate::{error::EmbedError, pooling::PoolingMode};

/// The conversion of token vectors into the text's vector.
#[derive(Debug, Clone)]
pub(super) struct Pooling {
    pub(super) modes: Vec<PoolingMode>,
    /// Whether the tokens of the prompt are pooled with the others.
    pub(super) include_prompt: bool,
    /// Expected width of a token's vector, and the file that states it.
    pub(super) width: Option<(usize, PathBuf)>,
}

impl Pooling {
    /// No pooling.
    pub(super) fn none() -> Self {
        Self {
            modes: Vec::new(),
            ..Self::mean()
        }
    }

    pub(super) fn last_token() -> Self {
        Self {
            modes: vec![PoolingMode::LastToken],
            ..Self::mean()
        }
    }

    pub(super) fn mean() -> Self {
        Self {
            modes: vec![PoolingMode::Mean],
            include_prompt: true,
            width: None,
        }
    }
}

pub(super) fn read(folder: &Path) -> Result<Pooling, EmbedError> {
    let file = folder.join("config.json");
    let config: Value = read_json(&file)?;
    let width = config
        .get("word_embedding_dimension")
        .or(config.get("embedding_dimension"))
        .and_then(Value::as_u64)
        .and_then(|width| usize::try_from(width).ok());
    let include_prompt = match config.get("include_prompt") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(include)) => *include,
        Some(other) => {
            return Err(EmbedError::file(
                &file,
                format!("include_prompt is {other}"),
                "give true or false",
            ));
        }
    };
    Ok(Pooling {
        modes: modes(&file, &config)?,
        include_prompt,
        width: width.map(|width| (width, file)),
    })
}

/// Reads the flags of older versions or the `pooling_mode` of newer ones.
fn modes(file: &Path, config: &Value) -> Result<Vec<PoolingMode>, EmbedError> {
    let refuse = |problem: String| {
        let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
        EmbedError::file(file, problem, format!("supported: {known}"))
    };
    if let Some(modes) = config.get("pooling_mode") {
        let names: Vec<&str> = match modes {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let modes: Vec<_> = names
            .into_iter()
            .map(PoolingMode::named)
            .collect::<Option<_>>()
            .unwrap_or_default();
        return if modes.is_empty() {
            Err(refuse(format!("pooling_mode is {}", config["pooling_mode"])))
        } else {
            Ok(modes)
        };
    }
    let flags: Vec<&str> = config
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true))
        .map(|(key, _)| key.as_str())
        .collect();
    if let Some(unknown) = flags
        .iter()
        .find(|key| PoolingMode::ALL.iter().all(|mode| mode.config_key() != **key))
    {
        return Err(refuse(format!("`{unknown}` is not served")));
    }
    let modes: Vec<_> = PoolingMode::ALL
        .into_iter()
        .filter(|mode| flags.contains(&mode.config_key()))
        .collect();
    if modes.is_empty() {
        Err(refuse("no pooling mode is switched on".into()))
    } else {
        Ok(modes)
    }
}
