//! Nomic BERT (Nussbaum et al. 2024): BERT with rotary positions and a gated feed-forward. Its
//! settings have GPT-2's names. nomic-embed-text-v1 and v1.5.

use serde_json::json;

use super::{
    encoder::{Encoder, Feed, Layer},
    reader::{Build, NormKind, Reader},
    settings::Settings,
};
use crate::{
    backend::{
        Activation, Heads, Layers, Pairs, Rotation,
        rotation::{LongTextFrequencies, Longer},
    },
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
    qkv_bias: bool,
    up_bias: bool,
    down_bias: bool,
    gated: bool,
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
        for switch in [
            "prenorm",
            "causal",
            "use_rms_norm",
            "parallel_block",
            "parallel_block_tied_norm",
            "scale_attn_by_inverse_layer_idx",
            "rotary_head_dim",
        ] {
            settings.only(switch, &json!(false))?;
        }
        settings.only("scale_attn_weights", &json!(true))?;
        // xPos and grouped keys are refused: no published checkpoint has them.
        for absent in ["rotary_emb_scale_base", "num_heads_kv"] {
            settings.only(absent, &json!(null))?;
        }
        let (hidden, heads) = (settings.size("n_embd")?, settings.size("n_head")?);
        let width = settings.head_width(("n_embd", hidden), ("n_head", heads))?;
        let longest = settings.size("n_positions")?;
        let (gated, activation) = match settings.word_or("activation_function", "gelu")? {
            "swiglu" => (true, Activation::Silu),
            "geglu" => (true, Activation::Gelu),
            "glu" => {
                return Err(settings.refuse(
                    "activation_function `glu` is not served",
                    "supported: swiglu, geglu, gelu",
                ));
            }
            _ => (false, settings.activation("activation_function", "gelu")?),
        };
        let padded = settings.size_or("pad_vocab_size_multiple", 1)?;
        Ok(Self {
            vocabulary: settings.size("vocab_size")?.next_multiple_of(padded),
            hidden,
            layers: settings.count_or("n_layer", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size_or("n_inner", 4 * hidden)?,
            longest,
            types: settings.count_or("type_vocab_size", 2)?,
            eps: settings.eps("layer_norm_epsilon", 1e-5)?,
            qkv_bias: settings.flag_or("qkv_proj_bias", true)?,
            up_bias: settings.flag_or("mlp_fc1_bias", true)?,
            down_bias: settings.flag_or("mlp_fc2_bias", true)?,
            gated,
            activation,
            rotation: rotation(settings, width)?,
        })
    }
}

/// Rotation of a fraction of each head. With a scaling factor, texts longer than those in training
/// get a larger base.
fn rotation(settings: Settings<'_>, head: usize) -> Result<Rotation, EmbedError> {
    let (base, share) = (
        settings.number_or("rotary_emb_base", 10_000.0)?,
        settings.number_or("rotary_emb_fraction", 0.0)?,
    );
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let width = (head as f64 * share) as usize;
    if base.is_nan() || base <= 0.0 || width == 0 || width > head || !width.is_multiple_of(2) {
        let problem = format!("rotary_emb_base {base} and rotary_emb_fraction {share} turn {width} of {head} columns");
        return Err(settings.refuse(problem, "supported: rotary positions on an even number of columns"));
    }
    let pairs = if settings.flag_or("rotary_emb_interleaved", false)? {
        Pairs::Neighbours
    } else {
        Pairs::Halves
    };
    let mut rotation = Rotation::plain(base, width, pairs);
    let factor = settings.number_or("rotary_scaling_factor", 0.0)?;
    if factor != 0.0 {
        let limit = settings.size("max_trained_positions")?;
        #[allow(clippy::cast_precision_loss)]
        let trained = limit as f64;
        let frequencies = Longer::Dynamic { base, factor, trained };
        rotation.beyond = Some(LongTextFrequencies { limit, frequencies });
    }
    Ok(rotation)
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "bert."], "embeddings.word_embeddings.weight");
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layers.{number}.{part}");
            let down = reader.linear(&[(at("mlp.fc2"), hidden)], inner, self.down_bias)?;
            layers.push(Layer {
                qkv: reader.linear(&[(at("attn.Wqkv"), 3 * hidden)], hidden, self.qkv_bias)?,
                query_key_norms: None,
                positions: None,
                out: reader.linear(&[(at("attn.out_proj"), hidden)], hidden, self.qkv_bias)?,
                attention_norm: reader.norm(&at("norm1"), hidden, NormKind::Layer, self.eps)?,
                second_norm: None,
                feed: if self.gated {
                    Feed::Gated {
                        gate: reader.linear(&[(at("mlp.fc12"), inner)], hidden, self.up_bias)?,
                        up: reader.linear(&[(at("mlp.fc11"), inner)], hidden, self.up_bias)?,
                        down,
                    }
                } else {
                    let up = reader.linear(&[(at("mlp.fc1"), inner)], hidden, self.up_bias)?;
                    Feed::Plain { up, down }
                },
                norm: reader.norm(&at("norm2"), hidden, NormKind::Layer, self.eps)?,
            });
        }
        let types = (self.types > 0)
            .then(|| reader.table("embeddings.token_type_embeddings", self.types, hidden))
            .transpose()?;
        Ok(Encoder {
            backend: reader.layers(),
            name: "nomic_bert",
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types,
            positions: None,
            norm: Some(reader.norm("emb_ln", hidden, NormKind::Layer, self.eps)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: Some(reader.rotary(self.rotation.clone(), self.longest)?),
            bias: None,
            activation: self.activation,
        })
    }
}
