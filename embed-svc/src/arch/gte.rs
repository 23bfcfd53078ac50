//! Alibaba's `NewModel` (Zhang et al. 2024): BERT with rotary positions, packed projections and a
//! gated feed-forward. gte-multilingual-base, gte-base/large-en-v1.5, stella_en_400M_v5,
//! snowflake-arctic-embed-m-v2.0.

use serde_json::json;

use super::{
    encoder::{Encoder, Feed, Layer},
    reader::{Build, NormKind, Reader},
    rope::{self, Rope},
    settings::Settings,
};
use crate::{
    backend::{Activation, Heads, Layers, Rotation},
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
    norm: NormKind,
    eps: f32,
    packed: bool,
    activation: Activation,
    rotation: Rotation,
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
    pub(super) fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let settings = Settings::of(folder);
        settings.only("position_embedding_type", &json!("rope"))?;
        // This setting scales queries by the logarithm of the text's length.
        settings.only("logn_attention_scale", &json!(false))?;
        let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        let longest = settings.size("max_position_embeddings")?;
        let norm = match settings.word_or("layer_norm_type", "layer_norm")? {
            "layer_norm" => NormKind::Layer,
            "rms_norm" => NormKind::Rms,
            other => {
                let problem = format!("layer_norm_type `{other}` is not served");
                return Err(settings.refuse(problem, "supported: layer_norm, rms_norm"));
            }
        };
        let rope = Rope {
            fixed_ntk: true,
            ..Rope::whole(width, longest)
        };
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers: settings.count_or("num_hidden_layers", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            longest,
            types: settings.count_or("type_vocab_size", 1)?,
            norm,
            eps: settings.eps("layer_norm_eps", 1e-12)?,
            packed: settings.flag_or("pack_qkv", true)?,
            activation: settings.activation("hidden_act", "gelu")?,
            rotation: rope::read(settings, rope, None)?,
        })
    }
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "new."], "embeddings.word_embeddings.weight");
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            let qkv = if self.packed {
                vec![(at("attention.qkv_proj"), 3 * hidden)]
            } else {
                ["q_proj", "k_proj", "v_proj"]
                    .map(|part| (at(&format!("attention.{part}")), hidden))
                    .to_vec()
            };
            let wide = at("mlp.up_gate_proj");
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms: None,
                positions: None,
                out: reader.linear(&[(at("attention.o_proj"), hidden)], hidden, true)?,
                attention_norm: reader.norm(&at("attn_ln"), hidden, self.norm, self.eps)?,
                second_norm: None,
                feed: Feed::Gated {
                    gate: reader.linear_rows(&wide, inner..2 * inner, 2 * inner, hidden, false)?,
                    up: reader.linear_rows(&wide, 0..inner, 2 * inner, hidden, false)?,
                    down: reader.linear(&[(at("mlp.down_proj"), hidden)], inner, true)?,
                },
                norm: reader.norm(&at("mlp_ln"), hidden, self.norm, self.eps)?,
            });
        }
        let types = (self.types > 0)
            .then(|| reader.table("embeddings.token_type_embeddings", self.types, hidden))
            .transpose()?;
        Ok(Encoder {
            backend: reader.layers(),
            name: "new",
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types,
            positions: None,
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, self.norm, self.eps)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: Some(reader.rotary(self.rotation.clone(), self.longest)?),
            bias: None,
            activation: self.activation,
        })
    }
}
