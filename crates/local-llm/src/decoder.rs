//! The forward pass over a ragged batch: some rows of each of several sequences.

use isomer_kernels::quant::{Int8Rows, dequantize_row};
use rayon::prelude::*;

use crate::{
    LocalError,
    attention::{self, Heads},
    cache::{KvCache, Rows},
    gguf::GgufFile,
    ops,
    shape::{Architecture, Pairing, Rope, Shape},
    weights::{Arithmetic, Layer, Weights},
};

/// New tokens of one sequence. Their positions follow those in `cache`.
pub(crate) struct Span<'a> {
    pub(crate) cache: &'a mut KvCache,
    pub(crate) tokens: &'a [u32],
    /// The number of these tokens, counted from the last, after which logits are needed.
    pub(crate) logits: usize,
}

/// A model ready to run.
pub(crate) struct Decoder {
    file: GgufFile,
    shape: Shape,
    weights: Weights,
    vocabulary: usize,
    arithmetic: Arithmetic,
}

/// Buffers that steps reuse, with one row per row of the batch.
#[derive(Default)]
pub(crate) struct Scratch {
    hidden: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    context: Vec<f32>,
    projected: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    logits: Vec<f32>,
    int8: Int8Rows,
    /// Cosine and sine of each pair of each row: for layers without a window, and for layers with
    /// one.
    rotations: [Vec<(f32, f32)>; 2],
}

impl Decoder {
    /// Reads and packs all weights, on the calling thread pool.
    pub(crate) fn new(
        file: GgufFile,
        shape: Shape,
        vocabulary: usize,
        arithmetic: Arithmetic,
    ) -> Result<Self, LocalError> {
        let weights = Weights::read(&file, &shape, vocabulary)?;
        Ok(Self {
            file,
            shape,
            weights,
            vocabulary,
            arithmetic,
        })
    }

    /// An empty cache.
    pub(crate) fn cache(&self) -> KvCache {
        KvCache::new(self.shape.layers)
    }

    /// Runs the spans and extends their caches. Returns the requested rows of logits, in the order
    /// of the spans.
    pub(crate) fn forward<'s>(&self, spans: &mut [Span<'_>], scratch: &'s mut Scratch) -> &'s mut [f32] {
        let m: usize = spans.iter().map(|span| span.tokens.len()).sum();
        self.embed(spans, m, scratch);
        self.rotations(spans, scratch);
        for (index, layer) in self.weights.layers.iter().enumerate() {
            self.attention(index, layer, spans, m, scratch);
            self.feed_forward(layer, m, scratch);
        }
        for span in spans.iter_mut() {
            span.cache.advance(span.tokens.len());
        }
        self.logits(spans, scratch)
    }

    fn embed(&self, spans: &[Span<'_>], m: usize, scratch: &mut Scratch) {
        let width = self.shape.hidden;
        let table = self.file.bytes(&self.weights.embedding);
        let row_bytes = table.len() / self.vocabulary;
        scratch.hidden.resize(m * width, 0.0);
        let tokens = spans.iter().flat_map(|span| span.tokens);
        let scale = self.shape.embedding_scale();
        for (row, &token) in scratch.hidden.chunks_exact_mut(width).zip(tokens) {
            let bytes = &table[token as usize * row_bytes..][..row_bytes];
            dequantize_row(self.weights.embedding.kind, bytes, row);
            if scale != 1.0 {
                row.iter_mut().for_each(|x| *x *= scale);
            }
        }
    }

    fn rotations(&self, spans: &[Span<'_>], scratch: &mut Scratch) {
        let local = self.shape.window.map(|(_, rope)| rope);
        for (table, rope) in scratch.rotations.iter_mut().zip([Some(self.shape.rope), local]) {
            table.clear();
            if let Some(rope) = rope {
                for span in spans {
                    for offset in 0..span.tokens.len() {
                        self.rotation(rope, span.cache.len() + offset, table);
                    }
                }
            }
        }
    }

    /// Cosines and sines of one position.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    fn rotation(&self, rope: Rope, position: usize, table: &mut Vec<(f32, f32)>) {
        let dims = self.shape.rope_dims;
        for i in 0..dims / 2 {
            let frequency = f64::from(rope.base).powf(-2.0 * i as f64 / dims as f64);
            let factor = self.weights.rope_factors.as_ref().map_or(1.0, |factors| factors[i]);
            let angle = position as f64 * frequency / f64::from(rope.divide * factor);
            let (sin, cos) = angle.sin_cos();
            table.push((cos as f32, sin as f32));
        }
    }

    fn attention(&self, index: usize, layer: &Layer, spans: &mut [Span<'_>], m: usize, scratch: &mut Scratch) {
        let (shape, arithmetic) = (&self.shape, self.arithmetic);
        let (q_width, kv_width) = (shape.query_width(), shape.kv_width());
        let Scratch {
            hidden,
            normed,
            query,
            key,
            value,
            context,
            projected,
            int8,
            rotations,
            ..
        } = scratch;
        norm(hidden, &layer.attention_norm, shape.eps, normed);
        layer.query.forward(normed, m, arithmetic, int8, query);
        layer.key.forward(normed, m, arithmetic, int8, key);
        layer.value.forward(normed, m, arithmetic, int8, value);

        let window = shape.window_of(index);
        let table = &rotations[usize::from(window.is_some())];
        let prepare = |rows: &mut [f32], width: usize, norm: Option<&Vec<f32>>| {
            let turns = table.par_chunks(shape.rope_dims / 2);
            rows.par_chunks_mut(width)
                .zip(turns)
                .with_min_len(8)
                .for_each(|(row, turn)| {
                    if let Some(norm) = norm {
                        for head in row.chunks_exact_mut(shape.head_dim) {
                            let plain = head.to_vec();
                            ops::rms_norm(&plain, norm, shape.eps, head);
                        }
                    }
                    ops::rotate(row, shape.head_dim, turn, shape.pairing == Pairing::Neighbours);
                });
        };
        prepare(query, q_width, layer.query_norm.as_ref());
        prepare(key, kv_width, layer.key_norm.as_ref());

        let mut first = 0;
        for span in spans.iter_mut() {
            let rows = first * kv_width..(first + span.tokens.len()) * kv_width;
            let kv = span.cache.layer_mut(index);
            kv.keys.extend_from_slice(&key[rows.clone()]);
            kv.values.extend_from_slice(&value[rows]);
            first += span.tokens.len();
        }

        // Each row sees its own position and earlier ones, as far back as the window reaches.
        let jobs: Vec<[Rows<'_>; 2]> = spans
            .iter()
            .flat_map(|span| {
                (0..span.tokens.len()).map(move |offset| {
                    let end = span.cache.len() + offset + 1;
                    let start = window.map_or(0, |window| end.saturating_sub(window));
                    span.cache.rows(index, start..end, kv_width)
                })
            })
            .collect();
        let heads = Heads {
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
        };
        context.resize(m * q_width, 0.0);
        context
            .par_chunks_mut(q_width)
            .zip(query.par_chunks(q_width))
            .zip(jobs)
            .with_min_len(2)
            .for_each_init(Vec::new, |scores, ((out, query), rows)| {
                attention::attend(query, rows, heads, scores, out);
            });

        layer.attention_out.forward(context, m, arithmetic, int8, projected);
        if let Some(weight) = &layer.post_attention_norm {
            norm(projected, weight, shape.eps, normed);
            add(hidden, normed);
        } else {
            add(hidden, projected);
        }
    }

    fn feed_forward(&self, layer: &Layer, m: usize, scratch: &mut Scratch) {
        let (shape, arithmetic) = (&self.shape, self.arithmetic);
        let Scratch {
            hidden,
            normed,
            gate,
            up,
            projected,
            int8,
            ..
        } = scratch;
        norm(hidden, &layer.ffn_norm, shape.eps, normed);
        layer.gate.forward(normed, m, arithmetic, int8, gate);
        layer.up.forward(normed, m, arithmetic, int8, up);
        let activate = match shape.architecture {
            Architecture::Gemma3 => ops::gelu_tanh_times,
            Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 => ops::silu_times,
        };
        gate.par_chunks_mut(PIECE)
            .zip(up.par_chunks(PIECE))
            .for_each(|(gate, up)| activate(gate, up));
        layer.down.forward(gate, m, arithmetic, int8, projected);
        if let Some(weight) = &layer.post_ffn_norm {
            norm(projected, weight, shape.eps, normed);
            add(hidden, normed);
        } else {
            add(hidden, projected);
        }
    }

    fn logits<'s>(&self, spans: &[Span<'_>], scratch: &'s mut Scratch) -> &'s mut [f32] {
        let width = self.shape.hidden;
        let Scratch {
            hidden,
            normed,
            projected,
            logits,
            int8,
            ..
        } = scratch;
        projected.clear();
        let mut end = 0;
        for span in spans {
            end += span.tokens.len();
            projected.extend_from_slice(&hidden[(end - span.logits) * width..end * width]);
        }
        let rows = projected.len() / width;
        norm(projected, &self.weights.norm, self.shape.eps, normed);
        self.weights.head.forward(normed, rows, self.arithmetic, int8, logits);
        logits
    }
}

/// Minimum number of elements that justifies handing work to another thread.
const PIECE: usize = 1 << 13;

fn norm(x: &[f32], weight: &[f32], eps: f32, out: &mut Vec<f32>) {
    out.resize(x.len(), 0.0);
    let piece = weight.len() * PIECE.div_ceil(weight.len());
    x.par_chunks(piece)
        .zip(out.par_chunks_mut(piece))
        .for_each(|(x, out)| ops::rms_norm(x, weight, eps, out));
}

fn add(to: &mut [f32], other: &[f32]) {
    to.par_chunks_mut(PIECE)
        .zip(other.par_chunks(PIECE))
        .for_each(|(to, other)| ops::add(to, other));
}
