//! The settings of a classification head in its checkpoint. The head belongs to a cross-encoder or
//! to a classifier of single texts.

use std::path::Path;

use serde_json::Value;

use super::read_optional;
use crate::{activation::Elementwise, error::EmbedError};

/// The head of a `…ForSequenceClassification` checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Names of its labels, in order; empty if the configuration names none.
    pub labels: Vec<String>,
    /// The function applied to the logits. It is the one that the folder names, else a sigmoid for
    /// one label and no function for several (sentence-transformers' `CrossEncoder`). `None` if the
    /// folder does not decide it.
    pub activation: Option<Elementwise>,
}

/// Reads the head's settings, if the architecture has one.
pub(super) fn read(root: &Path, file: &Path, config: &Value) -> Result<Option<Head>, EmbedError> {
    let architecture = config
        .get("architectures")
        .and_then(|names| names.get(0))
        .and_then(Value::as_str);
    if !architecture.is_some_and(|name| name.ends_with("ForSequenceClassification")) {
        return Ok(None);
    }
    let model: Value = read_optional(&root.join("config_sentence_transformers.json"))?;
    let named = [
        config
            .get("sentence_transformers")
            .and_then(|settings| settings.get("activation_fn")),
        config.get("sbert_ce_default_activation_function"),
        model.get("activation_fn"),
    ];
    let activation = named
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .map(|name| {
            Elementwise::of_torch(name).ok_or_else(|| {
                EmbedError::file(
                    file,
                    format!("activation {name} of the scores is not served"),
                    format!("supported: torch.nn's {}", Elementwise::names()),
                )
            })
        })
        .transpose()?;
    let labels = config.get("id2label").and_then(Value::as_object).map(|labels| {
        (0..labels.len())
            .map(|id| {
                let name = labels.get(&id.to_string()).and_then(Value::as_str);
                name.map_or_else(|| format!("LABEL_{id}"), str::to_owned)
            })
            .collect()
    });
    Ok(Some(Head {
        labels: labels.unwrap_or_default(),
        activation,
    }))
}
