//! Settings of the modules that compute sparse vectors and vectors for late interaction.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::read_json;
use crate::error::EmbedError;

/// The source of sparse vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sparse {
    /// SPLADE: the scores of a masked language model, pooled over the tokens of a text.
    Splade(Splade),
    /// BGE-M3: a weight of each token, by a linear layer in this file.
    Lexical(PathBuf),
}

/// The pooling of SPLADE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splade {
    /// Whether scores are added over the tokens. Otherwise the largest counts.
    pub sum: bool,
    /// How often `ln(1 + x)` is applied to a score: once, or twice (`log1p_relu`).
    pub logarithms: usize,
}

/// Reads the settings of a `SpladePooling` module.
pub(super) fn splade(folder: &Path) -> Result<Splade, EmbedError> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default = "max")]
        pooling_strategy: String,
        #[serde(default = "relu")]
        activation_function: String,
    }
    fn max() -> String {
        "max".to_owned()
    }
    fn relu() -> String {
        "relu".to_owned()
    }
    let file = folder.join("config.json");
    let config: Config = read_json(&file)?;
    let refuse = |key: &str, value: &str, served: &str| {
        let problem = format!("{key} is `{value}`");
        Err(EmbedError::file(&file, problem, format!("supported: {served}")))
    };
    let sum = match config.pooling_strategy.as_str() {
        "max" => false,
        "sum" => true,
        other => return refuse("pooling_strategy", other, "max and sum"),
    };
    let logarithms = match config.activation_function.as_str() {
        "relu" => 1,
        "log1p_relu" => 2,
        other => return refuse("activation_function", other, "relu and log1p_relu"),
    };
    Ok(Splade { sum, logarithms })
}

/// The linear layers that FlagEmbedding adds to BGE-M3.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) sparse: Option<PathBuf>,
    pub(super) late_interaction: Option<PathBuf>,
}

/// Finds the linear layers beside a model's `modules.json`. A pickle is not opened, and a warning
/// says so.
pub(super) fn layers(root: &Path, warnings: &mut Vec<String>) -> Layers {
    let mut layer = |name: &str| {
        let file = root.join(format!("{name}.safetensors"));
        if file.is_file() {
            return Some(file);
        }
        let pickle = root.join(format!("{name}.pt"));
        if pickle.is_file() {
            warnings.push(format!(
                "{} is a pickle, which can run code and is not opened, so its vectors are not served; convert it once \
                 in Python: safetensors.torch.save_file(torch.load('{name}.pt', weights_only=True), '{name}.safetensors')",
                pickle.display()
            ));
        }
        None
    };
    Layers {
        sparse: layer("sparse_linear"),
        late_interaction: layer("colbert_linear"),
    }
}
