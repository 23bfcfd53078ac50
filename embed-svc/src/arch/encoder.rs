//! The encoder shared by BERT and its relatives: embeddings, then layers of attention and
//! feed-forward, each followed by a residual and a normalisation. The families differ in names, in
//! the use of positions, and in the feed-forward.

use super::Architecture;
use crate::{
    backend::{Activation, Attention, Backend, Heads, Layers, Sink, Threads},
    batch::TokenBatch,
    error::EmbedError,
};

/// An encoder with a normalisation after each block.
pub(super) struct Encoder<L: Layers> {
    pub(super) backend: L,
    /// `model_type`.
    pub(super) name: &'static str,
    /// Width of a token's vector.
    pub(super) hidden: usize,
    /// Rows of the word table.
    pub(super) vocabulary: usize,
    /// Maximum length of a text in tokens.
    pub(super) longest: usize,
    /// Token embeddings.
    pub(super) words: L::Table,
    /// Token types; only row 0 is used.
    pub(super) types: Option<L::Table>,
    /// Learnt positions.
    pub(super) positions: Option<(L::Table, Numbering)>,
    /// Normalisation of the embeddings.
    pub(super) norm: Option<L::Norm>,
    pub(super) layers: Vec<Layer<L>>,
    /// Heads of the attention.
    pub(super) heads: Heads,
    /// Factor on the scores.
    pub(super) scale: f32,
    /// Rotation of queries and keys.
    pub(super) rotary: Option<L::Rotary>,
    /// Bias of the attention, the same in all layers.
    pub(super) bias: Option<L::Bias>,
    /// Activation of the feed-forward.
    pub(super) activation: Activation,
}

/// How positions are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// From 0.
    FromZero,
    /// From the padding token's id + 1, counting tokens other than padding. The position of a
    /// padding token is its id.
    AfterPadding(u32),
}

impl Numbering {
    /// The rows of the position table.
    pub(super) fn rows(self, batch: &TokenBatch) -> Vec<u32> {
        let mut rows = Vec::with_capacity(batch.tokens());
        for range in batch.ranges() {
            match self {
                Self::FromZero => rows.extend((0u32..).take(range.len())),
                Self::AfterPadding(padding) => {
                    let mut last = padding;
                    rows.extend(batch.ids()[range].iter().map(|&id| {
                        if id == padding {
                            return padding;
                        }
                        last += 1;
                        last
                    }));
                }
            }
        }
        rows
    }
}

pub(super) struct Layer<L: Layers> {
    /// Queries, keys and values in one product.
    pub(super) qkv: L::Linear,
    /// Normalisations of queries and keys.
    pub(super) query_key_norms: Option<(L::Norm, L::Norm)>,
    /// Learnt positions of the attention.
    pub(super) positions: Option<L::Positions>,
    /// The output layer of the attention.
    pub(super) out: L::Linear,
    /// Normalisation after the attention's residual.
    pub(super) attention_norm: L::Norm,
    /// Normalisation after a second residual of the same input, in the only family that has one.
    pub(super) second_norm: Option<L::Norm>,
    /// The feed-forward.
    pub(super) feed: Feed<L>,
    /// Normalisation after the feed-forward's residual.
    pub(super) norm: L::Norm,
}

/// A feed-forward.
pub(super) enum Feed<L: Layers> {
    /// `down(activation(up(x)))`.
    Plain {
        /// To the inner width.
        up: L::Linear,
        /// Back to the hidden width.
        down: L::Linear,
    },
    /// `down(activation(gate(x)) · up(x))`.
    Gated {
        /// Projection that goes through the activation.
        gate: L::Linear,
        /// Projection that is multiplied with the activated one.
        up: L::Linear,
        /// Back to the hidden width.
        down: L::Linear,
    },
}

impl<L: Layers> Feed<L> {
    /// The feed-forward of `x`, plus `residual`.
    pub(super) fn run(
        &self,
        on: &L,
        x: &L::States,
        activation: Activation,
        residual: Option<&L::States>,
    ) -> Result<L::States, EmbedError>
    where
        L: Backend,
    {
        let (inner, down) = match self {
            Self::Plain { up, down } => (on.apply(x, up, activation, None)?, down),
            Self::Gated { gate, up, down } => (on.gated(x, gate, up, activation)?, down),
        };
        on.apply(&inner, down, Activation::Identity, residual)
    }
}

impl<B: Backend> Architecture for Encoder<B> {
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
        let on = &self.backend;
        let plan = on.plan(batch);
        let mut x = on.gather(&self.words, batch.ids(), threads)?;
        // Like torch, adds the token type first and then the position.
        if let Some(types) = &self.types {
            x = on.add_rows(x, types, &batch.types())?;
        }
        if let Some((table, numbering)) = &self.positions {
            x = on.add_rows(x, table, &numbering.rows(batch))?;
        }
        if let Some(norm) = &self.norm {
            x = on.normalise(x, norm)?;
        }
        for layer in &self.layers {
            (sink.between)();
            let (query_norm, key_norm) = layer.query_key_norms.as_ref().map(|(q, k)| (q, k)).unzip();
            let how = Attention {
                query_norm,
                key_norm,
                rotary: self.rotary.as_ref(),
                bias: self.bias.as_ref(),
                positions: layer.positions.as_ref(),
                scale: self.scale,
                ..Attention::plain(self.heads)
            };
            let qkv = on.apply(&x, &layer.qkv, Activation::Identity, None)?;
            let context = on.attention(qkv, batch, &plan, &how)?;
            let attended = on.apply(&context, &layer.out, Activation::Identity, Some(&x))?;
            drop(context);
            let mut attended = on.normalise(attended, &layer.attention_norm)?;
            if let Some(norm) = &layer.second_norm {
                attended = on.normalise(on.add(attended, &x)?, norm)?;
            }
            x = attended;
            let out = layer.feed.run(on, &x, self.activation, Some(&x))?;
            x = on.normalise(out, &layer.norm)?;
        }
        on.read(&x, batch, &plan, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_after_the_padding_id_skip_padding_tokens_inside_a_text() {
        let batch = TokenBatch::pack(&[vec![0, 5, 1, 7, 2], vec![], vec![0, 2]]);
        assert_eq!(Numbering::AfterPadding(1).rows(&batch), [2, 3, 1, 4, 5, 2, 3]);
        assert_eq!(Numbering::FromZero.rows(&batch), [0, 1, 2, 3, 4, 0, 1]);
    }
}
