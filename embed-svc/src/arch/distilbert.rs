//! DistilBERT (Sanh et al. 2019): BERT without token types, with its own tensor names.
//! msmarco-distilbert, multi-qa-distilbert.

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

/// A constant in the library's code.
const EPS: f32 = 1e-12;

/// The relevant settings of `config.json`.
pub(super) struct Config {
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: Heads,
    inner: usize,
    longest: usize,
    activation: Activation,
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
    pub(super) fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let settings = Settings::of(folder);
        // If this is true, the table of sinusoids is computed, not read from the checkpoint.
        settings.only("sinusoidal_pos_embds", &json!(false))?;
        let (hidden, heads) = (settings.size("dim")?, settings.size("n_heads")?);
        let width = settings.head_width(("dim", hidden), ("n_heads", heads))?;
        let layers = settings.count_or("n_layers", 6)?;
        // Other names for the same settings, which transformers reads too.
        settings.only("hidden_size", &json!(hidden))?;
        settings.only("num_attention_heads", &json!(heads))?;
        settings.only("num_hidden_layers", &json!(layers))?;
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers,
            heads: Heads::equal(heads, width),
            inner: settings.size("hidden_dim")?,
            longest: settings.size("max_position_embeddings")?,
            activation: settings.activation("activation", "gelu")?,
        })
    }
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "distilbert."], "embeddings.word_embeddings.weight");
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("transformer.layer.{number}.{part}");
            let qkv = ["q_lin", "k_lin", "v_lin"].map(|part| (at(&format!("attention.{part}")), hidden));
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms: None,
                positions: None,
                out: reader.linear(&[(at("attention.out_lin"), hidden)], hidden, true)?,
                attention_norm: reader.norm(&at("sa_layer_norm"), hidden, NormKind::Layer, EPS)?,
                second_norm: None,
                feed: Feed::Plain {
                    up: reader.linear(&[(at("ffn.lin1"), inner)], hidden, true)?,
                    down: reader.linear(&[(at("ffn.lin2"), hidden)], inner, true)?,
                },
                norm: reader.norm(&at("output_layer_norm"), hidden, NormKind::Layer, EPS)?,
            });
        }
        let positions = reader.table("embeddings.position_embeddings", self.longest, hidden)?;
        Ok(Encoder {
            backend: reader.layers(),
            name: "distilbert",
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types: None,
            positions: Some((positions, Numbering::FromZero)),
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, NormKind::Layer, EPS)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: None,
            bias: None,
            activation: self.activation,
        })
    }
}
