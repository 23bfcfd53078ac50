//! T5 encoders (Raffel et al. 2020), computed by candle-transformers on Candle's tensors:
//! sentence-T5, GTR, INSTRUCTOR.
//!
//! candle-transformers' encoder takes no attention mask, so padding would receive attention.
//! Therefore nothing is padded here. Each text runs alone, and its bits do not depend on the other
//! texts.

use std::collections::HashMap;

use candle_core::{DType, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::t5::{ActivationWithOptionalGating, Config, T5EncoderModel};
use rayon::prelude::*;
use serde_json::json;

use super::{Architecture, settings::Settings};
use crate::{
    backend::{Rows, Sink, Threads},
    batch::TokenBatch,
    device::{Device, Precision},
    error::EmbedError,
    folder::ModelFolder,
    weights::Weights,
};

/// Maximum text length in tokens. Relative positions set no limit, but all scores of a text are in
/// memory at once: `heads × tokens²` values.
const LONGEST: usize = 2048;

/// Names of the embedding table. Checkpoints that contain only the encoder may have only the second
/// name.
const TABLES: [&str; 2] = ["shared.weight", "encoder.embed_tokens.weight"];

/// A loaded encoder.
struct T5 {
    model: T5EncoderModel,
    device: candle_core::Device,
    hidden: usize,
    vocabulary: usize,
}

/// Loads an encoder.
///
/// # Errors
/// If a setting is unsupported, a tensor is missing, or [`check`] refuses the device.
pub(super) fn load(
    folder: &ModelFolder,
    weights: &Weights,
    device: &Device,
) -> Result<Box<dyn Architecture>, EmbedError> {
    let (config, device) = (read(Settings::of(folder))?, check(folder, device)?);
    let tensors = tensors(&config, weights, device)?;
    let builder = VarBuilder::from_tensors(tensors, DType::F32, device);
    let model = T5EncoderModel::load(builder, &config).map_err(|source| failure(device, source))?;
    Ok(Box::new(T5 {
        model,
        device: device.clone(),
        hidden: config.d_model,
        vocabulary: config.vocab_size,
    }))
}

/// The device, if it computes in `f32`.
///
/// # Errors
/// If it computes in another arithmetic.
pub(super) fn check<'a>(folder: &ModelFolder, device: &'a Device) -> Result<&'a candle_core::Device, EmbedError> {
    match device {
        Device::Candle {
            device,
            precision: Precision::F32,
        } => Ok(device),
        other => Err(Settings::of(folder).refuse(
            format!(
                "T5 encoders are computed in f32 only, not in {}: f16 overflows in their feed-forward, and \
                 candle-transformers computes their softmax in the type of the weights",
                other.precision().name()
            ),
            "give embed.precision = \"f32\"",
        )),
    }
}

fn failure(device: &candle_core::Device, source: candle_core::Error) -> EmbedError {
    EmbedError::compute(format!("{:?}", device.location()), source)
}

/// Reads `config.json`. candle-transformers' own parser ignores some settings, e.g. the activation
/// of a feed-forward without a gate. Such a setting is refused here.
fn read(settings: Settings<'_>) -> Result<Config, EmbedError> {
    let projection = settings.word_or("feed_forward_proj", "relu")?;
    let (gated, activation, name) = match projection {
        "relu" => (false, Activation::Relu, "relu"),
        "gated-gelu" => (true, Activation::NewGelu, "gelu_new"),
        "gated-silu" => (true, Activation::Silu, "silu"),
        other => {
            return Err(settings.refuse(
                format!("feed_forward_proj `{other}` is not served"),
                "supported: relu, gated-gelu, gated-silu",
            ));
        }
    };
    settings.only("is_gated_act", &json!(gated))?;
    settings.only("dense_act_fn", &json!(name))?;
    settings.only("is_decoder", &json!(false))?;
    let buckets = settings.size_or("relative_attention_num_buckets", 32)?;
    let farthest = settings.size_or("relative_attention_max_distance", 128)?;
    // Each direction has half of the buckets; half of those are for one distance each.
    if buckets < 4 || farthest <= buckets / 4 {
        return Err(settings.refuse(
            format!("relative_attention_num_buckets {buckets} do not reach relative_attention_max_distance {farthest}"),
            "fetch the model again",
        ));
    }
    let (d_model, d_kv) = (settings.size("d_model")?, settings.size("d_kv")?);
    let (num_layers, num_heads) = (settings.count_or("num_layers", 6)?, settings.size("num_heads")?);
    // Other names for the same settings, which transformers reads too.
    settings.only("hidden_size", &json!(d_model))?;
    settings.only("head_dim", &json!(d_kv))?;
    settings.only("num_hidden_layers", &json!(num_layers))?;
    settings.only("num_attention_heads", &json!(num_heads))?;
    Ok(Config {
        vocab_size: settings.size("vocab_size")?,
        d_model,
        d_kv,
        d_ff: settings.size("d_ff")?,
        num_layers,
        num_heads,
        relative_attention_num_buckets: buckets,
        relative_attention_max_distance: farthest,
        layer_norm_epsilon: settings.eps("layer_norm_epsilon", 1e-6)?.into(),
        feed_forward_proj: ActivationWithOptionalGating { gated, activation },
        is_decoder: false,
        use_cache: false,
        ..Config::default()
    })
}

/// The encoder's tensors under the names that candle-transformers expects. A decoder's tensors are
/// not read.
fn tensors(
    config: &Config,
    weights: &Weights,
    device: &candle_core::Device,
) -> Result<HashMap<String, Tensor>, EmbedError> {
    let table = TABLES.into_iter().find(|name| weights.has(name)).unwrap_or(TABLES[0]);
    let mut wanted = vec![(table.to_owned(), vec![config.vocab_size, config.d_model])];
    wanted.extend(layers(config));
    let missing: Vec<String> = wanted
        .iter()
        .filter(|(name, _)| !weights.has(name))
        .map(|(name, _)| name.clone())
        .collect();
    if !missing.is_empty() {
        return Err(weights.missing(&missing));
    }
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let values = weights.get(&name, &shape)?;
        let tensor = Tensor::from_slice(&values[..], shape, device).map_err(|source| failure(device, source))?;
        let name = if name == table { TABLES[0].to_owned() } else { name };
        Ok((name, tensor))
    };
    wanted.into_iter().map(tensor).collect()
}

/// Names and shapes of all tensors except the embedding table.
fn layers(config: &Config) -> Vec<(String, Vec<usize>)> {
    let (hidden, inner, heads) = (config.d_model, config.d_ff, config.num_heads);
    let columns = heads * config.d_kv;
    let mut all = vec![
        ("encoder.final_layer_norm.weight".to_owned(), vec![hidden]),
        (
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight".to_owned(),
            vec![config.relative_attention_num_buckets, heads],
        ),
    ];
    let ups: &[&str] = if config.feed_forward_proj.gated {
        &["wi_0", "wi_1"]
    } else {
        &["wi"]
    };
    for number in 0..config.num_layers {
        let mut put = |part: String, shape: [usize; 2]| {
            all.push((format!("encoder.block.{number}.layer.{part}.weight"), shape.to_vec()));
        };
        for part in ["q", "k", "v"] {
            put(format!("0.SelfAttention.{part}"), [columns, hidden]);
        }
        put("0.SelfAttention.o".into(), [hidden, columns]);
        for part in ups {
            put(format!("1.DenseReluDense.{part}"), [inner, hidden]);
        }
        put("1.DenseReluDense.wo".into(), [hidden, inner]);
        for part in 0..2 {
            let name = format!("encoder.block.{number}.layer.{part}.layer_norm.weight");
            all.push((name, vec![hidden]));
        }
    }
    all
}

impl Architecture for T5 {
    fn name(&self) -> &'static str {
        super::T5
    }

    fn hidden_size(&self) -> usize {
        self.hidden
    }

    fn max_positions(&self) -> usize {
        LONGEST
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Calls `between` before each text, because candle-transformers runs all layers in one call.
    fn forward(&self, batch: &TokenBatch, threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        let between = sink.between;
        let text = |ids: &[u32]| {
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            between();
            let ids = Tensor::from_slice(ids, (1, ids.len()), &self.device)?;
            // A clone shares the tensors. The library needs `&mut` only for the cache of a decoder.
            self.model.clone().forward(&ids)?.flatten_all()?.to_vec1::<f32>()
        };
        let texts: Vec<&[u32]> = batch.ranges().map(|range| &batch.ids()[range]).collect();
        let states: candle_core::Result<Vec<Vec<f32>>> = if threads == Threads::All && self.device.is_cpu() {
            texts.into_par_iter().map(text).collect()
        } else {
            texts.into_iter().map(text).collect()
        };
        let states = states.map_err(|source| failure(&self.device, source))?.concat();
        (sink.launched)();
        (sink.visit)(Rows::Tokens(&states));
        Ok(())
    }
}
