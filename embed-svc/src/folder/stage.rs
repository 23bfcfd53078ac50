//! The folders of the modules between token vectors and the finished vector: Dense, LayerNorm,
//! Normalize, WordWeights.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{read_json, read_optional};
use crate::{activation::Elementwise, error::EmbedError};

/// The operation of a module on each vector.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// A linear layer.
    Dense(Dense),
    /// Layer normalisation.
    LayerNorm {
        /// Folder with `model.safetensors`.
        folder: PathBuf,
        /// Width in and out.
        width: usize,
    },
    /// Scaling to unit length.
    Normalize,
    /// A factor for each token id. Means are then divided by the sum of the factors.
    WordWeights {
        /// The module's folder.
        folder: PathBuf,
        /// The factors, in the order of the ids.
        factors: Vec<f32>,
    },
}

impl Stage {
    /// Its name in a description of the pipeline.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense",
            Self::LayerNorm { .. } => "layernorm",
            Self::Normalize => "normalize",
            Self::WordWeights { .. } => "wordweights",
        }
    }
}

/// A linear layer with an activation and, optionally, a residual connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dense {
    /// Folder with `model.safetensors`.
    pub folder: PathBuf,
    /// Width in.
    pub inputs: usize,
    /// Width out.
    pub outputs: usize,
    pub bias: bool,
    /// Activation applied to the result.
    pub activation: Elementwise,
    /// Whether the input is added to the result, through a separate matrix if the widths differ.
    pub residual: bool,
}

/// The vectors that a module works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StageInput {
    Tokens,
    Sentence,
}

/// Reads the folder of a module; `None` for a class that does not change vectors.
pub(super) fn read(class: &str, folder: &Path) -> Result<Option<(StageInput, Stage)>, EmbedError> {
    match class {
        "Dense" => dense(folder).map(Some),
        "Normalize" => normalize(folder).map(Some),
        "LayerNorm" => layer_norm(folder).map(Some),
        "WordWeights" => word_weights(folder).map(Some),
        _ => Ok(None),
    }
}

#[derive(Default, Deserialize)]
struct Names {
    #[serde(default)]
    module_input_name: Option<String>,
    #[serde(default)]
    module_output_name: Option<String>,
}

impl Names {
    /// Checks that the module works in place, on one of the two supported kinds of vectors.
    fn on(&self, file: &Path) -> Result<StageInput, EmbedError> {
        let input = self.module_input_name.as_deref().unwrap_or("sentence_embedding");
        let output = self.module_output_name.as_deref().unwrap_or(input);
        match (input, output) {
            ("sentence_embedding", "sentence_embedding") => Ok(StageInput::Sentence),
            ("token_embeddings", "token_embeddings") => Ok(StageInput::Tokens),
            _ => Err(EmbedError::file(
                file,
                format!("reads `{input}` and writes `{output}`"),
                "served is sentence_embedding or token_embeddings, in place",
            )),
        }
    }
}

#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    #[serde(default)]
    activation_function: Option<String>,
    #[serde(default)]
    use_residual: bool,
    #[serde(flatten)]
    names: Names,
}

fn yes() -> bool {
    true
}

fn dense(folder: &Path) -> Result<(StageInput, Stage), EmbedError> {
    let file = folder.join("config.json");
    let config: DenseConfig = read_json(&file)?;
    let activation = match &config.activation_function {
        // sentence-transformers' default for a missing key.
        None => Elementwise::Tanh,
        Some(name) => Elementwise::of_torch(name).ok_or_else(|| {
            EmbedError::file(
                &file,
                format!("activation {name} is not served"),
                format!("supported: torch.nn's {}", Elementwise::names()),
            )
        })?,
    };
    if config.in_features == 0 || config.out_features == 0 {
        return Err(EmbedError::file(&file, "a width is 0", "fetch the model again"));
    }
    Ok((
        config.names.on(&file)?,
        Stage::Dense(Dense {
            folder: folder.to_path_buf(),
            inputs: config.in_features,
            outputs: config.out_features,
            bias: config.bias,
            activation,
            residual: config.use_residual,
        }),
    ))
}

fn normalize(folder: &Path) -> Result<(StageInput, Stage), EmbedError> {
    // Only newer versions write a configuration, but not into the model's root folder.
    let file = folder.join("config.json");
    let names: Names = if folder.join("modules.json").is_file() {
        Names::default()
    } else {
        read_optional(&file)?
    };
    Ok((names.on(&file)?, Stage::Normalize))
}

fn layer_norm(folder: &Path) -> Result<(StageInput, Stage), EmbedError> {
    #[derive(Deserialize)]
    struct Config {
        dimension: usize,
    }
    let config: Config = read_json(&folder.join("config.json"))?;
    let stage = Stage::LayerNorm {
        folder: folder.to_path_buf(),
        width: config.dimension,
    };
    Ok((StageInput::Sentence, stage))
}

fn word_weights(folder: &Path) -> Result<(StageInput, Stage), EmbedError> {
    #[derive(Deserialize)]
    struct Config {
        vocab: Vec<String>,
        word_weights: HashMap<String, f32>,
        #[serde(default = "one")]
        unknown_word_weight: f32,
    }
    fn one() -> f32 {
        1.0
    }
    let Config {
        vocab,
        word_weights,
        unknown_word_weight,
    } = read_json(&folder.join("config.json"))?;
    let weight = |word: &String| {
        let found = word_weights
            .get(word)
            .or_else(|| word_weights.get(&word.to_lowercase()));
        found.copied().unwrap_or(unknown_word_weight)
    };
    let stage = Stage::WordWeights {
        folder: folder.to_path_buf(),
        factors: vocab.iter().map(weight).collect(),
    };
    Ok((StageInput::Tokens, stage))
}
