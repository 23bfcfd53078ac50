//! A loaded encoder: tokenizer, transformer, pooling and the following stages. Pure computation
//! without a queue or network.

mod compute;
mod front;
mod identity;

use std::{path::Path, sync::OnceLock};

use crate::{
    activation::Elementwise,
    arch::{self, Architecture},
    backend::cpu::INT8_WIDTHS,
    device::{Device, Precision, Rounding},
    error::EmbedError,
    folder::{ModelFolder, Source},
    head,
    steps::{self, Step},
    token_heads::{LateInteraction, SparseHead, TokenHeads},
    tokenise::{Cut, TextTokenizer, Tokens, pairs::First},
    weights::Weights,
};
use front::{front, longest, typed};

/// A loaded encoder.
pub struct Model {
    folder: ModelFolder,
    tokenizer: TextTokenizer,
    architecture: Box<dyn Architecture>,
    /// Steps on token vectors, before the pooling.
    token_steps: Vec<Step>,
    /// Width of a token's vector after these steps.
    token_width: usize,
    /// Steps on the pooled vector.
    steps: Vec<Step>,
    /// Heads for other results than the text's vector.
    heads: TokenHeads,
    /// Labels of a cross-encoder.
    labels: Vec<String>,
    /// Activation of a cross-encoder's scores.
    activation: Elementwise,
    max_tokens: usize,
    dimensions: usize,
    settings_digest: OnceLock<String>,
    // The last field, so that it is dropped after the weights.
    device: MemoryTrim,
}

/// Free bytes that a device keeps for the batches of other models when a model is dropped.
const KEPT: u64 = 1 << 30;

/// The device of a model. Its other free memory is returned when the model is dropped.
struct MemoryTrim(Device);

impl Drop for MemoryTrim {
    fn drop(&mut self) {
        self.0.trim(KEPT);
    }
}

impl Model {
    /// Loads a model folder onto a device, or a text file of word vectors.
    ///
    /// # Errors
    /// If a file is missing, broken or requests an unsupported feature; the error names it.
    pub fn load(path: &Path, device: &Device) -> Result<Self, EmbedError> {
        Self::of(ModelFolder::read(path)?, device)
    }

    /// [`Model::load`] for a folder that has been read.
    ///
    /// # Errors
    /// Those of [`Model::load`].
    pub fn of(mut folder: ModelFolder, device: &Device) -> Result<Self, EmbedError> {
        let device = arch::placed(&folder, device);
        let (tokenizer, architecture) = front(&mut folder, &device)?;
        let max_tokens = longest(&folder, &tokenizer, architecture.as_ref())?;
        let vocabulary = tokenizer.vocabulary();
        // Gemma's tokenizer has image tokens, for which a text-only model has no rows.
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
        let heads = TokenHeads::load(
            &folder,
            &tokenizer,
            architecture.vocabulary(),
            architecture.hidden_size(),
        )?;
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
            heads,
            labels,
            activation,
            max_tokens,
            dimensions,
            settings_digest: OnceLock::new(),
            device: MemoryTrim(device),
        })
    }

    /// The model's folder.
    pub fn folder(&self) -> &ModelFolder {
        &self.folder
    }

    /// `model_type`.
    pub fn architecture(&self) -> &'static str {
        self.architecture.name()
    }

    /// Maximum length of an input in tokens, including special tokens.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Columns of a text's vector; for a cross-encoder, the number of labels; 0 if there are only
    /// token vectors.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Columns of a token's vector.
    pub fn token_dimensions(&self) -> usize {
        let head = self.heads.late_interaction.as_ref();
        head.map_or(self.token_width, LateInteraction::width)
    }

    /// Number of token vectors of a text with this many tokens. A head for late interaction leaves
    /// the first token out.
    pub fn token_rows(&self, tokens: usize) -> usize {
        tokens.saturating_sub(usize::from(self.heads.late_interaction.is_some()))
    }

    /// Labels of a cross-encoder; empty for other models.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether the model scores pairs of texts.
    pub fn is_cross_encoder(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether the model produces one vector per text.
    pub fn has_text_vectors(&self) -> bool {
        !self.folder.pooling.is_empty() && !self.is_cross_encoder()
    }

    /// Whether the model produces one vector per token.
    pub fn has_token_vectors(&self) -> bool {
        self.folder.source != Source::StaticEmbedding && !self.is_cross_encoder() && !self.folder.is_splade()
    }

    /// Whether the model produces sparse vectors.
    pub fn has_sparse_vectors(&self) -> bool {
        self.heads.sparse.is_some()
    }

    /// Turns the logits of a cross-encoder into scores, in place.
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

    /// SHA-256 (hex) of the settings that affect a vector, apart from weights, prompt and device.
    pub fn settings_digest(&self) -> &str {
        self.settings_digest
            .get_or_init(|| identity::digest(&self.folder, &self.tokenizer, self.max_tokens))
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device.0
    }

    /// Whether vectors are scaled to unit length by default.
    pub fn normalises(&self) -> bool {
        self.folder.normalises()
    }

    /// The pipeline around the pooling, without a final normalisation: `mean`, `cls+max>dense`,
    /// `normalize>mean` if token vectors are scaled first. If the transformer's arithmetic is not
    /// `f32`, it comes first: `int8-8x7>mean`, with the bits of the codes of inputs and weights. So
    /// vectors of different arithmetics are never in one space.
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

    /// The transformer's arithmetic in the pipeline's name; empty for `f32`, which static vectors
    /// always use.
    fn arithmetic(&self) -> Vec<String> {
        if self.folder.source != Source::Transformer {
            return Vec::new();
        }
        match &self.device.0 {
            Device::Cpu => Vec::new(),
            // On a GPU, states have 16 bits, too.
            Device::CpuRounded(Rounding::Bf16) => vec!["bf16-linear".to_owned()],
            Device::CpuRounded(Rounding::Int8) => {
                vec![format!("int8-{}x{}", INT8_WIDTHS.inputs(), INT8_WIDTHS.weights())]
            }
            Device::Candle {
                precision: Precision::F32,
                ..
            } => Vec::new(),
            Device::Candle { precision, .. } => vec![precision.name().to_owned()],
        }
    }

    /// The stages of token vectors: `tokens`, `dense>normalize>tokens`.
    pub fn token_pipeline(&self) -> String {
        let names = match &self.heads.late_interaction {
            Some(head) => vec![head.name()],
            None => self.token_steps.iter().map(|step| step.name().to_owned()).collect(),
        };
        let names = self.arithmetic().into_iter().chain(names).chain(["tokens".to_owned()]);
        names.collect::<Vec<_>>().join(">")
    }

    /// The stages of sparse vectors: `log1p-max` (SPLADE), `lexical-` and the digest of the layer
    /// (BGE-M3).
    pub fn sparse_pipeline(&self) -> String {
        let names = self.heads.sparse.as_ref().map(SparseHead::name);
        self.arithmetic().into_iter().chain(names).collect::<Vec<_>>().join(">")
    }

    /// Ids of a text; see [`TextTokenizer::encode`].
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn tokenise(&self, prompt: &str, text: &str, cut: Cut) -> Result<Tokens, String> {
        self.known(self.tokenizer.encode(prompt, text, self.max_tokens, cut)?)
    }

    /// Refuses ids for which the embedding table has no row.
    fn known(&self, tokens: Tokens) -> Result<Tokens, String> {
        let rows = self.architecture.vocabulary();
        match tokens.ids.iter().find(|id| **id as usize >= rows) {
            None => Ok(tokens),
            Some(id) => Err(format!(
                "the text holds a special token (id {id}) that the model has no vector for, it has {rows}"
            )),
        }
    }

    /// The first text of pairs; see [`TextTokenizer::first_of_pairs`].
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn first_of_pairs(&self, text: &str) -> Result<First, String> {
        self.tokenizer.first_of_pairs(text, self.max_tokens)
    }

    /// Ids of a pair; see [`TextTokenizer::encode_pair`].
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn tokenise_pair(&self, first: &First, second: &str) -> Result<Tokens, String> {
        self.known(self.tokenizer.encode_pair(first, second, self.max_tokens)?)
    }

    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// Number of leading tokens, in a text with this prompt, that the pooling excludes: 0 in most
    /// models.
    ///
    /// # Errors
    /// If the tokenizer refuses the prompt.
    pub fn unpooled(&self, prompt: &str) -> Result<usize, String> {
        if self.folder.include_prompt {
            Ok(0)
        } else {
            self.tokenizer.prompt_tokens(prompt)
        }
    }

    fn inner_steps(&self) -> &[Step] {
        match self.steps.split_last() {
            Some((Step::Normalize, before)) => before,
            _ => &self.steps,
        }
    }
}
