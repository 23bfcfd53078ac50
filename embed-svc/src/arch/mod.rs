//! Transformer architectures: one file each, chosen by `model_type` of `config.json`.

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

use decoder::family;
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
    /// Longest text, in tokens.
    fn max_positions(&self) -> usize;
    /// Ids must be smaller than this.
    fn vocabulary(&self) -> usize;
    /// Runs the batch and passes `tokens × hidden_size` values to the sink, or the sums that the
    /// batch asks for instead. Ids and lengths must be within the limits above.
    fn forward(&self, batch: &TokenBatch, threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError>;
}

/// Loads the transformer of a folder onto a device.
///
/// # Errors
/// If the architecture is unknown, one of its settings cannot be followed exactly, or tensors do
/// not fit.
pub fn load(folder: &ModelFolder, weights: &Weights, device: &Device) -> Result<Box<dyn Architecture>, EmbedError> {
    let kind = folder.config.get("model_type").and_then(Value::as_str);
    match kind {
        // Jina's v2 models have the model type bert too.
        Some("bert") if folder.config["position_embedding_type"] == "alibi" => {
            reader::place(&jina::Config::read(folder)?, weights, device)
        }
        Some("bert") => reader::place(&bert::Config::read(folder)?, weights, device),
        Some("roberta") => reader::place(&roberta::read(folder, "roberta")?, weights, device),
        Some("xlm-roberta") => reader::place(&roberta::read(folder, "xlm-roberta")?, weights, device),
        Some("camembert") => reader::place(&roberta::read(folder, "camembert")?, weights, device),
        Some("distilbert") => reader::place(&distilbert::Config::read(folder)?, weights, device),
        Some("deberta-v2") => reader::place(&deberta::Config::read(folder)?, weights, device),
        Some("mpnet") => reader::place(&mpnet::Config::read(folder)?, weights, device),
        Some("modernbert") => reader::place(&modernbert::Config::read(folder)?, weights, device),
        Some("nomic_bert") => reader::place(&nomic::Config::read(folder)?, weights, device),
        Some("new") => reader::place(&gte::Config::read(folder)?, weights, device),
        Some("llama") => reader::place(&family::llama(Settings::of(folder))?, weights, device),
        Some("mistral") => reader::place(&family::mistral(Settings::of(folder))?, weights, device),
        Some("qwen2") => reader::place(&family::qwen2(Settings::of(folder))?, weights, device),
        Some("qwen3") => reader::place(&family::qwen3(Settings::of(folder))?, weights, device),
        Some("nvembed") => reader::place(&nv_embed::Config::read(folder)?, weights, device),
        Some("gemma3_text") => reader::place(&family::gemma3(Settings::of(folder))?, weights, device),
        _ => Err(EmbedError::file(
            &folder.config_file(),
            format!("architecture `{}` is not served", kind.unwrap_or("(no model_type)")),
            "served are: bert, roberta, xlm-roberta, camembert, deberta-v2, distilbert, mpnet, modernbert, nomic_bert, new, \
             llama, mistral, qwen2, qwen3, gemma3_text, nvembed",
        )),
    }
}
