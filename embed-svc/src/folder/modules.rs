//! `modules.json` and the folders it names.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::read_json;
use crate::{error::EmbedError, pooling::PoolingMode};

/// What follows the pooling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// A linear layer on the pooled vector; `folder` holds its weights.
    Dense {
        /// Folder with `model.safetensors`.
        folder: PathBuf,
        /// Width in.
        inputs: usize,
        /// Width out.
        outputs: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Applied to the result.
        activation: DenseActivation,
    },
    /// Scaling to unit length.
    Normalize,
}

/// Activation of a [`Stage::Dense`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenseActivation {
    /// None.
    Identity,
    /// Hyperbolic tangent.
    Tanh,
}

pub(super) struct Pipeline {
    pub(super) transformer: PathBuf,
    pub(super) pooling: Vec<PoolingMode>,
    /// Width of a token's vector that the pooling expects, and the file that says so.
    pub(super) pooled_width: Option<(usize, PathBuf)>,
    pub(super) stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct ModuleEntry {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    class: String,
}

const ORDER: &str = "served are Transformer, Pooling, then Dense and Normalize in any number";

pub(super) fn read(root: &Path, warnings: &mut Vec<String>) -> Result<Pipeline, EmbedError> {
    let file = root.join("modules.json");
    if !file.is_file() {
        warnings.push(format!(
            "{} has no modules.json: mean pooling without normalisation is assumed, as sentence-transformers does",
            root.display()
        ));
        return Ok(Pipeline {
            transformer: root.to_path_buf(),
            pooling: vec![PoolingMode::Mean],
            pooled_width: None,
            stages: Vec::new(),
        });
    }
    let entries: Vec<ModuleEntry> = read_json(&file)?;
    let mut modules = Vec::new();
    for entry in &entries {
        modules.push((class_name(&file, &entry.class)?, inside(root, &file, &entry.path)?));
    }
    let [("Transformer", transformer), ("Pooling", pooling), rest @ ..] = &modules[..] else {
        let found = modules.iter().map(|(class, _)| *class).collect::<Vec<_>>().join(", ");
        return Err(EmbedError::file(&file, format!("the pipeline is [{found}]"), ORDER));
    };
    let stages = rest
        .iter()
        .map(|(class, folder)| match *class {
            "Normalize" => Ok(Stage::Normalize),
            "Dense" => read_dense(folder),
            other => Err(EmbedError::file(
                &file,
                format!("module {other} stands where it cannot run"),
                ORDER,
            )),
        })
        .collect::<Result<_, _>>()?;
    let pooling_file = pooling.join("config.json");
    let config: Value = read_json(&pooling_file)?;
    let width = config
        .get("word_embedding_dimension")
        .or(config.get("embedding_dimension"))
        .and_then(Value::as_u64);
    let pooled_width = width
        .and_then(|width| usize::try_from(width).ok())
        .map(|width| (width, pooling_file.clone()));
    Ok(Pipeline {
        transformer: transformer.clone(),
        pooling: pooling_modes(&pooling_file, &config)?,
        pooled_width,
        stages,
    })
}

/// `sentence_transformers.models.Pooling` → `Pooling`; other packages' classes are code that we do not have.
fn class_name<'a>(file: &Path, class: &'a str) -> Result<&'a str, EmbedError> {
    let name = class.rsplit('.').next().unwrap_or(class);
    if class.starts_with("sentence_transformers.") && matches!(name, "Transformer" | "Pooling" | "Normalize" | "Dense")
    {
        return Ok(name);
    }
    Err(EmbedError::file(file, format!("module `{class}` is not served"), ORDER))
}

/// A module's folder, which must lie inside the model's.
fn inside(root: &Path, file: &Path, path: &str) -> Result<PathBuf, EmbedError> {
    if Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Ok(if path.is_empty() {
            root.to_path_buf()
        } else {
            root.join(path)
        });
    }
    Err(EmbedError::file(
        file,
        format!("module path `{path}` leaves the model's folder"),
        "give a path inside it",
    ))
}

/// `1_Pooling/config.json`: the flags of older versions or the `pooling_mode` of newer ones.
fn pooling_modes(file: &Path, config: &Value) -> Result<Vec<PoolingMode>, EmbedError> {
    let refuse = |problem: String| {
        let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
        EmbedError::file(file, problem, format!("served are {known}"))
    };
    if config
        .get("include_prompt")
        .is_some_and(|value| value == &Value::Bool(false))
    {
        return Err(refuse(
            "include_prompt = false (prompt left out of the pooling) is not served".into(),
        ));
    }
    if let Some(modes) = config.get("pooling_mode") {
        let names: Vec<&str> = match modes {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let modes: Vec<_> = names
            .iter()
            .map(|name| PoolingMode::ALL.into_iter().find(|mode| mode.name() == *name))
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
    #[serde(default)]
    module_input_name: Option<String>,
    #[serde(default)]
    module_output_name: Option<String>,
}

fn yes() -> bool {
    true
}

fn read_dense(folder: &Path) -> Result<Stage, EmbedError> {
    let file = folder.join("config.json");
    let config: DenseConfig = read_json(&file)?;
    let refuse =
        |problem: String| EmbedError::file(&file, problem, "served is a plain linear layer on the pooled vector");
    let elsewhere = |name: &Option<String>| name.as_deref().is_some_and(|name| name != "sentence_embedding");
    if config.use_residual || elsewhere(&config.module_input_name) || elsewhere(&config.module_output_name) {
        return Err(refuse(
            "use_residual and other inputs or outputs than sentence_embedding are not served".into(),
        ));
    }
    let activation = match config
        .activation_function
        .as_deref()
        .map(|name| name.rsplit('.').next().unwrap_or(name))
    {
        // sentence-transformers' default where the key is missing.
        None | Some("Tanh") => DenseActivation::Tanh,
        Some("Identity") => DenseActivation::Identity,
        Some(other) => {
            return Err(refuse(format!(
                "activation {other} is not served (Tanh and Identity are)"
            )));
        }
    };
    Ok(Stage::Dense {
        folder: folder.to_path_buf(),
        inputs: config.in_features,
        outputs: config.out_features,
        bias: config.bias,
        activation,
    })
}
