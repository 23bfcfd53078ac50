//! A loaded encoder: tokenizer, transformer, pooling and what follows it. Pure computing; no queue, no network.

mod front;

use std::path::Path;

use rayon::prelude::*;

use crate::{
    activation::Elementwise,
    arch::Architecture,
    backend::{Rows, Sink, Threads, cpu::INT8_WIDTHS},
    batch::{Sequence, Sums, TextView, TokenBatch, Want, runs},
    device::{Device, Precision},
    error::EmbedError,
    folder::{ModelFolder, Source},
    head,
    pooling::{TokenRows, pool, weights},
    steps::{self, Step},
    tokenise::{Cut, TextTokenizer, Tokens},
    weights::Weights,
};
use front::{front, longest, typed};

/// Tokens that a thread computes at once: enough rows for the products, few enough that the states stay in cache.
const RUN_TOKENS: usize = 512;
const SMALLEST_RUN: usize = 96;
/// Tokens that any other device computes at once, beyond any sensible bound on a batch.
const DEVICE_TOKENS: usize = 1 << 18;

/// A loaded encoder.
pub struct Model {
    folder: ModelFolder,
    tokenizer: TextTokenizer,
    architecture: Box<dyn Architecture>,
    /// On token vectors, before the pooling.
    token_steps: Vec<Step>,
    /// Width of a token's vector after them.
    token_width: usize,
    /// On the pooled vector.
    steps: Vec<Step>,
    /// Of a cross-encoder.
    labels: Vec<String>,
    /// Of a cross-encoder's scores.
    activation: Elementwise,
    max_tokens: usize,
    dimensions: usize,
    device: Device,
}

impl Model {
    /// Loads a model folder onto a device, or a text file of word vectors.
    ///
    /// # Errors
    /// Names the file that is missing, broken or asks for something that is not served.
    pub fn load(path: &Path, device: &Device) -> Result<Self, EmbedError> {
        let mut folder = ModelFolder::read(path)?;
        let (tokenizer, architecture) = front(&mut folder, device)?;
        let max_tokens = longest(&folder, &tokenizer, architecture.as_ref())?;
        let vocabulary = tokenizer.vocabulary();
        // Gemma's tokenizer has marks of images that the model of text alone has no row for.
        if vocabulary > architecture.vocabulary() && tokenizer.words() > architecture.vocabulary() {
            return Err(EmbedError::file(
                &folder.transformer.join("tokenizer.json"),
                format!(
                    "holds {vocabulary} tokens, the model's table has {} rows",
                    architecture.vocabulary()
                ),
                "the tokenizer and the weights belong to different models",
            ));
        }
        let (token_steps, token_width) = steps::load(&folder.token_stages, architecture.hidden_size(), vocabulary)?;
        let (mut labels, mut activation) = (Vec::new(), Elementwise::Identity);
        let (steps, dimensions) = match &folder.head {
            None => steps::load(&folder.stages, token_width * folder.pooling.len(), vocabulary)?,
            Some(wanted) => {
                let weights = Weights::open(&folder.transformer)?;
                let loaded = head::load(&folder, wanted, &weights, token_width)?;
                typed(&folder, &tokenizer)?;
                folder.pooling = vec![loaded.pooling];
                (labels, activation) = (loaded.labels, loaded.activation);
                (loaded.steps, labels.len())
            }
        };
        Ok(Self {
            folder,
            tokenizer,
            architecture,
            token_steps,
            token_width,
            steps,
            labels,
            activation,
            max_tokens,
            dimensions,
            device: device.clone(),
        })
    }

    /// What the folder says.
    pub fn folder(&self) -> &ModelFolder {
        &self.folder
    }

    /// `model_type`.
    pub fn architecture(&self) -> &'static str {
        self.architecture.name()
    }

    /// Longest input in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Columns of a text's vector; of a cross-encoder the number of labels; 0 where there are token vectors only.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Columns of a token's vector.
    pub fn token_dimensions(&self) -> usize {
        self.token_width
    }

    /// Labels of a cross-encoder; empty for others.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether pairs of texts are scored.
    pub fn is_cross_encoder(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether a text has one vector.
    pub fn has_text_vectors(&self) -> bool {
        !self.folder.pooling.is_empty() && !self.is_cross_encoder()
    }

    /// Whether a token has a vector of its own.
    pub fn has_token_vectors(&self) -> bool {
        self.folder.source != Source::StaticEmbedding && !self.is_cross_encoder()
    }

    /// Logits of a cross-encoder → its scores, in place.
    pub fn score(&self, logits: &mut [f32]) {
        self.activation.apply(logits);
    }

    /// Number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.architecture.vocabulary()
    }

    /// Special tokens around every text.
    pub fn special_tokens(&self) -> usize {
        self.tokenizer.special_tokens()
    }

    /// What decides about a vector beside the weights and the tokens, for a key.
    pub fn settings(&self) -> String {
        let folder = &self.folder;
        format!(
            "{} {:?} {:?} {:?} {:?} {} {}",
            folder.config,
            folder.token_stages,
            folder.pooling,
            folder.stages,
            folder.include_prompt,
            self.architecture.name(),
            self.device.name(),
        )
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether vectors are scaled to unit length by default.
    pub fn normalises(&self) -> bool {
        self.folder.normalises()
    }

    /// The pipeline around the pooling, without a final normalisation: `mean`, `cls+max>dense`, `normalize>mean` where
    /// token vectors are scaled first. A transformer in another arithmetic than `f32` stands in front: `int8-8x7>mean`, with
    /// the bits of the inputs' and the weights' codes. So vectors of different arithmetics are never in one space.
    pub fn pipeline(&self) -> String {
        let pooling: Vec<_> = self.folder.pooling.iter().map(|mode| mode.name()).collect();
        let mut pooling = pooling.join("+");
        if !self.folder.include_prompt {
            pooling.push_str("-prompt");
        }
        let names = |steps: &[Step]| steps.iter().map(|step| step.name().to_owned()).collect::<Vec<_>>();
        [
            self.arithmetic(),
            names(&self.token_steps),
            vec![pooling],
            names(self.inner_steps()),
        ]
        .concat()
        .join(">")
    }

    /// What the pipeline says of the transformer's arithmetic; nothing for `f32`, in which static vectors always are.
    fn arithmetic(&self) -> Vec<String> {
        if self.folder.source != Source::Transformer {
            return Vec::new();
        }
        match self.device.precision() {
            Precision::F32 => Vec::new(),
            Precision::F16 => vec!["f16".to_owned()],
            Precision::Bf16 => vec!["bf16".to_owned()],
            Precision::Int8 => vec![format!("int8-{}x{}", INT8_WIDTHS.inputs(), INT8_WIDTHS.weights())],
        }
    }

    /// What token vectors went through: `tokens`, `dense>normalize>tokens`.
    pub fn token_pipeline(&self) -> String {
        let names = self.token_steps.iter().map(|step| step.name().to_owned());
        let names = self.arithmetic().into_iter().chain(names).chain(["tokens".to_owned()]);
        names.collect::<Vec<_>>().join(">")
    }

    /// Ids of a text; see [`TextTokenizer::encode`].
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn tokenise(&self, prompt: &str, text: &str, cut: Cut) -> Result<Tokens, String> {
        self.known(self.tokenizer.encode(prompt, text, self.max_tokens, cut)?)
    }

    /// Refuses ids that the table of words has no row for.
    fn known(&self, tokens: Tokens) -> Result<Tokens, String> {
        let rows = self.architecture.vocabulary();
        match tokens.ids.iter().find(|id| **id as usize >= rows) {
            None => Ok(tokens),
            Some(id) => Err(format!(
                "the text holds a special token (id {id}) that the model has no vector for, it has {rows}"
            )),
        }
    }

    /// Ids of a pair; see [`TextTokenizer::encode_pair`].
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn tokenise_pair(&self, first: &str, second: &str) -> Result<Tokens, String> {
        self.known(self.tokenizer.encode_pair(first, second, self.max_tokens)?)
    }

    /// Leading tokens of a text with this prompt that are left out of the pooling: none in most models.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn unpooled(&self, prompt: &str) -> Result<usize, String> {
        if self.folder.include_prompt {
            Ok(0)
        } else {
            self.tokenizer.prompt_tokens(prompt)
        }
    }

    /// Vectors of tokenised texts, `texts × dimensions`, before a final normalisation (a request may leave it out).
    /// Uses the threads of the current rayon pool. A text's vector does not depend on the others.
    ///
    /// # Errors
    /// Only from the device.
    pub fn encode<S: AsRef<[u32]>>(&self, texts: &[S]) -> Result<Vec<f32>, EmbedError> {
        let views: Vec<_> = texts.iter().map(|text| TextView::plain(text.as_ref())).collect();
        self.compute(&views, &mut || ())
    }

    /// Number of values that a text becomes: [`Model::dimensions`], or for token vectors the tokens' columns.
    pub fn values(&self, text: TextView<'_>) -> usize {
        match text.want {
            Want::TextVector => self.dimensions,
            Want::TokenVectors => text.ids.len() * self.token_width,
        }
    }

    /// [`Model::encode`] of texts that a queue held: the values of each ([`Model::values`]), one text after the other.
    ///
    /// # Errors
    /// Only from the device.
    pub fn encode_sequences<'a>(&self, texts: impl Iterator<Item = &'a Sequence>) -> Result<Vec<f32>, EmbedError> {
        self.encode_launching(texts, &mut || ())
    }

    /// [`Model::encode_sequences`], with a call at the moment when a device has been given all of its work and could take
    /// more. The CPU has no such moment.
    ///
    /// # Errors
    /// Only from the device.
    pub fn encode_launching<'a>(
        &self,
        texts: impl Iterator<Item = &'a Sequence>,
        launched: &mut dyn FnMut(),
    ) -> Result<Vec<f32>, EmbedError> {
        self.compute(&texts.map(Sequence::view).collect::<Vec<_>>(), launched)
    }

    /// Whether a batch is computed by the threads of the CPU, run by run.
    fn on_threads(&self) -> bool {
        self.device.is_cpu() || self.folder.source != Source::Transformer
    }

    fn compute(&self, texts: &[TextView<'_>], launched: &mut dyn FnMut()) -> Result<Vec<f32>, EmbedError> {
        let lengths = || texts.iter().map(|text| text.ids.len());
        let threads = rayon::current_num_threads();
        let target = if self.on_threads() {
            // Two runs a thread even out their lengths.
            lengths()
                .sum::<usize>()
                .div_ceil(2 * threads)
                .clamp(SMALLEST_RUN, RUN_TOKENS)
        } else {
            DEVICE_TOKENS
        };
        let runs = runs(lengths(), target);
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
            pieces
                .into_par_iter()
                .try_for_each(|(texts, out)| self.run(texts, Threads::One, &mut || (), out))?;
            return Ok(out);
        }
        let last = pieces.len().saturating_sub(1);
        for (number, (texts, out)) in pieces.into_iter().enumerate() {
            let mut nothing = || ();
            let launched: &mut dyn FnMut() = if number == last { launched } else { &mut nothing };
            self.run(texts, Threads::All, launched, out)?;
        }
        Ok(out)
    }

    /// One packed run, through the transformer and the pipeline.
    fn run(
        &self,
        texts: &[TextView<'_>],
        threads: Threads,
        launched: &mut dyn FnMut(),
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
        // A tokenizer without special tokens turns an empty text into nothing: its vector is zero.
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
            self.architecture
                .forward(&batch, threads, &mut Sink { launched, visit })?;
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

    /// The pooling as sums that a device can make itself, so that a vector a text comes back and not one a token.
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

    /// Token vectors → what is pooled of them, or the vectors themselves at their places in `out`.
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

    fn inner_steps(&self) -> &[Step] {
        match self.steps.split_last() {
            Some((Step::Normalize, before)) => before,
            _ => &self.steps,
        }
    }
}

fn apply(steps: &[Step], rows: Vec<f32>, width: usize, ids: &[u32]) -> Vec<f32> {
    steps
        .iter()
        .fold((rows, width), |(rows, width), step| step.apply(rows, width, ids))
        .0
}
