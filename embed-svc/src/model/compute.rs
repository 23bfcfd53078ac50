//! Runs tokenised texts through the transformer and the following stages.

use std::{
    borrow::Cow,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use rayon::prelude::*;

use super::Model;
use crate::{
    backend::{Rows, Sink, Threads},
    batch::{Outputs, RequestedOutputs, Sequence, Sizes, Sums, TextView, TokenBatch, even_runs, runs},
    error::EmbedError,
    folder::Source,
    pooling::{TokenRows, pool, weights},
    steps::{Step, apply},
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
        Ok(self.compute(&views, &mut || (), &|| ())?.text_vectors)
    }

    /// Sizes of the results of texts.
    pub fn sizes<'a>(&self, texts: impl Iterator<Item = &'a Sequence>) -> Sizes {
        let mut sizes = Sizes::default();
        for text in texts {
            sizes.text_vectors += usize::from(text.want.text_vector) * self.dimensions;
            sizes.sparse += usize::from(text.want.sparse);
            if text.want.token_vectors {
                sizes.token_vectors += self.token_rows(text.ids.len()) * self.token_dimensions();
            }
        }
        sizes
    }

    /// [`Model::encode`] for queued texts, with every requested result.
    ///
    /// # Errors
    /// If the device fails.
    pub fn encode_sequences<'a>(&self, texts: impl Iterator<Item = &'a Sequence>) -> Result<Outputs, EmbedError> {
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
    ) -> Result<Outputs, EmbedError> {
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
    ) -> Result<Outputs, EmbedError> {
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
        let mut outputs = Outputs::default();
        if self.on_threads() && runs.len() >= threads {
            let waiting = AtomicUsize::new(runs.len());
            let launched = Mutex::new(launched);
            let run = |run: Range<usize>| {
                if waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                    (launched.lock())();
                }
                self.run(&texts[run], Threads::One, (&mut || (), between))
            };
            let each: Result<Vec<_>, _> = runs.into_par_iter().with_max_len(1).map(run).collect();
            each?.into_iter().for_each(|next| outputs.append(next));
            return Ok(outputs);
        }
        let last = runs.len().saturating_sub(1);
        for (number, run) in runs.into_iter().enumerate() {
            let mut nothing = || ();
            let launched: &mut (dyn FnMut() + Send) = if number == last { launched } else { &mut nothing };
            outputs.append(self.run(&texts[run], Threads::All, (launched, between))?);
        }
        Ok(outputs)
    }

    /// Runs one packed run through the transformer and the pipeline.
    fn run(
        &self,
        texts: &[TextView<'_>],
        threads: Threads,
        (launched, between): (&mut (dyn FnMut() + Send), &(dyn Fn() + Sync)),
    ) -> Result<Outputs, EmbedError> {
        let mut batch = TokenBatch::of(texts);
        if !self.on_threads()
            && let Some(sums) = self.pooled_there(texts)
        {
            batch = batch.wanting(sums);
        }
        let count = texts.iter().filter(|text| text.want.text_vector).count();
        let width = self.token_width * self.folder.pooling.len();
        let mut pooled = vec![0.0; count * width];
        let mut outputs = Outputs::default();
        if batch.tokens() > 0 {
            let visit = &mut |rows: Rows<'_>| match rows {
                Rows::Sums(sums) => pooled.copy_from_slice(sums),
                Rows::Tokens(states) => self.collect(texts, &batch, states, &mut pooled, &mut outputs),
            };
            let sink = &mut Sink {
                launched,
                visit,
                between,
            };
            self.architecture.forward(&batch, threads, sink)?;
        } else {
            // A tokenizer without special tokens produces no tokens for an empty text; its vector
            // is zero.
            self.collect(texts, &batch, &[], &mut pooled, &mut outputs);
        }
        outputs.text_vectors = apply(self.inner_steps(), pooled, width, &[]);
        Ok(outputs)
    }

    /// The pooling as sums that a device can compute itself, so that it returns one vector per text
    /// instead of one per token.
    fn pooled_there(&self, texts: &[TextView<'_>]) -> Option<Sums> {
        let modes = &self.folder.pooling;
        let only = |text: &TextView<'_>| text.want == RequestedOutputs::TEXT_VECTOR;
        if !self.token_steps.is_empty() || !texts.iter().all(only) {
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

    /// Pools the hidden states of tokens, and computes the other results from them.
    fn collect(
        &self,
        texts: &[TextView<'_>],
        batch: &TokenBatch,
        states: &[f32],
        pooled: &mut [f32],
        outputs: &mut Outputs,
    ) {
        let hidden = self.architecture.hidden_size();
        let width = self.token_width;
        let stepped = if self.token_steps.is_empty() {
            Cow::Borrowed(states)
        } else {
            Cow::Owned(apply(&self.token_steps, states.to_vec(), hidden, batch.ids()))
        };
        let factors = self.token_steps.iter().find_map(|step| match step {
            Step::WordWeights(factors) => Some(factors),
            _ => None,
        });
        let mut pooled = pooled.chunks_exact_mut((width * self.folder.pooling.len()).max(1));
        for (text, range) in texts.iter().zip(batch.ranges()) {
            let own = &states[range.start * hidden..range.end * hidden];
            let values = &stepped[range.start * width..range.end * width];
            if text.want.token_vectors {
                match &self.heads.late_interaction {
                    Some(head) => outputs.token_vectors.extend(head.rows(own, hidden)),
                    None => outputs.token_vectors.extend_from_slice(values),
                }
            }
            if let Some(head) = self.heads.sparse.as_ref().filter(|_| text.want.sparse) {
                outputs.sparse.push(head.weights(text.ids, own, hidden));
            }
            if text.want.text_vector
                && let Some(pooled) = pooled.next()
            {
                let tokens = TokenRows {
                    values,
                    width,
                    skip: text.prompt,
                    factors: factors.map(|factors| text.ids.iter().map(|id| factors[*id as usize]).sum()),
                };
                pool(tokens, &self.folder.pooling, pooled);
            }
        }
    }
}
