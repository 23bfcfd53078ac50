//! A loaded encoder: tokenizer, transformer, pooling and what follows it. Pure computing; no queue, no network.

use std::path::Path;

use isomer_kernels::{Epilogue, PackedMatrix, gemm_serial};
use rayon::prelude::*;

use crate::{
    arch::{self, Architecture},
    backend::Threads,
    batch::{TokenBatch, runs},
    device::Device,
    error::EmbedError,
    folder::{DenseActivation, ModelFolder, Stage},
    pooling::{normalise, pool},
    tokenise::{Cut, TextTokenizer, Tokens},
    weights::Weights,
};

/// Tokens that a thread computes at once: enough rows for the products, few enough that the states stay in cache.
const RUN_TOKENS: usize = 512;
const SMALLEST_RUN: usize = 96;

/// A loaded encoder.
pub struct Model {
    folder: ModelFolder,
    tokenizer: TextTokenizer,
    architecture: Box<dyn Architecture>,
    stages: Vec<Step>,
    max_tokens: usize,
    dimensions: usize,
    device: Device,
}

/// A stage with its weights.
enum Step {
    Dense {
        weights: PackedMatrix,
        bias: Option<Vec<f32>>,
        activation: DenseActivation,
    },
    Normalize,
}

impl Model {
    /// Loads a model folder onto a device.
    ///
    /// # Errors
    /// Names the file that is missing, broken or asks for something that is not served.
    pub fn load(path: &Path, device: &Device) -> Result<Self, EmbedError> {
        let folder = ModelFolder::read(path)?;
        let tokenizer_file = folder.transformer.join("tokenizer.json");
        let tokenizer = TextTokenizer::load(&tokenizer_file, folder.lower_case)?;
        let weights = Weights::open(&folder.transformer)?;
        let architecture = arch::load(&folder, &weights, device)?;
        let positions = architecture.max_positions();
        let max_tokens = folder.max_seq_length.unwrap_or(positions);
        if max_tokens > positions {
            return Err(EmbedError::file(
                &folder.transformer.join("sentence_bert_config.json"),
                format!("max_seq_length is {max_tokens}, the position table of config.json ends at {positions}"),
                format!("set max_seq_length to {positions} or less"),
            ));
        }
        if max_tokens <= tokenizer.special_tokens() {
            return Err(EmbedError::file(
                &folder.transformer.join("sentence_bert_config.json"),
                format!(
                    "max_seq_length {max_tokens} leaves no room beside {} special tokens",
                    tokenizer.special_tokens()
                ),
                "give the longest input in tokens",
            ));
        }
        if tokenizer.vocabulary() > architecture.vocabulary() {
            return Err(EmbedError::file(
                &tokenizer_file,
                format!(
                    "holds {} tokens, the model's table has {} rows",
                    tokenizer.vocabulary(),
                    architecture.vocabulary()
                ),
                "tokenizer.json and the weights belong to different models",
            ));
        }
        let (stages, dimensions) = steps(&folder, architecture.hidden_size() * folder.pooling.len())?;
        Ok(Self {
            folder,
            tokenizer,
            architecture,
            stages,
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

    /// Columns of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether vectors are scaled to unit length by default.
    pub fn normalises(&self) -> bool {
        self.folder.normalises()
    }

    /// The pipeline after the transformer, without a final normalisation: `mean`, `cls+max>dense`.
    pub fn pipeline(&self) -> String {
        let mut text = self
            .folder
            .pooling
            .iter()
            .map(|mode| mode.name())
            .collect::<Vec<_>>()
            .join("+");
        for stage in self.inner_stages() {
            text.push_str(match stage {
                Step::Dense { .. } => ">dense",
                Step::Normalize => ">normalize",
            });
        }
        text
    }

    /// Ids of a text; see [`TextTokenizer::encode`].
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn tokenise(&self, prompt: &str, text: &str, cut: Cut) -> Result<Tokens, String> {
        self.tokenizer.encode(prompt, text, self.max_tokens, cut)
    }

    /// Vectors of tokenised texts, `texts × dimensions`, before a final normalisation (a request may leave it out).
    /// Uses the threads of the current rayon pool. A text's vector does not depend on the others.
    ///
    /// # Errors
    /// Only from the device.
    pub fn encode<S: AsRef<[u32]> + Sync>(&self, texts: &[S]) -> Result<Vec<f32>, EmbedError> {
        let lengths = || texts.iter().map(|text| text.as_ref().len());
        let threads = rayon::current_num_threads();
        // Two runs a thread even out their lengths.
        let target = lengths()
            .sum::<usize>()
            .div_ceil(2 * threads)
            .clamp(SMALLEST_RUN, RUN_TOKENS);
        let runs = runs(lengths(), target);
        let mut out = vec![0.0; texts.len() * self.dimensions];
        let mut rest = &mut out[..];
        let mut pieces = Vec::with_capacity(runs.len());
        for run in runs {
            let (piece, after) = rest.split_at_mut(run.len() * self.dimensions);
            pieces.push((TokenBatch::pack(&texts[run]), piece));
            rest = after;
        }
        let shared_out = matches!(self.device, Device::Cpu) && pieces.len() >= threads;
        if shared_out {
            pieces
                .into_par_iter()
                .try_for_each(|(batch, out)| self.run(&batch, Threads::One, out))?;
        } else {
            pieces
                .into_iter()
                .try_for_each(|(batch, out)| self.run(&batch, Threads::All, out))?;
        }
        Ok(out)
    }

    /// One packed run, through the transformer and the pipeline.
    fn run(&self, batch: &TokenBatch, threads: Threads, out: &mut [f32]) -> Result<(), EmbedError> {
        let hidden = self.architecture.hidden_size();
        let width = hidden * self.folder.pooling.len();
        let mut pooled = vec![0.0; batch.texts() * width];
        // A tokenizer without special tokens turns an empty text into nothing: its vector is zero.
        if batch.tokens() > 0 {
            self.architecture.forward(batch, threads, &mut |states| {
                for (range, pooled) in batch.ranges().zip(pooled.chunks_exact_mut(width)) {
                    pool(
                        &states[range.start * hidden..range.end * hidden],
                        hidden,
                        &self.folder.pooling,
                        pooled,
                    );
                }
            })?;
        }
        for stage in self.inner_stages() {
            match stage {
                Step::Normalize => {
                    let width = (pooled.len() / batch.texts().max(1)).max(1);
                    pooled.chunks_exact_mut(width).for_each(normalise);
                }
                Step::Dense {
                    weights,
                    bias,
                    activation,
                } => {
                    let mut next = vec![0.0; batch.texts() * weights.n()];
                    let epilogue = Epilogue {
                        bias: bias.as_deref(),
                        ..Epilogue::default()
                    };
                    gemm_serial(&pooled, batch.texts(), weights, epilogue, &mut next);
                    if *activation == DenseActivation::Tanh {
                        next.iter_mut().for_each(|value| *value = value.tanh());
                    }
                    pooled = next;
                }
            }
        }
        out.copy_from_slice(&pooled);
        Ok(())
    }

    fn inner_stages(&self) -> &[Step] {
        match self.stages.split_last() {
            Some((Step::Normalize, before)) => before,
            _ => &self.stages,
        }
    }
}

/// Loads the weights of the stages and follows the width through them.
fn steps(folder: &ModelFolder, mut width: usize) -> Result<(Vec<Step>, usize), EmbedError> {
    let mut steps = Vec::with_capacity(folder.stages.len());
    for stage in &folder.stages {
        steps.push(match stage {
            Stage::Normalize => Step::Normalize,
            Stage::Dense {
                folder,
                inputs,
                outputs,
                bias,
                activation,
            } => {
                if *inputs != width {
                    return Err(EmbedError::file(
                        &folder.join("config.json"),
                        format!("in_features is {inputs}, the vector before it has {width} columns"),
                        "the modules of this folder do not belong together",
                    ));
                }
                let file = Weights::open(folder)?;
                let weights = file.get("linear.weight", &[*outputs, *inputs])?;
                let bias = bias.then(|| file.get("linear.bias", &[*outputs])).transpose()?;
                width = *outputs;
                Step::Dense {
                    weights: PackedMatrix::pack(&weights, *outputs, *inputs),
                    bias: bias.map(|bias| bias.to_vec()),
                    activation: *activation,
                }
            }
        });
    }
    Ok((steps, width))
}
