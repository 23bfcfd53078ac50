//! NV-Embed (Lee et al. 2024): Mistral in which every token sees every other, followed by latent
//! attention. There the tokens are the queries, and a learnt array of latents gives keys and
//! values. NV-Embed-v1 and v2.
//!
//! Keys and values of the latents are the same for every text, so they are multiplied into the
//! adjacent projections when the model is loaded. With `K_h` and `V_h` of head `h`, scores are
//! `x · (K_h W_q,h)ᵀ` and the result is `Σ_h softmax_h · (W_o,h V_hᵀ)ᵀ`. In the published sizes (8
//! heads of 4,096 columns, 512 latents) that is an eighth of the work.

use isomer_kernels::{Epilogue, PackedMatrix, gemm_with, rows};
use serde_json::json;

use super::{
    Architecture,
    decoder::{self, Decoder, family},
    encoder::Feed,
    reader::{Build, NormKind, Reader},
    settings::Settings,
};
use crate::{
    backend::{Activation, Backend, Layers, Sink, Threads},
    batch::TokenBatch,
    error::EmbedError,
    folder::ModelFolder,
};

/// Epsilon of every layer normalisation of the latent attention: torch's default.
const EPS: f32 = 1e-5;
/// Inner width of its feed-forward, as a multiple of the width.
const WIDENING: usize = 4;
const BLOCKS: &str = "cross_attend_blocks";

/// The relevant settings of `config.json`.
pub(super) struct Config {
    decoder: decoder::Config,
    latents: usize,
    heads: usize,
    head: usize,
}

impl Config {
    /// Reads and checks a folder's configuration.
    ///
    /// # Errors
    /// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
    pub(super) fn read(folder: &ModelFolder) -> Result<Self, EmbedError> {
        let settings = Settings::of(folder);
        // "b" means bidirectional.
        settings.only("mask_type", &json!("b"))?;
        // The Pooling module excludes the prompt from the mean, and the model's own switch must
        // agree.
        if settings.flag_or("is_mask_instruction", true)? == folder.include_prompt {
            return Err(settings.refuse(
                format!(
                    "is_mask_instruction is {}, but include_prompt of the Pooling module says otherwise",
                    folder.include_prompt
                ),
                "fetch the model again, with modules.json and the folder of its Pooling",
            ));
        }
        let Some(text) = settings.get("text_config") else {
            return Err(settings.refuse("text_config is missing", "fetch the model again"));
        };
        let text = Settings::new(text, &folder.transformer);
        text.only("model_type", &json!("bidir_mistral"))?;
        let decoder = family::two_sided_mistral(text)?;
        settings.only("hidden_size", &json!(decoder.hidden))?;
        let nothing = json!({});
        let latent = settings.get("latent_attention_config").unwrap_or(&nothing);
        let latent = Settings::new(latent, &folder.transformer);
        for width in ["hidden_dim", "latent_dim"] {
            if latent.size_or(width, 4096)? != decoder.hidden {
                return Err(latent.refuse(
                    format!("{width} is not the hidden_size {} of text_config", decoder.hidden),
                    "the latents of NV-Embed are as wide as its tokens",
                ));
            }
        }
        let config = Self {
            latents: latent.size_or("num_latents_value", 512)?,
            heads: latent.size_or("num_cross_heads", 8)?,
            head: latent.size_or("cross_dim_head", 4096)?,
            decoder,
        };
        let rows = config.heads.checked_mul(config.latents.max(2 * config.head));
        if rows.is_none_or(|rows| rows > 1 << 24) {
            return Err(latent.refuse(
                "num_cross_heads, cross_dim_head and num_latents_value together are too large",
                "fetch the model again",
            ));
        }
        Ok(config)
    }
}

/// An NV-Embed on some layers.
pub(super) struct NvEmbed<L: Layers> {
    decoder: Decoder<L>,
    latents: usize,
    ask_norm: L::Norm,
    /// Layer from tokens to the scores of all heads: `heads · latents` columns, scaled.
    scores: L::Linear,
    /// Layer from the softmax of the scores to tokens.
    answers: L::Linear,
    feed_norm: L::Norm,
    feed: Feed<L>,
}

impl Build for Config {
    type On<L: Layers> = NvEmbed<L>;

    fn build<L: Layers>(&self, reader: &mut Reader<'_, L>) -> Result<NvEmbed<L>, EmbedError> {
        let decoder = self.decoder.build(reader)?;
        reader.find_prefix(&["latent_attention_model."], "latents");
        let (width, columns) = (self.decoder.hidden, self.heads * self.latents);
        let all = self.heads * self.head;
        let at = |block: usize, part: &str| format!("{BLOCKS}.{block}.{part}");
        let memory = Memory {
            latents: &reader.values("latents", &[self.latents, width])?,
            gamma: &reader.values(&at(0, "norm_context.weight"), &[width])?,
            beta: &reader.values(&at(0, "norm_context.bias"), &[width])?,
            queries: &reader.values(&at(0, "fn.to_q.weight"), &[all, width])?,
            keys_values: &reader.values(&at(0, "fn.to_kv.weight"), &[2 * all, width])?,
            out: &reader.values(&at(0, "fn.to_out.weight"), &[width, all])?,
            heads: self.heads,
            head: self.head,
            width,
        };
        // The first pass only checks names. The weights are computed once, in the second pass.
        let mut folded = (Vec::new(), Vec::new());
        let scores = reader.computed(columns, width, || {
            folded = memory.fold();
            std::mem::take(&mut folded.0)
        })?;
        let answers = reader.computed(width, columns, || std::mem::take(&mut folded.1))?;
        let (wide, inner) = (at(1, "fn.net.0"), WIDENING * width);
        Ok(NvEmbed {
            decoder,
            latents: self.latents,
            ask_norm: reader.norm(&at(0, "norm"), width, NormKind::Layer, EPS)?,
            scores,
            answers,
            feed_norm: reader.norm(&at(1, "norm"), width, NormKind::Layer, EPS)?,
            feed: Feed::Gated {
                up: reader.linear_rows(&wide, 0..inner, 2 * inner, width, true)?,
                gate: reader.linear_rows(&wide, inner..2 * inner, 2 * inner, width, true)?,
                down: reader.linear(&[(at(1, "fn.net.2"), width)], inner, true)?,
            },
        })
    }
}

/// The latents, and the projections of their attention.
struct Memory<'a> {
    /// `latents × width`.
    latents: &'a [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    /// `heads · head × width`.
    queries: &'a [f32],
    /// Keys of all heads, then values, `2 · heads · head × width`.
    keys_values: &'a [f32],
    /// `width × heads · head`.
    out: &'a [f32],
    heads: usize,
    head: usize,
    width: usize,
}

impl Memory<'_> {
    /// The weights that give the scores, `heads · latents × width`, and those applied to their
    /// softmax, `width × heads · latents`.
    fn fold(&self) -> (Vec<f32>, Vec<f32>) {
        let Self { heads, head, width, .. } = *self;
        let (all, count) = (heads * head, self.latents.len() / width);
        let mut context = self.latents.to_vec();
        rows::layer_norm(&mut context, self.gamma, self.beta, EPS);
        let both = product(&context, count, self.keys_values, 2 * all, width);
        #[allow(clippy::cast_precision_loss)]
        let scale = 1.0 / (head as f32).sqrt();
        let (mut scores, mut answers) = (Vec::with_capacity(all * width), vec![0.0; width * heads * count]);
        for number in 0..heads {
            let own = number * head..(number + 1) * head;
            let of = |start: usize| -> Vec<f32> {
                let rows = both.chunks_exact(2 * all);
                rows.flat_map(|row| row[start + own.start..start + own.end].iter().copied())
                    .collect()
            };
            let (keys, values) = (of(0), of(all));
            let queries = &self.queries[own.start * width..own.end * width];
            let turned: Vec<f32> = (0..width)
                .flat_map(|column| queries.iter().skip(column).step_by(width).copied())
                .collect();
            scores.extend(
                product(&keys, count, &turned, width, head)
                    .into_iter()
                    .map(|value| value * scale),
            );
            let out: Vec<f32> = self
                .out
                .chunks_exact(all)
                .flat_map(|row| row[own.clone()].iter().copied())
                .collect();
            let own = product(&out, width, &values, count, head);
            for (row, own) in answers.chunks_exact_mut(heads * count).zip(own.chunks_exact(count)) {
                row[number * count..(number + 1) * count].copy_from_slice(own);
            }
        }
        (scores, answers)
    }
}

/// `x · Wᵀ` (`m × n`), for `x` (`m × k`) and `W` (`n × k`).
fn product(x: &[f32], m: usize, weights: &[f32], n: usize, k: usize) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    gemm_with(x, m, &PackedMatrix::pack(weights, n, k), Epilogue::default(), &mut out);
    out
}

impl<B: Backend> Architecture for NvEmbed<B> {
    fn name(&self) -> &'static str {
        self.decoder.name()
    }

    fn hidden_size(&self) -> usize {
        self.decoder.hidden_size()
    }

    fn max_positions(&self) -> usize {
        self.decoder.max_positions()
    }

    fn vocabulary(&self) -> usize {
        self.decoder.vocabulary()
    }

    fn forward(&self, batch: &TokenBatch, threads: Threads, sink: &mut Sink<'_>) -> Result<(), EmbedError> {
        let on = &self.decoder.backend;
        let plan = on.plan(batch);
        let x = self.decoder.states(batch, &plan, threads, sink)?;
        let asked = on.normalised(&x, &self.ask_norm)?;
        let shares = on.shares(&asked, &self.scores, self.latents)?;
        drop(asked);
        let x = on.apply(&shares, &self.answers, Activation::Identity, Some(&x))?;
        drop(shares);
        let normed = on.normalised(&x, &self.feed_norm)?;
        let x = self.feed.run(on, &normed, Activation::Gelu, Some(&x))?;
        on.read(&x, batch, &plan, sink)
    }
}
