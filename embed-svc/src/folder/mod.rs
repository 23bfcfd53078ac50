//! What a sentence-transformers folder says, read once and checked, before any weight is touched.
//!
//! A folder that asks for something we cannot do exactly is refused here: nothing is approximated.

mod modules;
mod settings;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::{error::EmbedError, pooling::PoolingMode};

pub use modules::{DenseActivation, Stage};
pub use settings::{Prompts, Similarity};

/// A model folder, described.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// The folder that `modules.json` lies in.
    pub root: PathBuf,
    /// The folder of the transformer: `config.json`, `tokenizer.json`, weights.
    pub transformer: PathBuf,
    /// `config.json` of the transformer.
    pub config: serde_json::Value,
    /// How tokens become one vector.
    pub pooling: Vec<PoolingMode>,
    /// What follows the pooling, in order.
    pub stages: Vec<Stage>,
    /// Longest input in tokens that the folder itself names, if it does.
    pub max_seq_length: Option<usize>,
    /// Whether texts are lower-cased before tokenisation.
    pub lower_case: bool,
    /// Named prompts.
    pub prompts: Prompts,
    /// How vectors are compared.
    pub similarity: Similarity,
    /// Dimensions that the model was trained to be cut to; empty where the folder does not say.
    pub matryoshka: Vec<usize>,
    /// What a person should know, e.g. that mean pooling was assumed.
    pub warnings: Vec<String>,
}

impl ModelFolder {
    /// Reads a folder.
    ///
    /// # Errors
    /// Names the file, what is wrong in it and how to mend it.
    pub fn read(root: &Path) -> Result<Self, EmbedError> {
        if !root.is_dir() {
            return Err(EmbedError::file(
                root,
                "is not a folder",
                "give the folder of a sentence-transformers model",
            ));
        }
        let mut warnings = Vec::new();
        let pipeline = modules::read(root, &mut warnings)?;
        let config_file = pipeline.transformer.join("config.json");
        let config: serde_json::Value = read_json(&config_file)?;
        if !config.is_object() {
            return Err(EmbedError::file(
                &config_file,
                "is not a JSON object",
                "fetch the model again",
            ));
        }
        let hidden = config
            .get("hidden_size")
            .and_then(serde_json::Value::as_u64)
            .and_then(|size| usize::try_from(size).ok());
        if let (Some((width, file)), Some(hidden)) = (&pipeline.pooled_width, hidden)
            && *width != hidden
        {
            return Err(EmbedError::file(
                file,
                format!("pools vectors of {width} columns, hidden_size in config.json is {hidden}"),
                "the modules of this folder do not belong together",
            ));
        }
        let tokenizer = pipeline.transformer.join("tokenizer.json");
        if !tokenizer.is_file() {
            return Err(EmbedError::file(
                &tokenizer,
                "there is no tokenizer",
                "save the model with a fast tokenizer: \
                 `AutoTokenizer.from_pretrained(dir, use_fast=True).save_pretrained(dir)` writes tokenizer.json",
            ));
        }
        let transformer = settings::transformer(&pipeline.transformer, &config)?;
        let model = settings::model(root)?;
        let matryoshka = settings::matryoshka(&config_file, &config)?;
        Ok(Self {
            root: root.to_path_buf(),
            transformer: pipeline.transformer,
            config,
            pooling: pipeline.pooling,
            stages: pipeline.stages,
            max_seq_length: transformer.max_seq_length,
            lower_case: transformer.lower_case,
            prompts: model.prompts,
            similarity: model.similarity,
            matryoshka,
            warnings,
        })
    }

    /// `config.json` of the transformer, for errors.
    pub fn config_file(&self) -> PathBuf {
        self.transformer.join("config.json")
    }

    /// Whether the pipeline ends with unit-length vectors.
    pub fn normalises(&self) -> bool {
        self.stages.last() == Some(&Stage::Normalize)
    }
}

/// Reads a JSON file.
///
/// # Errors
/// Names the file: missing, or line and column of what is not JSON or not of this shape.
pub(crate) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, EmbedError> {
    let text = std::fs::read(file).map_err(|error| {
        let problem = if error.kind() == std::io::ErrorKind::NotFound {
            "the file is missing".to_owned()
        } else {
            format!("cannot be read: {error}")
        };
        EmbedError::file(file, problem, "the folder is incomplete; fetch the model again")
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| EmbedError::file(file, format!("cannot be understood: {error}"), "fetch the model again"))
}

/// [`read_json`] of a file that may be absent.
pub(crate) fn read_optional<T: DeserializeOwned + Default>(file: &Path) -> Result<T, EmbedError> {
    if file.is_file() {
        read_json(file)
    } else {
        Ok(T::default())
    }
}
