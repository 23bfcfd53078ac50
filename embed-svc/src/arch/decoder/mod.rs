//! Language models as encoders: root-mean-square normalisation before each block, rotary positions,
//! grouped keys, a gated feed-forward. Llama, Mistral, Qwen 2 and 3, Gemma 3 differ in settings
//! only; see [`family`].

pub(super) mod family;

use super::{
    Architecture,
    encoder::Feed,
    reader::{Build, NormKind, Reader},
};
use crate::{
    backend::{Activation, Attention, Backend, Heads, Layers, Rotation, Sink, Span, Threads},
    batch::TokenBatch,
    error::EmbedError,
};

/// The relevant settings of `config.json`.
pub(super) struct Config {
    /// `model_type`.
    name: &'static str,
    vocabulary: usize,
    pub(super) hidden: usize,
    inner: usize,
    longest: usize,
    heads: Heads,
    /// Factor on the scores.
    scale: f32,
    /// Factor on the embeddings.
    embedding_scale: Option<f32>,
    eps: f32,
    norm: NormKind,
    /// Whether the output of a block is normalised too, before it is added.
    norms_after: bool,
    /// Whether queries and keys are normalised, head by head.
    head_norms: bool,
    qkv_bias: bool,
    out_bias: bool,
    feed_bias: bool,
    activation: Activation,
    /// The kinds of layers.
    kinds: Vec<Kind>,
    /// For each layer, its index in `kinds`.
    layers: Vec<usize>,
    /// Prefixes that tensor names may have.
    prefixes: &'static [&'static str],
}

/// The span and the rotation of a kind of layer.
struct Kind {
    span: Span,
    rotation: Rotation,
}

pub(super) struct Decoder<L: Layers> {
    pub(super) backend: L,
    name: &'static str,
    hidden: usize,
    vocabulary: usize,
    longest: usize,
    words: L::Table,
    embedding_scale: Option<f32>,
    layers: Vec<Layer<L>>,
    last_norm: L::Norm,
    heads: Heads,
    scale: f32,
    kinds: Vec<(Span, L::Rotary)>,
    activation: Activation,
}

struct Layer<L: Layers> {
    kind: usize,
    attention_norm: L::Norm,
    qkv: L::Linear,
    head_norms: Option<(L::Norm, L::Norm)>,
    out: L::Linear,
    after_attention: Option<L::Norm>,
    feed_norm: L::Norm,
    feed: Feed<L>,
    after_feed: Option<L::Norm>,
}

impl Config {
    fn layer<L: Layers>(&self, reader: &mut Reader<'_, L>, number: usize, kind: usize) -> Result<Layer<L>, EmbedError> {
        let Self {
            hidden, inner, heads, ..
        } = *self;
        let at = |part: &str| format!("layers.{number}.{part}");
        let (queries, keys) = (heads.query * heads.width, heads.key * heads.width);
        let qkv = [
            (at("self_attn.q_proj"), queries),
            (at("self_attn.k_proj"), keys),
            (at("self_attn.v_proj"), keys),
        ];
        let mut norm = |part: &str, width: usize| reader.norm(&at(part), width, self.norm, self.eps);
        let attention_norm = norm("input_layernorm", hidden)?;
        let head_norms = if self.head_norms {
            let queries = norm("self_attn.q_norm", heads.width)?;
            Some((queries, norm("self_attn.k_norm", heads.width)?))
        } else {
            None
        };
        // Gemma has two norms around each block. In the other families, the norm before the
        // feed-forward has the name of Gemma's norm after the attention.
        let (after_attention, feed_norm, after_feed) = if self.norms_after {
            (
                Some(norm("post_attention_layernorm", hidden)?),
                norm("pre_feedforward_layernorm", hidden)?,
                Some(norm("post_feedforward_layernorm", hidden)?),
            )
        } else {
            (None, norm("post_attention_layernorm", hidden)?, None)
        };
        Ok(Layer {
            kind,
            attention_norm,
            qkv: reader.linear(&qkv, hidden, self.qkv_bias)?,
            head_norms,
            out: reader.linear(&[(at("self_attn.o_proj"), hidden)], queries, self.out_bias)?,
            after_attention,
            feed_norm,
            feed: Feed::Gated {
                gate: reader.linear(&[(at("mlp.gate_proj"), inner)], hidden, self.feed_bias)?,
                up: reader.linear(&[(at("mlp.up_proj"), inner)], hidden, self.feed_bias)?,
                down: reader.linear(&[(at("mlp.down_proj"), hidden)], inner, self.feed_bias)?,
            },
            after_feed,
        })
    }
}

impl Build for Config {
    type On<L: Layers> = Decoder<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<Decoder<L>, EmbedError> {
        reader.find_prefix(self.prefixes, "embed_tokens.weight");
        let mut layers = Vec::with_capacity(self.layers.len());
        for (number, &kind) in self.layers.iter().enumerate() {
            layers.push(self.layer(reader, number, kind)?);
        }
        let mut kinds = Vec::with_capacity(self.kinds.len());
        for Kind { span, rotation } in &self.kinds {
            kinds.push((*span, reader.rotary(rotation.clone(), self.longest)?));
        }
        Ok(Decoder {
            backend: reader.layers(),
            name: self.name,
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            longest: self.longest,
            kinds,
            words: reader.table("embed_tokens", self.vocabulary, self.hidden)?,
            embedding_scale: self.embedding_scale,
            layers,
            last_norm: reader.norm("norm", self.hidden, self.norm, self.eps)?,
            heads: self.heads,
            scale: self.scale,
            activation: self.activation,
        })
    }
}

impl<B: Backend> Decoder<B> {
    /// One normalised vector per token.
    pub(super) fn states(
        &self,
        batch: &TokenBatch,
        plan: &B::Plan,
        threads: Threads,
        sink: &Sink<'_>,
    ) -> Result<B::States, EmbedError> {
        let on = &self.backend;
        let mut x = on.gather(&self.words, batch.ids(), threads)?;
        if let Some(factor) = self.embedding_scale {
            x = on.scale(x, factor)?;
        }
        for layer in &self.layers {
            (sink.between)();
            let (span, rotary) = &self.kinds[layer.kind];
            let (query_norm, key_norm) = layer.head_norms.as_ref().map(|(q, k)| (q, k)).unzip();
            let how = Attention {
                scale: self.scale,
                span: *span,
                rotary: Some(rotary),
                query_norm,
                key_norm,
                ..Attention::plain(self.heads)
            };
            let normed = on.normalised(&x, &layer.attention_norm)?;
            let qkv = on.apply(&normed, &layer.qkv, Activation::Identity, None)?;
            drop(normed);
            let context = on.attention(qkv, batch, plan, &how)?;
            x = match &layer.after_attention {
                Some(norm) => {
                    let out = on.apply(&context, &layer.out, Activation::Identity, None)?;
                    on.add(on.normalise(out, norm)?, &x)?
                }
                None => on.apply(&context, &layer.out, Activation::Identity, Some(&x))?,
            };
            drop(context);
            let normed = on.normalised(&x, &layer.feed_norm)?;
            x = match &layer.after_feed {
                Some(norm) => {
                    let out = layer.feed.run(on, &normed, self.activation, None)?;
                    on.add(on.normalise(out, norm)?, &x)?
                }
                None => layer.feed.run(on, &normed, self.activation, Some(&x))?,
            };
        }
        on.normalise(x, &self.last_norm)
    }
}

impl<B: Backend> Architecture for Decoder<B> {
    fn name(&self) -> &'static str {
        self.name
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
        let plan = self.backend.plan(batch);
        let states = self.states(batch, &plan, threads, sink)?;
        self.backend.read(&states, batch, &plan, sink)
    }
}
