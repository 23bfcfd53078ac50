//! Continuous batching: requests enter and leave between two steps of the decoder.

use std::collections::VecDeque;

use rayon::prelude::*;

use crate::{
    Finish, Generation,
    cache::{KvCache, PrefixStore, common_prefix},
    decoder::{Decoder, Scratch, Span},
    guess::Guesses,
    output::Output,
    sampling::Sampler,
    vocabulary::Vocabulary,
};

/// A tokenised request that waits for a place in the batch. `T` identifies the caller that receives
/// the answer.
pub(crate) struct QueuedRequest<T> {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_tokens: usize,
    pub(crate) sampler: Sampler,
    pub(crate) output: Output,
    pub(crate) reply: T,
}

/// A request that is being decoded.
struct Active<T> {
    /// The prompt, and the answer so far.
    tokens: Vec<u32>,
    /// Number of tokens that belong to the prompt.
    prompt: usize,
    max_tokens: usize,
    sampler: Sampler,
    output: Output,
    reply: T,
    cache: KvCache,
    /// Tokens to run next: a piece of the prompt, or the last token with guesses at the following
    /// tokens.
    next: Vec<u32>,
    guesses: Guesses,
    finish: Option<Finish>,
}

impl<T> Active<T> {
    fn prompt(&self) -> &[u32] {
        &self.tokens[..self.prompt]
    }

    fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// The number of tokens of the next step after which logits are needed.
    fn logits(&self) -> usize {
        if self.generated() > 0 {
            self.next.len()
        } else {
            usize::from(self.cache.len() + self.next.len() == self.prompt)
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of sequences decoded at once.
    pub(crate) sequences: usize,
    /// Maximum number of rows in a step. A prompt that does not fit continues in the next step.
    pub(crate) rows: usize,
    /// Whether a prefix that several prompts share is computed once.
    pub(crate) reuse: bool,
    /// Maximum number of rows in a step with guesses.
    pub(crate) guessing: usize,
}

/// The state of decoding.
pub(crate) struct Batch<T> {
    limits: Limits,
    waiting: VecDeque<QueuedRequest<T>>,
    active: Vec<Active<T>>,
    prefixes: PrefixStore,
    scratch: Scratch,
    /// Number of rows run so far: prompt and answer tokens that were not taken from a cached
    /// prefix.
    rows: u64,
}

/// A request waits for the prefix of a sequence in flight if that prefix is longer than the best
/// cached one by at least this many tokens.
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

    pub(crate) fn push(&mut self, waiting: QueuedRequest<T>) {
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

    /// Drops requests whose callers have gone.
    pub(crate) fn drop_cancelled(&mut self, is_cancelled: impl Fn(&T) -> bool) {
        self.waiting.retain(|w| !is_cancelled(&w.reply));
        self.active.retain(|a| !is_cancelled(&a.reply));
    }

    /// Runs one step: admits requests that fit, runs one or more rows for each answering sequence
    /// and as many prompt rows as fit, and returns the completed answers.
    pub(crate) fn step(&mut self, decoder: &Decoder, vocabulary: &Vocabulary) -> Vec<(T, Generation)> {
        self.admit(decoder);
        self.plan();
        self.run(decoder, vocabulary);
        self.collect()
    }

    /// Fills free places in order of arrival. An exception: a request that shares a prefix with a
    /// prompt being processed waits until that prefix is available.
    fn admit(&mut self, decoder: &Decoder) {
        let mut index = 0;
        while self.active.len() < self.limits.sequences && index < self.waiting.len() {
            let prompt = &self.waiting[index].prompt;
            // The last token is always run, because its logits are needed.
            let usable = if self.limits.reuse { prompt.len() - 1 } else { 0 };
            let kept = self.prefixes.longest(prompt).map(|(at, len)| (at, len.min(usable)));
            let kept = kept.filter(|(_, len)| *len > 0);
            let kept_len = kept.map_or(0, |(_, len)| len);
            let (mut running, mut coming) = (None, 0);
            for (at, active) in self.active.iter().enumerate() {
                let common = common_prefix(active.prompt(), prompt).min(usable);
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
                    KvCache::after(cache.beginning(len, *prompt))
                }
                _ => decoder.cache(),
            };
            self.active.push(Active {
                prompt: waiting.prompt.len(),
                tokens: waiting.prompt,
                max_tokens: waiting.max_tokens,
                sampler: waiting.sampler,
                output: waiting.output,
                reply: waiting.reply,
                cache,
                next: Vec::new(),
                guesses: Guesses::new(),
                finish: None,
            });
        }
    }

    /// Gives each answering sequence its row, and divides the rest of the step among prompts, or
    /// among guesses if the list of prompts is empty.
    fn plan(&mut self) {
        let answering = self.active.iter().filter(|a| a.generated() > 0).count();
        let prompts = self.active.len() - answering;
        let mut room = self.limits.rows.saturating_sub(answering).max(1);
        let guesses = match prompts {
            0 => self.limits.guessing.saturating_sub(answering) / answering.max(1),
            _ => 0,
        };
        for active in &mut self.active {
            active.next.clear();
            let generated = active.generated();
            if generated > 0 {
                active.next.extend(active.tokens.last());
                // No token follows the last token that may be generated.
                let guesses = guesses.min(active.max_tokens - generated - 1);
                active
                    .next
                    .extend_from_slice(active.guesses.after(&active.tokens, guesses));
            } else {
                let done = active.cache.len();
                let end = active.prompt.min(done + room);
                active.next.extend_from_slice(&active.tokens[done..end]);
                room -= active.next.len();
            }
        }
    }

    fn run(&mut self, decoder: &Decoder, vocabulary: &Vocabulary) {
        let mut spans = Vec::with_capacity(self.active.len());
        let mut drawing = Vec::with_capacity(self.active.len());
        for active in &mut self.active {
            let logits = active.logits();
            let Active {
                tokens,
                prompt,
                max_tokens,
                sampler,
                output,
                cache,
                next,
                guesses,
                finish,
                ..
            } = active;
            if next.is_empty() {
                continue;
            }
            spans.push(Span {
                cache,
                tokens: &next[..],
                logits,
            });
            if logits > 0 {
                drawing.push(TokenDraw {
                    most: *prompt + *max_tokens,
                    guessed: &next[next.len() - (logits - 1)..],
                    tokens,
                    sampler,
                    output,
                    guesses,
                    finish,
                });
            }
        }
        if spans.is_empty() {
            return;
        }
        self.rows += spans.iter().map(|span| span.tokens.len() as u64).sum::<u64>();
        let mut logits = &*decoder.forward(&mut spans, &mut self.scratch);
        let mut drawing: Vec<_> = drawing
            .into_iter()
            .map(|drawing| {
                let (own, others) = logits.split_at((drawing.guessed.len() + 1) * vocabulary.len());
                logits = others;
                (drawing, own)
            })
            .collect();
        drawing
            .par_iter_mut()
            .for_each(|(drawing, logits)| drawing.draw(logits, vocabulary));
        for active in &mut self.active {
            // The last token is run in the next step; wrong guesses are dropped.
            if active.generated() > 0 {
                active.cache.truncate(active.tokens.len() - 1);
            }
        }
    }

    fn collect(&mut self) -> Vec<(T, Generation)> {
        let mut done = Vec::new();
        let mut index = 0;
        while index < self.active.len() {
            let Some(finish) = self.active[index].finish else {
                index += 1;
                continue;
            };
            let mut active = self.active.remove(index);
            let generated_tokens = active.generated();
            let generated = Generation {
                text: active.output.into_text(),
                prompt_tokens: active.prompt,
                generated_tokens,
                finish,
            };
            if self.limits.reuse {
                active.tokens.truncate(active.prompt);
                self.prefixes.keep(active.tokens, active.cache);
            }
            done.push((active.reply, generated));
        }
        done
    }
}

/// The state of a sequence for drawing tokens from its rows of logits.
struct TokenDraw<'a> {
    /// There is one row after the last token, and one after each guess.
    guessed: &'a [u32],
    tokens: &'a mut Vec<u32>,
    /// Maximum number of tokens of prompt and answer.
    most: usize,
    sampler: &'a mut Sampler,
    output: &'a mut Output,
    guesses: &'a mut Guesses,
    finish: &'a mut Option<Finish>,
}

impl TokenDraw<'_> {
    /// Draws a token from each row, until a token differs from the guess with which the next row
    /// was computed.
    fn draw(&mut self, logits: &[f32], vocabulary: &Vocabulary) {
        let mut right = 0;
        for (row, logits) in logits.chunks(vocabulary.len()).enumerate() {
            let token = self.sampler.next(logits);
            self.tokens.push(token);
            *self.finish = if vocabulary.ends_text(token) || self.output.push(vocabulary.token(token)) {
                Some(Finish::Stop)
            } else if self.tokens.len() >= self.most {
                Some(Finish::Length)
            } else {
                None
            };
            if self.finish.is_some() || self.guessed.get(row) != Some(&token) {
                break;
            }
            right += 1;
        }
        self.guesses.learn(self.guessed.len(), right);
    }
}
