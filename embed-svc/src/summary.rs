//! A description of a model from the files of its folder. The weights of a transformer are not
//! read.

use std::path::Path;

use serde::Serialize;

use crate::{
    arch,
    config::EmbedConfig,
    device::Device,
    error::EmbedError,
    folder::{ModelFolder, Source, Stage},
    model::Model,
    registry::weight_bytes,
};

/// A model, and its device and arithmetic under a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// `model_type` of a transformer, or the kind of static vectors.
    pub family: String,
    /// Columns of a text's vector, or of a token's vector in a model without a pooling. `None` for
    /// a cross-encoder, and if only the weights give the number.
    pub dimensions: Option<usize>,
    /// Maximum length of an input in tokens. `None` if the files set no limit.
    pub max_tokens: Option<usize>,
    /// The pooling's modes; empty for a cross-encoder and for token vectors only.
    pub pooling: Vec<&'static str>,
    /// Whether the tokens of a prompt are pooled with the others.
    pub include_prompt: bool,
    /// Stages after the pooling, in order.
    pub stages: Vec<&'static str>,
    /// Labels of a cross-encoder's head; empty if it names none, and for other models.
    pub labels: Vec<String>,
    /// Prompts that requests can name.
    pub prompts: Vec<String>,
    /// The code that computes it: `kernels` or `candle`.
    pub backend: &'static str,
    /// The arithmetic of the computation: `f32`, `f16`, `bf16` or `int8`.
    pub precision: &'static str,
    /// The instructions of our kernel for linear layers, e.g. `avx512-bf16`; `None` for Candle and
    /// for tables of vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<&'static str>,
    /// The device; several GPUs are separated by commas.
    pub device: String,
    /// Total size of its weight files on disk.
    #[serde(skip)]
    pub weight_bytes: u64,
    /// Warnings for a person.
    pub warnings: Vec<String>,
}

impl Summary {
    /// Describes the model at `path`, which came from `source`, under the configuration.
    ///
    /// # Errors
    /// If the folder cannot be used, or the device does not support the family or its arithmetic.
    /// The error equals that of loading the model.
    pub fn of(path: &Path, source: &str, config: &EmbedConfig) -> Result<Self, EmbedError> {
        let folder = ModelFolder::of_source(path, source)?;
        let names = |stages: &[Stage]| stages.iter().map(Stage::name).collect::<Vec<_>>();
        let summary = Self {
            family: String::new(),
            dimensions: None,
            max_tokens: folder.max_seq_length,
            pooling: folder.pooling.iter().map(|mode| mode.name()).collect(),
            include_prompt: folder.include_prompt,
            stages: names(&folder.stages),
            labels: folder.head.iter().flat_map(|head| head.labels.clone()).collect(),
            prompts: folder.prompts.by_name.keys().cloned().collect(),
            backend: Device::Cpu.backend(),
            precision: Device::Cpu.precision().name(),
            instructions: None,
            device: Device::Cpu.name(),
            weight_bytes: weight_bytes(path),
            warnings: folder.warnings.clone(),
        };
        if folder.source != Source::Transformer {
            // Tables of vectors are looked up on the CPU in f32, whatever the configuration.
            let model = Model::of(folder, &Device::Cpu)?;
            return Ok(Self {
                family: model.architecture().to_owned(),
                dimensions: Some(model.dimensions()),
                max_tokens: Some(model.max_tokens()),
                ..summary
            });
        }
        let devices = Device::open(&config.device, config.precision, config.backend)?;
        let placed: Vec<Device> = devices.iter().map(|device| arch::placed(&folder, device)).collect();
        let first = placed.first().unwrap_or(&Device::Cpu);
        Ok(Self {
            family: arch::check(&folder, first)?.to_owned(),
            dimensions: width(&folder),
            backend: first.backend(),
            precision: first.precision().name(),
            instructions: first.instructions(),
            device: placed.iter().map(Device::name).collect::<Vec<_>>().join(","),
            ..summary
        })
    }
}

/// Columns of a vector: the output width of the last Dense module, else the pooled width.
fn width(folder: &ModelFolder) -> Option<usize> {
    let last = |stages: &[Stage]| {
        stages.iter().rev().find_map(|stage| match stage {
            Stage::Dense(layer) => Some(layer.outputs),
            _ => None,
        })
    };
    if folder.head.is_some() {
        return None;
    }
    let pooled = last(&folder.token_stages)
        .or(folder.token_width)
        .map(|width| width * folder.pooling.len().max(1));
    last(&folder.stages).or(pooled)
}
