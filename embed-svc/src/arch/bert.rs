//! BERT (Devlin et al. 2019): MiniLM, bge, e5, gte (v1), mxbai, LaBSE and many more.

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

/// The relevant settings of `config.json`. RoBERTa's are the same except for the positions.
pub(super) struct Config {
    name: &'static str,
    prefixes: &'static [&'static str],
    vocabulary: usize,
    hidden: usize,
    layers: usize,
    heads: Heads,
    inner: usize,
    position_rows: usize,
    longest: usize,
    numbering: Numbering,
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
        let position_rows = settings.size("max_position_embeddings")?;
        Self::common(
            settings,
            "bert",
            &["", "bert."],
            position_rows,
            Numbering::FromZero,
            1e-12,
        )
    }

    /// The settings that RoBERTa shares.
    pub(super) fn common(
        settings: Settings<'_>,
        name: &'static str,
        prefixes: &'static [&'static str],
        longest: usize,
        numbering: Numbering,
        eps: f64,
    ) -> Result<Self, EmbedError> {
        settings.only("position_embedding_type", &json!("absolute"))?;
        settings.only("is_decoder", &json!(false))?;
        settings.only("add_cross_attention", &json!(false))?;
        let hidden = settings.size("hidden_size")?;
        let heads = settings.size("num_attention_heads")?;
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        Ok(Self {
            name,
            prefixes,
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers: settings.count_or("num_hidden_layers", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            position_rows: settings.size("max_position_embeddings")?,
            longest,
            numbering,
            types: settings.size_or("type_vocab_size", 2)?,
            eps: settings.eps("layer_norm_eps", eps)?,
            activation: settings.activation("hidden_act", "gelu")?,
        })
    }
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(self.prefixes, "embeddings.word_embeddings.weight");
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            let qkv = ["query", "key", "value"].map(|part| (at(&format!("attention.self.{part}")), hidden));
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms: None,
                positions: None,
                out: reader.linear(&[(at("attention.output.dense"), hidden)], hidden, true)?,
                second_norm: None,
                attention_norm: reader.norm(&at("attention.output.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
                feed: Feed::Plain {
                    up: reader.linear(&[(at("intermediate.dense"), inner)], hidden, true)?,
                    down: reader.linear(&[(at("output.dense"), hidden)], inner, true)?,
                },
                norm: reader.norm(&at("output.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
            });
        }
        let positions = reader.table("embeddings.position_embeddings", self.position_rows, hidden)?;
        Ok(Encoder {
            backend: reader.layers(),
            name: self.name,
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types: Some(reader.table("embeddings.token_type_embeddings", self.types, hidden)?),
            positions: Some((positions, self.numbering)),
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, NormKind::Layer, self.eps)?),
            layers,
            heads: self.heads,
            scale: self.heads.scale(),
            rotary: None,
            bias: None,
            activation: self.activation,
        })
    }
}
