//! Transformer architectures: one file each, chosen by `model_type` of `config.json`.

pub mod bert;

use serde_json::Value;

use crate::{
    backend::{Threads, candle::Candle, cpu::Cpu},
    batch::TokenBatch,
    device::Device,
    error::EmbedError,
    folder::ModelFolder,
    weights::Weights,
};

/// A loaded transformer: token ids in, one vector a token out.
pub trait Architecture: Send + Sync {
    /// `model_type`, e.g. `bert`.
    fn name(&self) -> &'static str;
    /// Width of a token's vector.
    fn hidden_size(&self) -> usize;
    /// Longest text, in tokens.
    fn max_positions(&self) -> usize;
    /// Ids must be smaller than this.
    fn vocabulary(&self) -> usize;
    /// Runs the batch and hands `tokens × hidden_size` values to `visit`. Ids and lengths must be within the limits above.
    fn forward(&self, batch: &TokenBatch, threads: Threads, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError>;
}

/// Loads the transformer of a folder onto a device.
///
/// # Errors
/// An architecture we do not have, a setting of it that we would not follow exactly, tensors that do not fit.
pub fn load(folder: &ModelFolder, weights: &Weights, device: &Device) -> Result<Box<dyn Architecture>, EmbedError> {
    let kind = folder.config.get("model_type").and_then(Value::as_str);
    match kind {
        Some("bert") => {
            let config = bert::Config::read(folder)?;
            match device {
                Device::Cpu => Ok(Box::new(bert::Bert::load(Cpu, &config, weights)?)),
                Device::Candle(device) => Ok(Box::new(bert::Bert::load(
                    Candle::new(device.clone()),
                    &config,
                    weights,
                )?)),
            }
        }
        _ => Err(EmbedError::file(
            &folder.config_file(),
            format!("architecture `{}` is not served", kind.unwrap_or("(no model_type)")),
            "served is: bert",
        )),
    }
}
