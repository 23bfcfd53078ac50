//! Reads `config.json` of a transformer key by key. Every error names the key.

use std::path::Path;

use serde_json::Value;

use crate::{backend::Activation, error::EmbedError, folder::ModelFolder};

/// A larger size indicates a damaged file.
const LARGEST: u64 = 1 << 24;

/// Reads keys of one folder's configuration.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    config: &'a Value,
    folder: &'a Path,
}

impl<'a> Settings<'a> {
    pub(super) fn of(folder: &'a ModelFolder) -> Self {
        Self::new(&folder.config, &folder.transformer)
    }

    /// The settings `config`, reported in errors as `config.json` of `folder`.
    pub(super) fn new(config: &'a Value, folder: &'a Path) -> Self {
        Self { config, folder }
    }

    /// The value of a key that is present and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.config.get(key).filter(|value| !value.is_null())
    }

    /// The error about a key.
    pub(super) fn refuse(&self, problem: impl Into<String>, hint: impl Into<String>) -> EmbedError {
        EmbedError::file(&self.folder.join("config.json"), problem, hint)
    }

    fn wrong(&self, key: &str, value: &Value, expected: &str) -> EmbedError {
        self.refuse(format!("{key} is {value}, not {expected}"), "fetch the model again")
    }

    /// A size, which is required.
    pub(super) fn size(&self, key: &str) -> Result<usize, EmbedError> {
        match self.maybe_size(key)? {
            Some(size) => Ok(size),
            None => Err(self.refuse(format!("{key} is missing"), "config.json names the sizes of the model")),
        }
    }

    /// A size, or the reference library's default.
    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize, EmbedError> {
        Ok(self.maybe_size(key)?.unwrap_or(default))
    }

    /// A size that may be absent; 0 is refused.
    pub(super) fn maybe_size(&self, key: &str) -> Result<Option<usize>, EmbedError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64().filter(|size| (1..=LARGEST).contains(size)) {
            Some(size) => Ok(usize::try_from(size).ok()),
            None => Err(self.wrong(key, value, "a size")),
        }
    }

    /// Whether a key exists with the value null.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.config.get(key).is_some_and(Value::is_null)
    }

    /// A window of attention in tokens. Null means no window; an absent key means the reference
    /// library's default.
    pub(super) fn window(&self, key: &str, default: usize) -> Result<Option<usize>, EmbedError> {
        let default = (!self.is_null(key)).then_some(default);
        Ok(self.maybe_size(key)?.or(default))
    }

    /// `layer_types`, if present: for each layer, whether it sees only a window.
    pub(super) fn layer_types(&self, layers: usize) -> Result<Option<Vec<bool>>, EmbedError> {
        let Some(types) = self.get("layer_types") else {
            return Ok(None);
        };
        let kinds = types.as_array().map(Vec::as_slice).unwrap_or_default();
        let kind = |value: &Value| match value.as_str() {
            Some("full_attention") => Some(false),
            Some("sliding_attention") => Some(true),
            _ => None,
        };
        match kinds.iter().map(kind).collect::<Option<Vec<bool>>>() {
            Some(windowed) if windowed.len() == layers => Ok(Some(windowed)),
            _ => Err(self.refuse(
                format!("layer_types is {types}"),
                format!("give full_attention or sliding_attention for each of the {layers} layers"),
            )),
        }
    }

    /// A count of layers or types, which may be 0.
    pub(super) fn count_or(&self, key: &str, default: usize) -> Result<usize, EmbedError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        match value.as_u64().filter(|&count| count <= 1 << 10) {
            Some(count) => Ok(usize::try_from(count).unwrap_or(default)),
            None => Err(self.wrong(key, value, "a number from 0 to 1024")),
        }
    }

    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64, EmbedError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_f64().ok_or_else(|| self.wrong(key, value, "a number"))
    }

    /// A small positive number, as `f32`.
    pub(super) fn eps(&self, key: &str, default: f64) -> Result<f32, EmbedError> {
        let eps = self.number_or(key, default)?;
        if eps.is_nan() || !(0.0..=1.0).contains(&eps) {
            return Err(self.refuse(format!("{key} is {eps}"), "give a number from 0 to 1"));
        }
        #[allow(clippy::cast_possible_truncation)]
        Ok(eps as f32)
    }

    pub(super) fn flag_or(&self, key: &str, default: bool) -> Result<bool, EmbedError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, value, "true or false"))
    }

    pub(super) fn word_or(&self, key: &str, default: &'a str) -> Result<&'a str, EmbedError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.wrong(key, value, "a word"))
    }

    /// Refuses every value of a key except `served`; an absent key is accepted.
    pub(super) fn only(&self, key: &str, served: &Value) -> Result<(), EmbedError> {
        match self.get(key) {
            Some(value) if value != served => Err(self.refuse(
                format!("{key} is {value}, which is not served"),
                format!("served is: {served}"),
            )),
            _ => Ok(()),
        }
    }

    /// An activation function by its name in transformers.
    pub(super) fn activation(&self, key: &str, default: &'a str) -> Result<Activation, EmbedError> {
        match self.word_or(key, default)? {
            "gelu" | "gelu_python" => Ok(Activation::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_accurate" | "gelu_python_tanh" => {
                Ok(Activation::GeluTanh)
            }
            "relu" => Ok(Activation::Relu),
            "silu" | "swish" => Ok(Activation::Silu),
            other => Err(self.refuse(
                format!("{key} `{other}` is not served"),
                "supported: gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, silu",
            )),
        }
    }

    /// The width of a head: `width` divided evenly among `heads`.
    pub(super) fn head_width(&self, width: (&str, usize), heads: (&str, usize)) -> Result<usize, EmbedError> {
        if width.1.is_multiple_of(heads.1) {
            return Ok(width.1 / heads.1);
        }
        let problem = format!("{} {} is not a multiple of {} {}", width.0, width.1, heads.0, heads.1);
        Err(self.refuse(problem, "fetch the model again"))
    }
}
