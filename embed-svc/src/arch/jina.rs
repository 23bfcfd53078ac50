//! Jina embeddings v2 (Günther et al. 2023): BERT with a gated feed-forward. In place of positions
//! it has a linear bias by distance in both directions (ALiBi; Press et al. 2022). The folder's
//! configuration says `bert` and `alibi`.
//!
//! Two layouts exist, which differ in their tensors. `mlp.gated_layers` gates with its first half.
//! `mlp.up_gated_layer` gates with its second half; it comes with norms over all heads of queries
//! and keys and a second residual after the attention.

use serde_json::json;

use super::{
    encoder::{Encoder, Feed, Layer},
    reader::{Build, NormKind, Reader},
    settings::Settings,
};
use crate::{
    backend::{Activation, Heads, Layers},
    error::EmbedError,
    folder::ModelFolder,
};

/// The relevant settings of `config.json`.
pub(super) struct Config {
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: Heads,
    inner: usize,
    longest: usize,
    types: usize,
    eps: f32,
    activation: Activation,
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
    pub(super) fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let settings = Settings::of(folder);
        settings.only("position_embedding_type", &json!("alibi"))?;
        settings.only("is_decoder", &json!(false))?;
        settings.only("add_cross_attention", &json!(false))?;
        let activation = match settings.word_or("feed_forward_type", "original")? {
            "geglu" => Activation::Gelu,
            "reglu" => Activation::Relu,
            other => {
                let problem = format!("feed_forward_type `{other}` is not served");
                return Err(settings.refuse(problem, "supported: geglu, reglu"));
            }
        };
        let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers: settings.count_or("num_hidden_layers", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            longest: settings.size("max_position_embeddings")?,
            types: settings.size_or("type_vocab_size", 2)?,
            eps: settings.eps("layer_norm_eps", 1e-12)?,
            activation,
        })
    }
}

/// The slope of each head: a geometric series over the largest power of two, then every other term
/// of the series for the next one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn slopes(heads: usize) -> Vec<f32> {
    let power = if heads == 0 { 1 } else { 1 << heads.ilog2() };
    let series = |count: usize, term: usize| (-8.0 * (term + 1) as f64 / count as f64).exp2() as f32;
    let first = (0..power).map(|term| series(power, term));
    first
        .chain((0..power).map(|term| series(2 * power, 2 * term)))
        .take(heads)
        .collect()
}

/// Tensor names of a layer's feed-forward and the norm after it, and the half of the wide
/// projection that is the gate.
struct Names {
    wide: &'static str,
    down: &'static str,
    norm: &'static str,
    gate_first: bool,
}

const PLAIN: Names = Names {
    wide: "mlp.gated_layers",
    down: "mlp.wo",
    norm: "mlp.layernorm",
    gate_first: true,
};

const QUERY_KEY_NORM: Names = Names {
    wide: "mlp.up_gated_layer",
    down: "mlp.down_layer",
    norm: "layer_norm_2",
    gate_first: false,
};

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "bert."], "embeddings.word_embeddings.weight");
        let normed = reader.has("encoder.layer.0.mlp.up_gated_layer.weight");
        let names = if normed { QUERY_KEY_NORM } else { PLAIN };
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            let mut norm = |part: &str| reader.norm(&at(part), hidden, NormKind::Layer, self.eps);
            let query_key_norms = if normed {
                Some((
                    norm("attention.self.layer_norm_q")?,
                    norm("attention.self.layer_norm_k")?,
                ))
            } else {
                None
            };
            let second_norm = normed.then(|| norm("layer_norm_1")).transpose()?;
            let attention_norm = norm("attention.output.LayerNorm")?;
            let last_norm = norm(names.norm)?;
            let qkv = ["query", "key", "value"].map(|part| (at(&format!("attention.self.{part}")), hidden));
            let mut half = |first: bool| {
                let rows = if first { 0..inner } else { inner..2 * inner };
                reader.linear_rows(&at(names.wide), rows, 2 * inner, hidden, false)
            };
            let (gate, up) = (half(names.gate_first)?, half(!names.gate_first)?);
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms,
                positions: None,
                out: reader.linear(&[(at("attention.output.dense"), hidden)], hidden, true)?,
                attention_norm,
                second_norm,
                feed: Feed::Gated {
                    gate,
                    up,
                    down: reader.linear(&[(at(names.down), hidden)], inner, true)?,
                },
                norm: last_norm,
            });
        }
        let slopes = slopes(self.heads.query);
        #[allow(clippy::cast_precision_loss)]
        let bias = |head: usize, distance: isize| -slopes[head] * distance.unsigned_abs() as f32;
        Ok(Encoder {
            backend: reader.layers(),
            name: "jina_bert",
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types: Some(reader.table("embeddings.token_type_embeddings", self.types, hidden)?),
            positions: None,
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, NormKind::Layer, self.eps)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: None,
            bias: Some(reader.bias(self.heads.query, self.longest, bias)?),
            activation: self.activation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_between_powers_of_two_take_every_other_term_of_the_next_series() {
        assert_eq!(slopes(4), [0.25, 0.0625, 0.015_625, 0.003_906_25]);
        assert_eq!(slopes(3), [0.062_5, 0.003_906_25, 0.25]);
    }
}
