//! ModernBERT (Warner et al. 2024): normalisation before each block, rotary positions, gated
//! feed-forward. Layers that see a window alternate with layers that see all tokens.
//! gte-modernbert-base, modernbert-embed, nomic-embed-modernbert.

use super::{
    Architecture,
    encoder::Feed,
    reader::{Build, NormKind, Reader},
    rope::{self, Rope},
    settings::Settings,
};
use crate::{
    backend::{Activation, Attention, Backend, Heads, Layers, Rotation, Sink, Span, Threads},
    batch::TokenBatch,
    error::EmbedError,
    folder::ModelFolder,
};

/// The relevant settings of `config.json`.
pub(super) struct Config {
    vocabulary: usize,
    hidden: usize,
    /// For each layer, whether it sees only a window.
    windowed: Vec<bool>,
    window: Span,
    heads: Heads,
    inner: usize,
    longest: usize,
    eps: f32,
    norm: NormKind,
    attention_bias: bool,
    feed_bias: bool,
    activation: Activation,
    global: Rotation,
    local: Rotation,
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
    pub(super) fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let settings = Settings::of(folder);
        let (hidden, heads) = (settings.size("hidden_size")?, settings.size("num_attention_heads")?);
        let width = settings.head_width(("hidden_size", hidden), ("num_attention_heads", heads))?;
        let longest = settings.size_or("max_position_embeddings", 8192)?;
        let rotation = |key: &str, theta: f64, layer_type: &str| {
            let theta = settings.number_or(key, theta)?;
            let rope = Rope {
                theta,
                ..Rope::whole(width, longest)
            };
            rope::read(settings, rope, Some(layer_type))
        };
        let reach = settings.size_or("local_attention", 128)? / 2;
        let norm = if settings.flag_or("norm_bias", false)? {
            NormKind::Layer
        } else {
            NormKind::LayerNoBias
        };
        Ok(Self {
            vocabulary: settings.size("vocab_size")?,
            hidden,
            windowed: windowed(settings)?,
            window: Span {
                before: reach,
                after: reach,
            },
            heads: Heads::equal(heads, width),
            inner: settings.size("intermediate_size")?,
            longest,
            eps: settings.eps("norm_eps", 1e-5)?,
            norm,
            attention_bias: settings.flag_or("attention_bias", false)?,
            feed_bias: settings.flag_or("mlp_bias", false)?,
            activation: settings.activation("hidden_activation", "gelu")?,
            global: rotation("global_rope_theta", 160_000.0, "full_attention")?,
            local: rotation("local_rope_theta", 10_000.0, "sliding_attention")?,
        })
    }
}

/// The layers that see only a window: those of `layer_types`, or all except each n-th.
fn windowed(settings: Settings<'_>) -> Result<Vec<bool>, EmbedError> {
    let layers = settings.count_or("num_hidden_layers", 22)?;
    if let Some(windowed) = settings.layer_types(layers)? {
        return Ok(windowed);
    }
    let every = settings.size_or("global_attn_every_n_layers", 3)?;
    Ok((0..layers).map(|layer| layer % every != 0).collect())
}

pub(super) struct ModernBert<L: Layers> {
    backend: L,
    hidden: usize,
    vocabulary: usize,
    longest: usize,
    words: L::Table,
    first_norm: L::Norm,
    layers: Vec<Layer<L>>,
    last_norm: L::Norm,
    heads: Heads,
    window: Span,
    global: L::Rotary,
    local: L::Rotary,
    activation: Activation,
}

struct Layer<L: Layers> {
    windowed: bool,
    /// `None` in the first layer, because the embeddings are normalised already.
    attention_norm: Option<L::Norm>,
    qkv: L::Linear,
    out: L::Linear,
    feed_norm: L::Norm,
    feed: Feed<L>,
}

impl Build for Config {
    type On<L: Layers> = ModernBert<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<ModernBert<L>, EmbedError> {
        let (hidden, inner) = (self.hidden, self.inner);
        reader.find_prefix(&["", "model."], "embeddings.tok_embeddings.weight");
        let mut layers = Vec::with_capacity(self.windowed.len());
        for (number, &windowed) in self.windowed.iter().enumerate() {
            let at = |part: &str| format!("layers.{number}.{part}");
            let attention_norm = (number > 0)
                .then(|| reader.norm(&at("attn_norm"), hidden, self.norm, self.eps))
                .transpose()?;
            let wide = at("mlp.Wi");
            layers.push(Layer {
                windowed,
                attention_norm,
                qkv: reader.linear(&[(at("attn.Wqkv"), 3 * hidden)], hidden, self.attention_bias)?,
                out: reader.linear(&[(at("attn.Wo"), hidden)], hidden, self.attention_bias)?,
                feed_norm: reader.norm(&at("mlp_norm"), hidden, self.norm, self.eps)?,
                feed: Feed::Gated {
                    gate: reader.linear_rows(&wide, 0..inner, 2 * inner, hidden, self.feed_bias)?,
                    up: reader.linear_rows(&wide, inner..2 * inner, 2 * inner, hidden, self.feed_bias)?,
                    down: reader.linear(&[(at("mlp.Wo"), hidden)], inner, self.feed_bias)?,
                },
            });
        }
        Ok(ModernBert {
            backend: reader.layers(),
            hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            words: reader.table("embeddings.tok_embeddings", self.vocabulary, hidden)?,
            first_norm: reader.norm("embeddings.norm", hidden, self.norm, self.eps)?,
            layers,
            last_norm: reader.norm("final_norm", hidden, self.norm, self.eps)?,
            heads: self.heads,
            window: self.window,
            global: reader.rotary(self.global.clone(), self.longest)?,
            local: reader.rotary(self.local.clone(), self.longest)?,
            activation: self.activation,
        })
    }
}

impl<B: Backend> Architecture for ModernBert<B> {
    fn name(&self) -> &'static str {
        "modernbert"
    }

    fn hidden_size(&self) -> usize {
        self.hidden
    }

    fn max_positions(&self) -> usize {
        self.longest
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn forward(&self, batch: &TokenBatch, threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        let on = &self.backend;
        let plan = on.plan(batch);
        let mut x = on.normalise(on.gather(&self.words, batch.ids(), threads)?, &self.first_norm)?;
        for layer in &self.layers {
            (sink.between)();
            let (span, rotary) = if layer.windowed {
                (self.window, &self.local)
            } else {
                (Span::ALL, &self.global)
            };
            let how = Attention {
                span,
                rotary: Some(rotary),
                ..Attention::plain(self.heads)
            };
            let qkv = match &layer.attention_norm {
                Some(norm) => on.apply(&on.normalised(&x, norm)?, &layer.qkv, Activation::Identity, None)?,
                None => on.apply(&x, &layer.qkv, Activation::Identity, None)?,
            };
            let context = on.attention(qkv, batch, &plan, &how)?;
            x = on.apply(&context, &layer.out, Activation::Identity, Some(&x))?;
            drop(context);
            let normed = on.normalised(&x, &layer.feed_norm)?;
            x = layer.feed.run(on, &normed, self.activation, Some(&x))?;
        }
        on.read(&on.normalise(x, &self.last_norm)?, batch, &plan, sink)
    }
}
