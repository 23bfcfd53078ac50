//! DeBERTa v2 and v3 (He et al. 2021): BERT whose attention adds two scores. One uses the queries
//! with learnt relative positions as keys; the other uses the keys with relative positions as
//! queries. Each layer projects one shared table.

use isomer_kernels::{PackedMatrix, gemm, rows};
use serde_json::{Value, json};

use super::{
    encoder::{Encoder, Feed, Layer, Numbering},
    reader::{Build, NormKind, Reader},
    settings::Settings,
};
use crate::{
    backend::{Activation, Heads, Layers, PositionWeights},
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
    /// Distances beyond this share a row.
    farthest: usize,
    /// Rows of the table of relative positions, in one direction.
    span: usize,
    /// Whether large distances share rows logarithmically.
    bucketed: bool,
    types: usize,
    absolute: bool,
    normed: bool,
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
        for (key, served) in [("relative_attention", json!(true)), ("share_att_key", json!(true))] {
            settings.only(key, &served)?;
            if settings.get(key).is_none() {
                return Err(settings.refuse(format!("{key} is missing"), format!("served is: {served}")));
            }
        }
        settings.only("conv_kernel_size", &json!(0))?;
        let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
        settings.only("embedding_size", &json!(hidden))?;
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        settings.only("attention_head_size", &json!(width))?;
        both_kinds(settings)?;
        let normed = match settings.word_or("norm_rel_ebd", "none")? {
            "layer_norm" => true,
            "none" => false,
            other => {
                let problem = format!("norm_rel_ebd `{other}` is not served");
                return Err(settings.refuse(problem, "supported: layer_norm, none"));
            }
        };
        let longest = settings.size("max_position_embeddings")?;
        let positive = |key: &str| -> Result<Option<usize>, EmbedError> {
            // A negative number means no limit.
            let some = settings.get(key).and_then(Value::as_i64).is_none_or(|value| value > 0);
            if some { settings.maybe_size(key) } else { Ok(None) }
        };
        let farthest = positive("max_relative_positions")?.unwrap_or(longest);
        let buckets = positive("position_buckets")?;
        let span = buckets.unwrap_or(farthest);
        if span < 4 || farthest < 4 || span / 2 >= farthest {
            let problem =
                format!("position_buckets {span} and max_relative_positions {farthest} leave no far distances");
            return Err(settings.refuse(problem, "fetch the model again"));
        }
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            layers: settings.count_or("num_hidden_layers", 12)?,
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            longest,
            farthest,
            span,
            bucketed: buckets.is_some(),
            types: settings.count_or("type_vocab_size", 0)?,
            absolute: settings.flag_or("position_biased_input", true)?,
            normed,
            eps: settings.eps("layer_norm_eps", 1e-7)?,
            activation: settings.activation("hidden_act", "gelu")?,
        })
    }

    /// Row of a distance in the table.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )]
    fn row(&self, query_minus_key: isize) -> u32 {
        let (middle, size) = ((self.span / 2) as f32, query_minus_key.unsigned_abs() as f32);
        let bucket = if !self.bucketed || size <= middle {
            query_minus_key
        } else {
            // Computed in f32, in this order, like torch.
            let log = |x: f32| f64::from(x).ln() as f32;
            let far = log(size / middle) / log((self.farthest - 1) as f32 / middle) * (middle - 1.0);
            (far.ceil() + middle) as isize * query_minus_key.signum()
        };
        (bucket + self.span as isize).clamp(0, 2 * self.span as isize - 1) as u32
    }
}

/// Checks `pos_att_type`. Both kinds are required together, since the scale depends on their
/// number.
fn both_kinds(settings: Settings<'_>) -> Result<(), EmbedError> {
    let kinds = match settings.get("pos_att_type") {
        Some(Value::String(kinds)) => kinds.split('|').map(str::to_owned).collect(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let has = |kind: &str| kinds.iter().any(|own| own.trim() == kind);
    if kinds.len() == 2 && has("c2p") && has("p2c") {
        return Ok(());
    }
    Err(settings.refuse(format!("pos_att_type is {kinds:?}"), "served is: c2p and p2c together"))
}

impl Build for Config {
    type On<L: Layers> = Encoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Encoder<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "deberta."], "embeddings.word_embeddings.weight");
        let mut table = reader
            .values("encoder.rel_embeddings.weight", &[2 * self.span, hidden])?
            .to_vec();
        if self.normed {
            let gamma = reader.values("encoder.LayerNorm.weight", &[hidden])?;
            let beta = reader.values("encoder.LayerNorm.bias", &[hidden])?;
            rows::layer_norm(&mut table, &gamma, &beta, self.eps);
        }
        let reach = isize::try_from(self.longest).unwrap_or(isize::MAX) - 1;
        let row: Vec<u32> = (-reach..=reach).map(|distance| self.row(distance)).collect();
        let mut layers = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let at = |part: &str| format!("encoder.layer.{number}.{part}");
            let part = |part: &str| at(&format!("attention.self.{part}_proj"));
            let mut projection = |name: &str| {
                let weight = reader.values(&format!("{}.weight", part(name)), &[hidden, hidden])?;
                let bias = reader.values(&format!("{}.bias", part(name)), &[hidden])?;
                Ok::<_, EmbedError>((weight, bias))
            };
            let (key, query) = (projection("key")?, projection("query")?);
            let positions = reader.positions(self.heads, || {
                let project = |(weight, bias): &(crate::weights::Floats, crate::weights::Floats)| {
                    let mut out = vec![0.0; table.len()];
                    let weight = PackedMatrix::pack(weight, hidden, hidden);
                    gemm(&table, 2 * self.span, &weight, Some(bias), &mut out);
                    out
                };
                PositionWeights {
                    keys: project(&key),
                    queries: project(&query),
                    rows: 2 * self.span,
                    row: row.clone(),
                    longest: self.longest,
                }
            })?;
            let qkv = ["query", "key", "value"].map(|name| (part(name), hidden));
            layers.push(Layer {
                qkv: reader.linear(&qkv, hidden, true)?,
                query_key_norms: None,
                positions: Some(positions),
                out: reader.linear(&[(at("attention.output.dense"), hidden)], hidden, true)?,
                attention_norm: reader.norm(&at("attention.output.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
                second_norm: None,
                feed: Feed::Plain {
                    up: reader.linear(&[(at("intermediate.dense"), inner)], hidden, true)?,
                    down: reader.linear(&[(at("output.dense"), hidden)], inner, true)?,
                },
                norm: reader.norm(&at("output.LayerNorm"), hidden, NormKind::Layer, self.eps)?,
            });
        }
        let absolute = self
            .absolute
            .then(|| reader.table("embeddings.position_embeddings", self.longest, hidden))
            .transpose()?;
        let types = (self.types > 0)
            .then(|| reader.table("embeddings.token_type_embeddings", self.types, hidden))
            .transpose()?;
        Ok(Encoder {
            backend: reader.layers(),
            name: "deberta-v2",
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.word_embeddings", self.vocabulary, hidden)?,
            types,
            positions: absolute.map(|table| (table, Numbering::FromZero)),
            norm: Some(reader.norm("embeddings.LayerNorm", hidden, NormKind::Layer, self.eps)?),
            layers,
            heads: self.heads,
            // The scale depends on the number of products: the plain one and both kinds of
            // positions.
            scale: self.heads.scale() / 3f32.sqrt(),
            rotary: None,
            bias: None,
            activation: self.activation,
        })
    }
}
