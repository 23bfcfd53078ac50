//! Continuous batching: requests enter and leave between two steps of the decoder.

use std::collections::VecDeque;

use rayon::prelude::*;

use crate::{
    Finish, Generated,
    cache::{KvCache, PrefixStore, common_prefix},
    decoder::{Decoder, Scratch, Span},
    output::Output,
    sampling::Sampler,
    vocabulary::Vocabulary,
};

/// A tokenised request that waits for a place in the batch. `T` identifies the caller that gets the
/// answer.
pub(crate) struct Waiting<T> {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_tokens: usize,
    pub(crate) sampler: Sampler,
    pub(crate) output: Output,
    pub(crate) reply: T,
}

/// A request that is being decoded.
struct Active<T> {
    prompt: Vec<u32>,
    max_tokens: usize,
    sampler: Sampler,
    output: Output,
    reply: T,
    cache: KvCache,
    /// Tokens to run next: a piece of the prompt, or the last sampled token.
    feed: std::ops::Range<usize>,
    last: u32,
    generated: usize,
    finish: Option<Finish>,
}

/// Limits of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most sequences decoded at once.
    pub(crate) sequences: usize,
    /// Most rows of a step. A prompt that does not fit continues in the next step.
    pub(crate) rows: usize,
    /// Whether a prefix that several prompts share is computed once.
    pub(crate) reuse: bool,
}

/// The state of decoding.
pub(crate) struct Batch<T> {
    limits: Limits,
    waiting: VecDeque<Waiting<T>>,
    active: Vec<Active<T>>,
    prefixes: PrefixStore,
    scratch: Scratch,
    /// Rows run so far: prompt and answer tokens that were not taken from a cached prefix.
    rows: u64,
}

/// A request waits for the prefix of a sequence in flight if that prefix is longer, by at least
/// this many tokens, than the best cached one.
const WORTH_WAITING: usize = 16;

impl<T: Send> Batch<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            active: Vec::new(),
            prefixes: PrefixStore::default(),
            scratch: Scratch::default(),
            rows: 0,
        }
    }

    pub(crate) fn push(&mut self, waiting: Waiting<T>) {
        self.waiting.push_back(waiting);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.active.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Drops requests that nobody waits for any more.
    pub(crate) fn drop_cancelled(&mut self, is_cancelled: impl Fn(&T) -> bool) {
        self.waiting.retain(|w| !is_cancelled(&w.reply));
        self.active.retain(|a| !is_cancelled(&a.reply));
    }

    /// One step: admits requests that fit, runs one row for each sequence that is answering and as
    /// many prompt rows as fit, and returns the answers that are complete.
    pub(crate) fn step(&mut self, decoder: &Decoder, vocabulary: &Vocabulary) -> Vec<(T, Generated)> {
        self.admit(decoder);
        self.plan();
        self.run(decoder, vocabulary);
        self.collect()
    }

    /// Fills free places, first come first served. An exception: a request that shares a prefix
    /// with a prompt being processed waits until that prefix is available.
    fn admit(&mut self, decoder: &Decoder) {
        let mut index = 0;
        while self.active.len() < self.limits.sequences && index < self.waiting.len() {
            let prompt = &self.waiting[index].prompt;
            // The last token is always run: its logits are needed.
            let usable = if self.limits.reuse { prompt.len() - 1 } else { 0 };
            let kept = self.prefixes.longest(prompt).map(|(at, len)| (at, len.min(usable)));
            let kept = kept.filter(|(_, len)| *len > 0);
            let kept_len = kept.map_or(0, |(_, len)| len);
            let (mut running, mut coming) = (None, 0);
            for (at, active) in self.active.iter().enumerate() {
                let common = common_prefix(&active.prompt, prompt).min(usable);
                let ready = common.min(active.cache.len());
                coming = coming.max(common);
                if ready > running.map_or(0, |(_, len)| len) {
                    running = Some((at, ready));
                }
            }
            let running_len = running.map_or(0, |(_, len)| len);
            if coming >= kept_len.max(running_len) + WORTH_WAITING {
                index += 1;
                continue;
            }
            let Some(waiting) = self.waiting.remove(index) else {
                break;
            };
            let cache = match (kept, running) {
                (Some((at, len)), _) if len >= running_len => KvCache::after(self.prefixes.reuse(at, len)),
                (_, Some((at, len))) => {
                    let Active { prompt, cache, .. } = &mut self.active[at];
                    KvCache::after(cache.beginning(len, prompt.len()))
                }
                _ => decoder.cache(),
            };
            self.active.push(Active {
                prompt: waiting.prompt,
                max_tokens: waiting.max_tokens,
                sampler: waiting.sampler,
                output: waiting.output,
                reply: waiting.reply,
                cache,
                feed: 0..0,
                last: 0,
                generated: 0,
                finish: None,
            });
        }
    }

    /// Gives each answering sequence its row, and divides the rest of the step among prompts.
    fn plan(&mut self) {
        let answering = self.active.iter().filter(|a| a.generated > 0).count();
        let mut room = self.limits.rows.saturating_sub(answering).max(1);
        for active in &mut self.active {
            let done = active.cache.len();
            let end = active.prompt.len().min(done + room);
            active.feed = done.min(end)..end;
            room -= active.feed.len();
        }
    }

    fn run(&mut self, decoder: &Decoder, vocabulary: &Vocabulary) {
        let mut spans = Vec::with_capacity(self.active.len());
        let mut drawing = Vec::with_capacity(self.active.len());
        for active in &mut self.active {
            let Active {
                prompt,
                max_tokens,
                sampler,
                output,
                cache,
                feed,
                last,
                generated,
                finish,
                ..
            } = active;
            let answers = *generated > 0;
            if !answers && feed.start == feed.end {
                continue;
            }
            let wants_logits = answers || feed.end == prompt.len();
            if wants_logits {
                let before = *last;
                spans.push((
                    cache,
                    if answers { None } else { Some(&prompt[feed.clone()]) },
                    before,
                    true,
                ));
                drawing.push((sampler, output, *max_tokens, last, generated, finish));
            } else {
                spans.push((cache, Some(&prompt[feed.clone()]), 0, false));
            }
        }
        let mut spans: Vec<Span<'_>> = spans
            .iter_mut()
            .map(|(cache, tokens, last, wants_logits)| Span {
                cache,
                tokens: tokens.unwrap_or(std::slice::from_ref(last)),
                wants_logits: *wants_logits,
            })
            .collect();
        if spans.is_empty() {
            return;
        }
        self.rows += spans.iter().map(|span| span.tokens.len() as u64).sum::<u64>();
        let logits = decoder.forward(&mut spans, &mut self.scratch);
        drawing
            .into_par_iter()
            .zip(logits.par_chunks(vocabulary.len()))
            .for_each(|((sampler, output, max_tokens, last, generated, finish), logits)| {
                *last = sampler.next(logits);
                *generated += 1;
                *finish = if vocabulary.ends_text(*last) || output.push(vocabulary.token(*last)) {
                    Some(Finish::Stop)
                } else if *generated >= max_tokens {
                    Some(Finish::Length)
                } else {
                    None
                };
            });
    }

    fn collect(&mut self) -> Vec<(T, Generated)> {
        let mut done = Vec::new();
        let mut index = 0;
        while index < self.active.len() {
            let Some(finish) = self.active[index].finish else {
                index += 1;
                continue;
            };
            let active = self.active.remove(index);
            let generated = Generated {
                text: active.output.into_text(),
                prompt_tokens: active.prompt.len(),
                generated_tokens: active.generated,
                finish,
            };
            if self.limits.reuse {
                self.prefixes.keep(active.prompt, active.cache);
            }
            done.push((active.reply, generated));
        }
        done
    }
}
