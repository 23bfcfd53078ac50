//! Transformer architectures: one file each, selected by `model_type` of `config.json`.

mod bert;
mod deberta;
mod decoder;
mod distilbert;
mod encoder;
mod gte;
mod jina;
mod modernbert;
mod mpnet;
mod nomic;
mod nv_embed;
mod reader;
mod roberta;
mod rope;
mod settings;
#[cfg_attr(not(feature = "t5"), path = "without_t5.rs")]
mod t5;

use decoder::family as decoders;
use serde_json::Value;
use settings::Settings;

use crate::{
    backend::{Sink, Threads},
    batch::TokenBatch,
    device::Device,
    error::EmbedError,
    folder::ModelFolder,
    weights::Weights,
};

/// A loaded transformer: token ids in, one vector per token out.
pub trait Architecture: Send + Sync {
    /// `model_type`, e.g. `bert`.
    fn name(&self) -> &'static str;
    /// Width of a token's vector.
    fn hidden_size(&self) -> usize;
    /// Maximum length of a text, in tokens.
    fn max_positions(&self) -> usize;
    /// Upper bound (exclusive) of token ids.
    fn vocabulary(&self) -> usize;
    /// Runs the batch and passes `tokens × hidden_size` values to the sink, or the sums that the
    /// batch requests instead. Ids and lengths must be within the limits above.
    fn forward(&self, batch: &TokenBatch, threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError>;
}

type Load = fn(&ModelFolder, &Weights, &Device) -> Result<Box<dyn Architecture>, EmbedError>;

/// A supported architecture.
pub struct Family {
    pub model_type: &'static str,
    /// Known encoders of the family, for readers.
    pub models: &'static str,
    load: Load,
}

const fn family(model_type: &'static str, models: &'static str, load: Load) -> Family {
    Family {
        model_type,
        models,
        load,
    }
}

/// Every supported architecture.
pub const SERVED: [Family; 17] = [
    family(
        "bert",
        "BERT; Jina v2 (`position_embedding_type` is `alibi`)",
        |folder, weights, device| {
            // Jina's v2 models also have the model type bert.
            if folder.config["position_embedding_type"] == "alibi" {
                reader::place(&jina::Config::read(folder)?, weights, device)
            } else {
                reader::place(&bert::Config::read(folder)?, weights, device)
            }
        },
    ),
    family("roberta", "RoBERTa", |folder, weights, device| {
        reader::place(&roberta::read(folder, "roberta")?, weights, device)
    }),
    family("xlm-roberta", "XLM-R", |folder, weights, device| {
        reader::place(&roberta::read(folder, "xlm-roberta")?, weights, device)
    }),
    family("camembert", "CamemBERT", |folder, weights, device| {
        reader::place(&roberta::read(folder, "camembert")?, weights, device)
    }),
    family("deberta-v2", "DeBERTa v2 and v3", |folder, weights, device| {
        reader::place(&deberta::Config::read(folder)?, weights, device)
    }),
    family("distilbert", "DistilBERT", |folder, weights, device| {
        reader::place(&distilbert::Config::read(folder)?, weights, device)
    }),
    family("mpnet", "MPNet", |folder, weights, device| {
        reader::place(&mpnet::Config::read(folder)?, weights, device)
    }),
    family("modernbert", "ModernBERT", |folder, weights, device| {
        reader::place(&modernbert::Config::read(folder)?, weights, device)
    }),
    family("nomic_bert", "Nomic", |folder, weights, device| {
        reader::place(&nomic::Config::read(folder)?, weights, device)
    }),
    family("new", "GTE v1.5", |folder, weights, device| {
        reader::place(&gte::Config::read(folder)?, weights, device)
    }),
    family("llama", "Llama", |folder, weights, device| {
        reader::place(&decoders::llama(Settings::of(folder))?, weights, device)
    }),
    family("mistral", "e5-mistral", |folder, weights, device| {
        reader::place(&decoders::mistral(Settings::of(folder))?, weights, device)
    }),
    family("qwen2", "gte-Qwen2, Stella 1.5B", |folder, weights, device| {
        reader::place(&decoders::qwen2(Settings::of(folder))?, weights, device)
    }),
    family("qwen3", "Qwen3-Embedding, F2LLM", |folder, weights, device| {
        reader::place(&decoders::qwen3(Settings::of(folder))?, weights, device)
    }),
    family("gemma3_text", "EmbeddingGemma", |folder, weights, device| {
        reader::place(&decoders::gemma3(Settings::of(folder))?, weights, device)
    }),
    family("nvembed", "NV-Embed", |folder, weights, device| {
        reader::place(&nv_embed::Config::read(folder)?, weights, device)
    }),
    family(T5, "T5 encoders: sentence-T5, GTR, INSTRUCTOR", t5::load),
];

/// The family that candle-transformers computes, in builds with feature `t5`.
const T5: &str = "t5";

fn model_type(folder: &ModelFolder) -> Option<&str> {
    folder.config.get("model_type").and_then(Value::as_str)
}

/// The device that computes a folder. It is the requested one, or Candle's CPU in place of ours for
/// a family that our kernels do not support.
pub fn placed(folder: &ModelFolder, device: &Device) -> Device {
    match device {
        Device::Cpu if model_type(folder) == Some(T5) => Device::candle(candle_core::Device::Cpu),
        device => device.clone(),
    }
}

/// The family of a folder, if the device supports it. Reads no weights.
///
/// # Errors
/// If the architecture is unknown or the device lacks it.
pub fn check(folder: &ModelFolder, device: &Device) -> Result<&'static str, EmbedError> {
    let kind = model_type(folder);
    let Some(Family { model_type, .. }) = SERVED.iter().find(|family| Some(family.model_type) == kind) else {
        return Err(unserved(folder));
    };
    if *model_type == T5 {
        t5::check(folder, device).map(|_| ())?;
    }
    Ok(model_type)
}

fn unserved(folder: &ModelFolder) -> EmbedError {
    EmbedError::file(
        &folder.config_file(),
        format!(
            "architecture `{}` is not served",
            model_type(folder).unwrap_or("(no model_type)")
        ),
        format!("supported: {}", SERVED.map(|family| family.model_type).join(", ")),
    )
}

/// Loads the transformer of a folder onto a device.
///
/// # Errors
/// If the architecture is unknown, one of its settings is unsupported, or tensors do not match.
pub fn load(folder: &ModelFolder, weights: &Weights, device: &Device) -> Result<Box<dyn Architecture>, EmbedError> {
    let kind = model_type(folder);
    match SERVED.iter().find(|family| Some(family.model_type) == kind) {
        Some(family) => (family.load)(folder, weights, device),
        None => Err(unserved(folder)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::HashSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_served_architecture_has_a_tiny_model_with_goldens() {
        let fixtures = Path::new(".").join("tests/fixtures");
        let mut modelled = HashSet::new();
        for folder in fs::read_dir(fixtures).unwrap() {
            let folder = folder.unwrap().path();
            if folder.join("golden.safetensors").is_file()
                && let Ok(config) = fs::read(folder.join("config.json"))
            {
                let config: Value = serde_json::from_slice(&config).unwrap();
                modelled.extend(config["model_type"].as_str().map(str::to_owned));
            }
        }
        let without: Vec<&str> = SERVED
            .iter()
            .map(|family| family.model_type)
            .filter(|name| !modelled.contains(*name))
            .collect();
        // CamemBERT uses RoBERTa's reader, tensor by tensor.
        assert_eq!(without, ["camembert"]);
    }
}
