//! A loaded encoder: tokenizer, transformer, pooling and what follows it. Pure computing; no queue,
//! no network.

mod compute;
mod front;

use std::path::Path;

use crate::{
    activation::Elementwise,
    arch::Architecture,
    backend::cpu::INT8_WIDTHS,
    device::{Device, Precision},
    error::EmbedError,
    folder::{ModelFolder, Source},
    head,
    steps::{self, Step},
    tokenise::{Cut, TextTokenizer, Tokens, pairs::First},
    weights::Weights,
};
use front::{front, longest, typed};

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

    /// Columns of a text's vector; of a cross-encoder the number of labels; 0 where there are token
    /// vectors only.
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

    /// The pipeline around the pooling, without a final normalisation: `mean`, `cls+max>dense`,
    /// `normalize>mean` where token vectors are scaled first. A transformer in another arithmetic
    /// than `f32` stands in front: `int8-8x7>mean`, with the bits of the inputs' and the weights'
    /// codes. So vectors of different arithmetics are never in one space.
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

    /// What the pipeline says of the transformer's arithmetic; nothing for `f32`, in which static
    /// vectors always are.
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

    /// The first text of pairs; see [`TextTokenizer::first_of_pairs`].
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn first_of_pairs(&self, text: &str) -> Result<First, String> {
        self.tokenizer.first_of_pairs(text, self.max_tokens)
    }

    /// Ids of a pair; see [`TextTokenizer::encode_pair`].
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn tokenise_pair(&self, first: &First, second: &str) -> Result<Tokens, String> {
        self.known(self.tokenizer.encode_pair(first, second, self.max_tokens)?)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// Leading tokens of a text with this prompt that are left out of the pooling: none in most
    /// models.
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

    fn inner_steps(&self) -> &[Step] {
        match self.steps.split_last() {
            Some((Step::Normalize, before)) => before,
            _ => &self.steps,
        }
    }
}
