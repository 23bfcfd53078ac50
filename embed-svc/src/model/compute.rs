//! Runs tokenised texts through the transformer and the following stages.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rayon::prelude::*;

use super::Model;
use crate::{
    backend::{Rows, Sink, Threads},
    batch::{Sequence, Sums, TextView, TokenBatch, Want, even_runs, runs},
    error::EmbedError,
    folder::Source,
    pooling::{TokenRows, pool, weights},
    steps::Step,
};

/// Number of tokens that a thread computes at once: enough rows for the products, but few enough
/// that the states stay in cache.
const RUN_TOKENS: usize = 512;
const SMALLEST_RUN: usize = 96;
/// Number of tokens that any other device computes at once: more than any sensible batch has.
const DEVICE_TOKENS: usize = 1 << 18;

impl Model {
    /// Vectors of tokenised texts, `texts × dimensions`, before a final normalisation (which a
    /// request may switch off). Uses the threads of the current rayon pool. A text's vector does
    /// not depend on the others.
    ///
    /// # Errors
    /// If the device fails.
    pub fn encode<S: AsRef<[u32]>>(&self, texts: &[S]) -> Result<Vec<f32>, EmbedError> {
        let views: Vec<_> = texts.iter().map(|text| TextView::plain(text.as_ref())).collect();
        self.compute(&views, &mut || (), &|| ())
    }

    /// Number of values of a text: [`Model::dimensions`], or for token vectors the columns of all
    /// its tokens.
    pub fn values(&self, text: TextView<'_>) -> usize {
        match text.want {
            Want::TextVector => self.dimensions,
            Want::TokenVectors => text.ids.len() * self.token_width,
        }
    }

    /// [`Model::encode`] for queued texts: the values of each ([`Model::values`]), one text after
    /// another.
    ///
    /// # Errors
    /// If the device fails.
    pub fn encode_sequences<'a>(&self, texts: impl Iterator<Item = &'a Sequence>) -> Result<Vec<f32>, EmbedError> {
        self.encode_launching(texts, &mut || (), &|| ())
    }

    /// [`Model::encode_sequences`], with a call to `launched` once all work is submitted and the
    /// model could accept more. On a device, that is when the work is queued. On the CPU, it is
    /// when the threads have begun the last run and the first of them becomes idle. Each thread of
    /// the CPU calls `between` before each layer.
    ///
    /// # Errors
    /// If the device fails.
    pub fn encode_launching<'a>(
        &self,
        texts: impl Iterator<Item = &'a Sequence>,
        launched: &mut (dyn FnMut() + Send),
        between: &(dyn Fn() + Sync),
    ) -> Result<Vec<f32>, EmbedError> {
        self.compute(&texts.map(Sequence::view).collect::<Vec<_>>(), launched, between)
    }

    /// Number of waiting tokens that justify starting another batch while one still runs. On a
    /// device, which is slow on small batches, this is `piece`. On the CPU it is small, because a
    /// thread would otherwise be idle.
    pub fn worth_overlapping(&self, piece: usize) -> usize {
        if self.on_threads() { SMALLEST_RUN } else { piece }
    }

    /// Whether the threads of the CPU compute a batch, run by run.
    fn on_threads(&self) -> bool {
        self.device().is_cpu() || self.folder.source != Source::Transformer
    }

    fn compute(
        &self,
        texts: &[TextView<'_>],
        launched: &mut (dyn FnMut() + Send),
        between: &(dyn Fn() + Sync),
    ) -> Result<Vec<f32>, EmbedError> {
        let lengths = || texts.iter().map(|text| text.ids.len());
        let threads = rayon::current_num_threads();
        let runs = if self.on_threads() {
            let tokens = lengths().sum::<usize>();
            // Each thread gets the same number of runs, and at least two, which evens out their
            // durations.
            let count = tokens.div_ceil(RUN_TOKENS).next_multiple_of(threads).max(2 * threads);
            even_runs(lengths(), count.min((tokens + SMALLEST_RUN / 2) / SMALLEST_RUN))
        } else {
            runs(lengths(), DEVICE_TOKENS)
        };
        let values = |texts: &[TextView<'_>]| texts.iter().map(|text| self.values(*text)).sum::<usize>();
        let mut out = vec![0.0; values(texts)];
        let mut rest = &mut out[..];
        let mut pieces = Vec::with_capacity(runs.len());
        for run in runs {
            let texts = &texts[run];
            let (piece, after) = rest.split_at_mut(values(texts));
            pieces.push((texts, piece));
            rest = after;
        }
        if self.on_threads() && pieces.len() >= threads {
            let waiting = AtomicUsize::new(pieces.len());
            let launched = Mutex::new(launched);
            pieces.into_par_iter().with_max_len(1).try_for_each(|(texts, out)| {
                if waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                    (launched.lock())();
                }
                self.run(texts, Threads::One, (&mut || (), between), out)
            })?;
            return Ok(out);
        }
        let last = pieces.len().saturating_sub(1);
        for (number, (texts, out)) in pieces.into_iter().enumerate() {
            let mut nothing = || ();
            let launched: &mut (dyn FnMut() + Send) = if number == last { launched } else { &mut nothing };
            self.run(texts, Threads::All, (launched, between), out)?;
        }
        Ok(out)
    }

    /// Runs one packed run through the transformer and the pipeline.
    fn run(
        &self,
        texts: &[TextView<'_>],
        threads: Threads,
        (launched, between): (&mut (dyn FnMut() + Send), &(dyn Fn() + Sync)),
        out: &mut [f32],
    ) -> Result<(), EmbedError> {
        let mut batch = TokenBatch::of(texts);
        if !self.on_threads()
            && let Some(sums) = self.pooled_there(texts)
        {
            batch = batch.wanting(sums);
        }
        let count = texts.iter().filter(|text| text.want == Want::TextVector).count();
        let width = self.token_width * self.folder.pooling.len();
        let mut pooled = vec![0.0; count * width];
        // A tokenizer without special tokens produces no tokens for an empty text; its vector is
        // zero.
        if batch.tokens() > 0 {
            let visit = &mut |rows: Rows<'_>| match rows {
                Rows::Sums(sums) => pooled.copy_from_slice(sums),
                Rows::Tokens(states) if self.token_steps.is_empty() => {
                    self.collect(texts, &batch, states, &mut pooled, out);
                }
                Rows::Tokens(states) => {
                    let hidden = self.architecture.hidden_size();
                    let states = apply(&self.token_steps, states.to_vec(), hidden, batch.ids());
                    self.collect(texts, &batch, &states, &mut pooled, out);
                }
            };
            let sink = &mut Sink {
                launched,
                visit,
                between,
            };
            self.architecture.forward(&batch, threads, sink)?;
        }
        let finished = apply(self.inner_steps(), pooled, width, &[]);
        let mut rows = finished.chunks_exact(self.dimensions.max(1));
        let mut rest = out;
        for text in texts {
            let (place, after) = rest.split_at_mut(self.values(*text));
            if text.want == Want::TextVector
                && let Some(row) = rows.next()
            {
                place.copy_from_slice(row);
            }
            rest = after;
        }
        Ok(())
    }

    /// The pooling as sums that a device can compute itself, so that it returns one vector per text
    /// instead of one per token.
    fn pooled_there(&self, texts: &[TextView<'_>]) -> Option<Sums> {
        let modes = &self.folder.pooling;
        if !self.token_steps.is_empty() || texts.iter().any(|text| text.want == Want::TokenVectors) {
            return None;
        }
        let mut sums = Sums {
            count: modes.len(),
            ..Sums::default()
        };
        let mut each = texts.iter();
        each.all(|text| weights(text.ids.len(), text.prompt, modes, &mut sums.weights))
            .then_some(sums)
    }

    /// Pools token vectors, or copies them to their places in `out`.
    fn collect(&self, texts: &[TextView<'_>], batch: &TokenBatch, states: &[f32], pooled: &mut [f32], out: &mut [f32]) {
        let width = self.token_width;
        let factors = self.token_steps.iter().find_map(|step| match step {
            Step::WordWeights(factors) => Some(factors),
            _ => None,
        });
        let mut pooled = pooled.chunks_exact_mut((width * self.folder.pooling.len()).max(1));
        let mut first = 0;
        for (text, range) in texts.iter().zip(batch.ranges()) {
            let values = &states[range.start * width..range.end * width];
            if text.want == Want::TokenVectors {
                out[first..first + values.len()].copy_from_slice(values);
            } else if let Some(pooled) = pooled.next() {
                let tokens = TokenRows {
                    values,
                    width,
                    skip: text.prompt,
                    factors: factors.map(|factors| text.ids.iter().map(|id| factors[*id as usize]).sum()),
                };
                pool(tokens, &self.folder.pooling, pooled);
            }
            first += self.values(*text);
        }
    }
}

fn apply(steps: &[Step], rows: Vec<f32>, width: usize, ids: &[u32]) -> Vec<f32> {
    steps
        .iter()
        .fold((rows, width), |(rows, width), step| step.apply(rows, width, ids))
        .0
}
