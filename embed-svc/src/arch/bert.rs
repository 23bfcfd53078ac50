//! BERT (Devlin et al. 2019), as an encoder: MiniLM, bge, e5, gte (v1), mxbai and many more.

use serde::Deserialize;

use super::Architecture;
use crate::{
    backend::{Activation, Backend, Heads, Threads},
    batch::TokenBatch,
    error::EmbedError,
    folder::ModelFolder,
    weights::{Floats, Weights},
};

/// What of `config.json` matters here.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "tiny")]
    layer_norm_eps: f64,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default)]
    is_decoder: bool,
}

fn two() -> usize {
    2
}

fn tiny() -> f64 {
    1e-12
}

fn gelu() -> String {
    "gelu".into()
}

fn absolute() -> String {
    "absolute".into()
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// Names the key that is missing, impossible, or asks for something that is not served.
    pub fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let file = folder.config_file();
        let refuse = |problem: String, mend: &str| Err(EmbedError::file(&file, problem, mend));
        let config: Self = match serde_json::from_value(folder.config.clone()) {
            Ok(config) => config,
            Err(error) => return refuse(error.to_string(), "config.json of a BERT names its sizes"),
        };
        for (key, value) in [
            ("vocab_size", config.vocab_size),
            ("hidden_size", config.hidden_size),
            ("num_attention_heads", config.num_attention_heads),
            ("intermediate_size", config.intermediate_size),
            ("max_position_embeddings", config.max_position_embeddings),
            ("type_vocab_size", config.type_vocab_size),
        ] {
            if value == 0 || value > 1 << 24 {
                return refuse(format!("{key} is {value}"), "fetch the model again");
            }
        }
        if config.num_hidden_layers > 1 << 10 {
            return refuse(
                format!("num_hidden_layers is {}", config.num_hidden_layers),
                "fetch the model again",
            );
        }
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            let problem = format!(
                "hidden_size {} is no multiple of num_attention_heads {}",
                config.hidden_size, config.num_attention_heads
            );
            return refuse(problem, "fetch the model again");
        }
        if config.hidden_act != "gelu" {
            return refuse(
                format!("hidden_act `{}` is not served", config.hidden_act),
                "served is: gelu",
            );
        }
        if config.position_embedding_type != "absolute" {
            let problem = format!(
                "position_embedding_type `{}` is not served",
                config.position_embedding_type
            );
            return refuse(problem, "served is: absolute");
        }
        if config.is_decoder {
            return refuse("is_decoder is true".into(), "served are encoders");
        }
        Ok(config)
    }
}

/// A BERT on a backend.
pub struct Bert<B: Backend> {
    backend: B,
    config: Config,
    words: B::Table,
    positions: B::Table,
    types: B::Table,
    norm: B::Norm,
    layers: Vec<Layer<B>>,
}

struct Layer<B: Backend> {
    /// Queries, keys and values in one product.
    qkv: B::Linear,
    attention_out: B::Linear,
    attention_norm: B::Norm,
    up: B::Linear,
    down: B::Linear,
    norm: B::Norm,
}

/// Reads tensors by the names of the checkpoint, which may start with `bert.`, and notes those that are missing.
struct Reader<'a> {
    weights: &'a Weights,
    prefix: &'static str,
    missing: Vec<String>,
}

impl Reader<'_> {
    fn get(&mut self, name: &str, shape: &[usize]) -> Result<Floats, EmbedError> {
        let full = format!("{}{name}", self.prefix);
        // Checkpoints converted from TensorFlow long ago call the two vectors of a norm gamma and beta.
        let old = full
            .strip_suffix("LayerNorm.weight")
            .map(|stem| format!("{stem}LayerNorm.gamma"));
        let old = old.or_else(|| {
            full.strip_suffix("LayerNorm.bias")
                .map(|stem| format!("{stem}LayerNorm.beta"))
        });
        if self.weights.has(&full) {
            self.weights.get(&full, shape)
        } else if let Some(old) = old.filter(|old| self.weights.has(old)) {
            self.weights.get(&old, shape)
        } else {
            // All missing names are gathered before we give up, so that the error can list them.
            self.missing.push(full);
            Ok(Floats::Owned(Vec::new().into()))
        }
    }
}

impl<B: Backend> Bert<B> {
    /// Loads the weights onto a backend.
    ///
    /// # Errors
    /// Names every missing tensor, or the first of another shape.
    pub fn load(backend: B, config: &Config, weights: &Weights) -> Result<Self, EmbedError> {
        let prefix = if weights.has("bert.embeddings.word_embeddings.weight") {
            "bert."
        } else {
            ""
        };
        let mut reader = Reader {
            weights,
            prefix,
            missing: Vec::new(),
        };
        // First pass: only names and shapes, nothing is copied from the mapped file.
        Self::tensors(config, |name, shape| reader.get(name, shape).map(drop))?;
        if !reader.missing.is_empty() {
            return Err(weights.missing(&reader.missing));
        }
        let (hidden, inner, eps) = (config.hidden_size, config.intermediate_size, config.layer_norm_eps);
        #[allow(clippy::cast_possible_truncation)]
        let eps = eps as f32;
        let mut linear = |names: &[String], outputs: usize, inputs: usize| {
            let (mut all, mut biases) = (Vec::new(), Vec::new());
            for name in names {
                all.extend_from_slice(&reader.get(&format!("{name}.weight"), &[outputs, inputs])?);
                biases.extend_from_slice(&reader.get(&format!("{name}.bias"), &[outputs])?);
            }
            backend.linear(&all, &biases, outputs * names.len(), inputs)
        };
        let mut products = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            let at = |part: &str| format!("encoder.layer.{layer}.{part}");
            let qkv = ["query", "key", "value"].map(|part| at(&format!("attention.self.{part}")));
            products.push((
                linear(&qkv, hidden, hidden)?,
                linear(&[at("attention.output.dense")], hidden, hidden)?,
                linear(&[at("intermediate.dense")], inner, hidden)?,
                linear(&[at("output.dense")], hidden, inner)?,
            ));
        }
        let mut norm = |name: &str| {
            let gamma = reader.get(&format!("{name}.weight"), &[hidden])?;
            let beta = reader.get(&format!("{name}.bias"), &[hidden])?;
            backend.norm(&gamma, &beta, eps)
        };
        let first = norm("embeddings.LayerNorm")?;
        let mut layers = Vec::with_capacity(products.len());
        for (number, (qkv, attention_out, up, down)) in products.into_iter().enumerate() {
            layers.push(Layer {
                qkv,
                attention_out,
                attention_norm: norm(&format!("encoder.layer.{number}.attention.output.LayerNorm"))?,
                up,
                down,
                norm: norm(&format!("encoder.layer.{number}.output.LayerNorm"))?,
            });
        }
        let mut table = |name: &str, rows: usize| {
            let values = reader.get(&format!("embeddings.{name}.weight"), &[rows, hidden])?;
            backend.table(values, rows, hidden)
        };
        Ok(Self {
            words: table("word_embeddings", config.vocab_size)?,
            positions: table("position_embeddings", config.max_position_embeddings)?,
            types: table("token_type_embeddings", config.type_vocab_size)?,
            norm: first,
            layers,
            config: config.clone(),
            backend,
        })
    }

    /// Every tensor of the checkpoint, with its shape.
    fn tensors(
        config: &Config,
        mut each: impl FnMut(&str, &[usize]) -> Result<(), EmbedError>,
    ) -> Result<(), EmbedError> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        each("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        each(
            "embeddings.position_embeddings.weight",
            &[config.max_position_embeddings, hidden],
        )?;
        each(
            "embeddings.token_type_embeddings.weight",
            &[config.type_vocab_size, hidden],
        )?;
        each("embeddings.LayerNorm.weight", &[hidden])?;
        each("embeddings.LayerNorm.bias", &[hidden])?;
        for layer in 0..config.num_hidden_layers {
            for (part, outputs, inputs) in [
                ("attention.self.query", hidden, hidden),
                ("attention.self.key", hidden, hidden),
                ("attention.self.value", hidden, hidden),
                ("attention.output.dense", hidden, hidden),
                ("intermediate.dense", inner, hidden),
                ("output.dense", hidden, inner),
            ] {
                each(&format!("encoder.layer.{layer}.{part}.weight"), &[outputs, inputs])?;
                each(&format!("encoder.layer.{layer}.{part}.bias"), &[outputs])?;
            }
            for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
                each(&format!("encoder.layer.{layer}.{part}.weight"), &[hidden])?;
                each(&format!("encoder.layer.{layer}.{part}.bias"), &[hidden])?;
            }
        }
        Ok(())
    }
}

impl<B: Backend> Architecture for Bert<B> {
    fn name(&self) -> &'static str {
        "bert"
    }

    fn hidden_size(&self) -> usize {
        self.config.hidden_size
    }

    fn max_positions(&self) -> usize {
        self.config.max_position_embeddings
    }

    fn vocabulary(&self) -> usize {
        self.config.vocab_size
    }

    fn forward(&self, batch: &TokenBatch, threads: Threads, visit: &mut dyn FnMut(&[f32])) -> Result<(), EmbedError> {
        let on = &self.backend;
        let heads = Heads {
            count: self.config.num_attention_heads,
            width: self.config.hidden_size / self.config.num_attention_heads,
        };
        let mut x = on.embed(batch, &self.words, &self.positions, &self.types, threads)?;
        x = on.normalise(x, &self.norm)?;
        for layer in &self.layers {
            let qkv = on.apply(&x, &layer.qkv, Activation::Identity, None)?;
            let context = on.attention(&qkv, batch, heads)?;
            drop(qkv);
            let attended = on.apply(&context, &layer.attention_out, Activation::Identity, Some(&x))?;
            drop(context);
            x = on.normalise(attended, &layer.attention_norm)?;
            let inner = on.apply(&x, &layer.up, Activation::Gelu, None)?;
            let out = on.apply(&inner, &layer.down, Activation::Identity, Some(&x))?;
            drop(inner);
            x = on.normalise(out, &layer.norm)?;
        }
        on.read(&x, visit)
    }
}
