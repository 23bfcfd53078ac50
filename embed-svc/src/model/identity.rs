//! The identity of the settings that affect a vector.

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    folder::{Dense, ModelFolder, Source, Stage},
    tokenise::TextTokenizer,
};

/// Keys of `config.json` that record the origin of a checkpoint.
const WITHOUT_EFFECT: [&str; 4] = ["_name_or_path", "dtype", "torch_dtype", "transformers_version"];

/// SHA-256 (hex) of the parsed settings, in addition to the weights and the prompt. Files with the
/// same meaning have the same digest: neither their formatting nor their location matters.
pub(super) fn digest(folder: &ModelFolder, tokenizer: &TextTokenizer, max_tokens: usize) -> String {
    let stages = |stages: &[Stage]| stages.iter().map(without_place).collect::<Vec<_>>();
    let parts = [
        sorted(&folder.config).to_string(),
        format!("{:?}", folder.words),
        format!("{:?}", stages(&folder.token_stages)),
        format!("{:?} {}", folder.pooling, folder.include_prompt),
        format!("{:?}", stages(&folder.stages)),
        format!("{:?}", folder.head),
        format!("{max_tokens} {}", folder.lower_case),
        // The words of a text file are part of its weights, and may be millions.
        match folder.source {
            Source::TextFile => String::new(),
            _ => tokenizer.settings(),
        },
    ];
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

/// The same object with sorted keys, without those that do not affect vectors.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object
                .iter()
                .filter(|(key, _)| !WITHOUT_EFFECT.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn without_place(stage: &Stage) -> Stage {
    match stage.clone() {
        Stage::Dense(dense) => Stage::Dense(Dense {
            folder: PathBuf::new(),
            ..dense
        }),
        Stage::LayerNorm { width, .. } => Stage::LayerNorm {
            folder: PathBuf::new(),
            width,
        },
        Stage::WordWeights { factors, .. } => Stage::WordWeights {
            folder: PathBuf::new(),
            factors,
        },
        Stage::Normalize => Stage::Normalize,
    }
}
