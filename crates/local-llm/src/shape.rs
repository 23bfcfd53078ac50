//! The dimensions of an architecture, from the file's metadata.

use crate::{
    LocalError,
    gguf::{GgufFile, required},
};

/// Supported decoder families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// Llama and models that share its layout (SmolLM2).
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3, dense: norms on queries and keys.
    Qwen3,
    /// Gemma 3, text: sliding windows, norms around both halves of a layer and on queries and keys,
    /// scaled embeddings.
    Gemma3,
}

isomer_names::names!(Architecture { Llama = "llama", Qwen2 = "qwen2", Qwen3 = "qwen3", Gemma3 = "gemma3" });

/// The pairing of a head's elements in a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// `2i` with `2i + 1`: GGUF stores llama's queries and keys reordered for this.
    Neighbours,
    /// `i` with `i + dims / 2`.
    Halves,
}

/// Rotary position embedding (Su et al. 2021) of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rope {
    pub(crate) base: f32,
    /// Positions are divided by this (linear context extension).
    pub(crate) divide: f32,
}

/// The dimensions that the forward pass needs.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) architecture: Architecture,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) feed_forward: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) eps: f32,
    /// Number of positions for which the model was trained.
    pub(crate) context: usize,
    pub(crate) pairing: Pairing,
    /// Number of rotated elements of a head; the rest are unchanged.
    pub(crate) rope_dims: usize,
    pub(crate) rope: Rope,
    /// Gemma 3: the window of layers that see only a window, and their rotation. Every sixth layer
    /// sees all tokens.
    pub(crate) window: Option<(usize, Rope)>,
}

impl Shape {
    pub(crate) fn read(file: &GgufFile) -> Result<Self, LocalError> {
        let key = "general.architecture";
        let name = required(key, file.find_text(key)?)?;
        let Some(architecture) = Architecture::named(name) else {
            return Err(LocalError::BadValue {
                key: key.to_owned(),
                message: format!(
                    "`{name}` is not supported; supported are {}",
                    Architecture::ALL.map(Architecture::name).join(", ")
                ),
            });
        };
        let count = |suffix: &str| {
            let key = format!("{name}.{suffix}");
            let value = required(&key, file.find_count(&key)?)?;
            positive(key, value)
        };
        let count_or = |suffix: &str, default: usize| {
            let key = format!("{name}.{suffix}");
            positive(key.clone(), file.find_count(&key)?.unwrap_or(default))
        };
        let float_or = |suffix: &str, default: f32| {
            let key = format!("{name}.{suffix}");
            let value = file.find_float(&key)?.unwrap_or(default);
            if value.is_finite() && value > 0.0 {
                Ok(value)
            } else {
                Err(LocalError::BadValue {
                    key,
                    message: format!("{value} is not a number above 0"),
                })
            }
        };
        if file.find_count(&format!("{name}.expert_count"))?.unwrap_or(0) > 0 {
            return Err(LocalError::BadValue {
                key: format!("{name}.expert_count"),
                message: "mixtures of experts are not supported".to_owned(),
            });
        }
        let divide = Self::rope_divisor(file, name)?;
        let (hidden, heads) = (count("embedding_length")?, count("attention.head_count")?);
        let head_dim = count_or("attention.key_length", hidden / heads)?;
        if count_or("attention.value_length", head_dim)? != head_dim {
            return Err(LocalError::BadValue {
                key: format!("{name}.attention.value_length"),
                message: "values and keys of different lengths are not supported".to_owned(),
            });
        }
        let kv_heads = count_or("attention.head_count_kv", heads)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(LocalError::BadValue {
                key: format!("{name}.attention.head_count_kv"),
                message: format!("{heads} heads cannot share {kv_heads} key heads evenly"),
            });
        }
        let rope_dims = count_or("rope.dimension_count", head_dim)?;
        if rope_dims > head_dim || !rope_dims.is_multiple_of(2) {
            return Err(LocalError::BadValue {
                key: format!("{name}.rope.dimension_count"),
                message: format!("{rope_dims} is not an even number up to {head_dim}"),
            });
        }
        let eps_key = format!("{name}.attention.layer_norm_rms_epsilon");
        let gemma = architecture == Architecture::Gemma3;
        let window = if gemma {
            let local = Rope {
                base: float_or("rope.freq_base_swa", 10_000.0)?,
                divide: 1.0,
            };
            Some((count("attention.sliding_window")?, local))
        } else {
            None
        };
        Ok(Self {
            architecture,
            layers: count("block_count")?,
            hidden,
            feed_forward: count("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            eps: required(&eps_key, file.find_float(&eps_key)?)?,
            context: count("context_length")?,
            pairing: if architecture == Architecture::Llama {
                Pairing::Neighbours
            } else {
                Pairing::Halves
            },
            rope_dims,
            rope: Rope {
                base: float_or("rope.freq_base", if gemma { 1e6 } else { 1e4 })?,
                divide,
            },
            window,
        })
    }

    fn rope_divisor(file: &GgufFile, name: &str) -> Result<f32, LocalError> {
        let key = format!("{name}.rope.scaling.type");
        match file.find_text(&key)? {
            None | Some("none") => Ok(1.0),
            Some("linear") => {
                let key = format!("{name}.rope.scaling.factor");
                required(&key, file.find_float(&key)?)
            }
            Some(other) => Err(LocalError::BadValue {
                key,
                message: format!("`{other}` is not supported; supported are none, linear"),
            }),
        }
    }

    /// Width of the queries of a token.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of a token's keys, and of its values.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The window of a layer, if it has one.
    pub(crate) fn window_of(&self, layer: usize) -> Option<usize> {
        self.window
            .filter(|_| !(layer + 1).is_multiple_of(6))
            .map(|(window, _)| window)
    }

    /// Factor on the embeddings.
    pub(crate) fn embedding_scale(&self) -> f32 {
        #[allow(clippy::cast_precision_loss)]
        if self.architecture == Architecture::Gemma3 {
            (self.hidden as f32).sqrt()
        } else {
            1.0
        }
    }
}

fn positive(key: String, value: usize) -> Result<usize, LocalError> {
    // The product of any two of these is far from overflow.
    if (1..=1 << 24).contains(&value) {
        return Ok(value);
    }
    Err(LocalError::BadValue {
        key,
        message: format!("{value} is not between 1 and {}", 1 << 24),
    })
}
