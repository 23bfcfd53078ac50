//! MPNet (Song et al. 2020): BERT with positions after the padding id, no token types, and a bias
//! on the attention scores by relative position, shared by all layers. all-mpnet-base-v2,
//! multi-qa-mpnet, paraphrase-mpnet.

use serde_json::json;

use super::{
    encoder::{Encoder, Feed, Layer, Numbering},
    reader::{Build, NormKind, Reader},
    settings::Settings,
};
use crate::{
    backend::{Activation, Heads, Layers},
    error::EmbedError,
    folder::ModelFolder,
};

/// Fixed in the library's code, whatever the value of `pad_token_id`.
const PADDING: u32 = 1;
/// Rows of the table of biases. The library's code assumes this number.
const BUCKETS: usize = 32;
/// All distances from here on share the last bucket.
const FARTHEST: f32 = 128.0;

/// The relevant settings of `config.json`.
pub(super) struct Config {
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: Heads,
    inner: usize,
    position_rows: usize,
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
        settings.only("relative_attention_num_buckets", &json!(BUCKETS))?;
        let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        let position_rows = settings.size("max_position_embeddings")?;
        if position_rows < 3 {
            let problem = format!("max_position_embeddings {position_rows} leaves no position after the padding's");
            return Err(settings.refuse(problem, "fetch the model again"));
        }
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers: settings.count_or("num_hidden_layers", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            position_rows,
            eps: settings.eps("layer_norm_eps", 1e-12)?,
            activation: settings.activation("hidden_act", "gelu")?,
        })
    }
}

/// Bucket of a relative position (Raffel et al. 2020, §2.1). Half of the buckets are for keys after
/// the query, the other half for the query itself and keys before it. Small distances have a bucket
/// each; larger ones share buckets logarithmically.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn bucket(key_minus_query: isize) -> usize {
    let (half, near) = (BUCKETS / 2, BUCKETS / 4);
    let side = if key_minus_query > 0 { half } else { 0 };
    let distance = key_minus_query.unsigned_abs();
    if distance < near {
        return side + distance;
    }
    // Computed in f32, in this order, like torch: another rounding at a boundary would give another
    // bucket.
    let near_width = near as f32;
    let span = f64::from(FARTHEST / near_width).ln() as f32;
    let log = f64::from(distance as f32 / near_width).ln() as f32;
    let far = near + (log / span * (half - near) as f32) as usize;
    side + far.min(half - 1)
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner, heads) = (self.hidden, self.inner, self.heads.query);
        reader.find_prefix(&["", "mpnet."], "embeddings.word_embeddings.weight");
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            let qkv = ["q", "k", "v"].map(|part| (at(&format!("attention.attn.{part}")), hidden));
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms: None,
                positions: None,
                out: reader.linear(&[(at("attention.attn.o"), hidden)], hidden, true)?,
                attention_norm: reader.norm(&at("attention.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
                second_norm: None,
                feed: Feed::Plain {
                    up: reader.linear(&[(at("intermediate.dense"), inner)], hidden, true)?,
                    down: reader.linear(&[(at("output.dense"), hidden)], inner, true)?,
                },
                norm: reader.norm(&at("output.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
            });
        }
        let positions = reader.table("embeddings.position_embeddings", self.position_rows, hidden)?;
        let biases = reader.values("encoder.relative_attention_bias.weight", &[BUCKETS, heads])?;
        let longest = self.position_rows - PADDING as usize - 1;
        Ok(Encoder {
            backend: reader.layers(),
            name: "mpnet",
            hidden,
            vocabulary: self.vocabulary,
            longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types: None,
            positions: Some((positions, Numbering::AfterPadding(PADDING))),
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, NormKind::Layer, self.eps)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: None,
            bias: Some(reader.bias(heads, longest, |head, distance| biases[bucket(distance) * heads + head])?),
            activation: self.activation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_the_reference() {
        // transformers 5.23: MPNetEncoder.relative_position_bucket(key - query).
        for (distance, expected) in [
            (0, 0),
            (-1, 1),
            (1, 17),
            (-7, 7),
            (7, 23),
            (-8, 8),
            (8, 24),
            (-11, 8),
            (12, 25),
            (-15, 9),
            (16, 26),
            (-22, 10),
            (23, 27),
            (-31, 11),
            (32, 28),
            (33, 28),
            (-45, 12),
            (46, 29),
            (-63, 13),
            (64, 30),
            (65, 30),
            (-90, 14),
            (91, 31),
            (-127, 15),
            (128, 31),
            (129, 31),
            (-511, 15),
            (511, 31),
        ] {
            assert_eq!(bucket(distance), expected, "{distance}");
        }
    }
}
