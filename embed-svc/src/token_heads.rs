//! Heads on the hidden states of tokens: sparse vectors and vectors for late interaction.
//!
//! Sources: SPLADE, T. Formal et al. (2021, arXiv 2107.05720 with sums; arXiv 2109.10086 with
//! maxima); its second logarithm, Z. Geng et al. (2025, arXiv 2504.14839); BGE-M3, J. Chen et al.
//! (2024, arXiv 2402.03216), section 3.2.

use std::{collections::BTreeMap, path::Path};

use isomer_kernels::{Epilogue, PackedMatrix, gemm_serial};
use rayon::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    activation::Elementwise,
    batch::SparseVector,
    error::EmbedError,
    folder::{ModelFolder, Sparse, Splade},
    head::{layer_norm, linear},
    steps::{Residual, Step, apply},
    tokenise::TextTokenizer,
    weights::Weights,
};

/// Tokens whose scores of the vocabulary are computed at once: 32 rows of 30,522 scores take 4 MB.
const BLOCK: usize = 32;
/// Tokens of BGE-M3 that have no lexical weight.
const WITHOUT_WEIGHT: [&str; 4] = ["<s>", "</s>", "<pad>", "<unk>"];

/// The heads of a model.
#[derive(Default)]
pub(crate) struct TokenHeads {
    pub(crate) sparse: Option<SparseHead>,
    pub(crate) late_interaction: Option<LateInteraction>,
}

impl TokenHeads {
    /// Loads the heads of a folder. `vocabulary` and `hidden` are the numbers of token ids and of
    /// columns of a hidden state.
    pub(crate) fn load(
        folder: &ModelFolder,
        tokenizer: &TextTokenizer,
        vocabulary: usize,
        hidden: usize,
    ) -> Result<Self, EmbedError> {
        let sparse = match &folder.sparse {
            None => None,
            Some(Sparse::Splade(pooling)) => Some(SparseHead::Splade(splade(folder, *pooling, vocabulary, hidden)?)),
            Some(Sparse::Lexical(file)) => Some(SparseHead::Lexical(lexical(file, tokenizer, hidden)?)),
        };
        let late_interaction = folder.late_interaction.as_deref();
        let late_interaction = late_interaction.map(|file| LateInteraction::load(file, hidden));
        Ok(Self {
            sparse,
            late_interaction: late_interaction.transpose()?,
        })
    }
}

/// A head that gives weights to tokens of the vocabulary.
pub(crate) enum SparseHead {
    Splade(SpladeHead),
    Lexical(LexicalHead),
}

pub(crate) struct SpladeHead {
    pooling: Splade,
    /// The layers before the scores.
    transform: Vec<Step>,
    /// From a transformed state to a score per token id.
    decoder: PackedMatrix,
    bias: Option<Vec<f32>>,
}

pub(crate) struct LexicalHead {
    weights: Vec<f32>,
    bias: f32,
    /// Ids without a weight.
    ignored: Vec<u32>,
    digest: String,
}

impl SparseHead {
    /// The sparse vector of a text: `states` are the hidden states of its tokens.
    pub(crate) fn weights(&self, ids: &[u32], states: &[f32], hidden: usize) -> SparseVector {
        match self {
            Self::Splade(head) => head.weights(states, hidden),
            Self::Lexical(head) => head.weights(ids, states, hidden),
        }
    }

    /// Its name in a description of the pipeline. Layers that are not part of the model's weights
    /// are named by their digest.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Splade(head) => {
                let pooling = if head.pooling.sum { "sum" } else { "max" };
                format!("{}{pooling}", "log1p-".repeat(head.pooling.logarithms))
            }
            Self::Lexical(head) => format!("lexical-{}", head.digest),
        }
    }
}

impl SpladeHead {
    fn weights(&self, states: &[f32], hidden: usize) -> SparseVector {
        let vocabulary = self.decoder.n();
        let activate = |score: f32| (0..self.pooling.logarithms).fold(score.max(0.0), |x, _| x.ln_1p());
        // The logarithm keeps the order, so a maximum needs it only once.
        let block = |states: &[f32]| {
            let rows = apply(&self.transform, states.to_vec(), hidden, &[]);
            let count = states.len() / hidden;
            let mut scores = vec![0.0; count * vocabulary];
            let epilogue = Epilogue {
                bias: self.bias.as_deref(),
                ..Epilogue::default()
            };
            gemm_serial(&rows, count, &self.decoder, epilogue, &mut scores);
            let mut pooled = vec![0.0_f32; vocabulary];
            for row in scores.chunks_exact(vocabulary) {
                if self.pooling.sum {
                    pooled
                        .iter_mut()
                        .zip(row)
                        .for_each(|(sum, score)| *sum += activate(*score));
                } else {
                    pooled
                        .iter_mut()
                        .zip(row)
                        .for_each(|(max, score)| *max = larger(*max, *score));
                }
            }
            pooled
        };
        let blocks: Vec<Vec<f32>> = states.par_chunks(BLOCK * hidden).map(block).collect();
        let mut blocks = blocks.into_iter();
        let mut pooled = blocks.next().unwrap_or_default();
        for next in blocks {
            let both = pooled.iter_mut().zip(next);
            if self.pooling.sum {
                both.for_each(|(sum, score)| *sum += score);
            } else {
                both.for_each(|(max, score)| *max = larger(*max, score));
            }
        }
        if !self.pooling.sum {
            pooled.iter_mut().for_each(|score| *score = activate(*score));
        }
        SparseVector::of((0..).zip(pooled))
    }
}

/// The larger of two scores. A score that is not a number stays, so that it is reported.
fn larger(max: f32, score: f32) -> f32 {
    if score > max || score.is_nan() { score } else { max }
}

impl LexicalHead {
    fn weights(&self, ids: &[u32], states: &[f32], hidden: usize) -> SparseVector {
        let mut weights = BTreeMap::new();
        for (id, state) in ids.iter().zip(states.chunks_exact(hidden)) {
            if self.ignored.contains(id) {
                continue;
            }
            let score: f32 = state.iter().zip(&self.weights).map(|(x, w)| x * w).sum();
            let largest = weights.entry(*id).or_insert(0.0);
            *largest = larger(*largest, score + self.bias);
        }
        SparseVector::of(weights)
    }
}

impl SparseVector {
    /// The entries that are not 0, in the order of their ids.
    fn of(entries: impl IntoIterator<Item = (u32, f32)>) -> Self {
        let (ids, weights) = entries.into_iter().filter(|(_, weight)| *weight != 0.0).unzip();
        Self { ids, weights }
    }
}

/// A projection of the hidden states of a text, without the first one, to vectors of unit length.
pub(crate) struct LateInteraction {
    projection: Step,
    width: usize,
    digest: String,
}

impl LateInteraction {
    fn load(file: &Path, hidden: usize) -> Result<Self, EmbedError> {
        let layer = Layer::load(file, hidden)?;
        Ok(Self {
            width: layer.outputs,
            digest: layer.digest(),
            projection: Step::Dense {
                weights: PackedMatrix::pack(&layer.weights, layer.outputs, hidden),
                bias: Some(layer.bias),
                activation: Elementwise::Identity,
                residual: Residual::None,
            },
        })
    }

    /// Columns of a vector.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Its name in a description of the pipeline.
    pub(crate) fn name(&self) -> String {
        format!("colbert-{}", self.digest)
    }

    /// Vectors of the tokens after the first.
    pub(crate) fn rows(&self, states: &[f32], hidden: usize) -> Vec<f32> {
        let after = states.get(hidden..).unwrap_or_default().to_vec();
        let (rows, width) = self.projection.apply(after, hidden, &[]);
        Step::Normalize.apply(rows, width, &[]).0
    }
}

/// A linear layer in a file of its own, with the tensors `weight` and `bias`.
struct Layer {
    weights: Vec<f32>,
    bias: Vec<f32>,
    outputs: usize,
}

impl Layer {
    /// Loads a layer on hidden states.
    fn load(file: &Path, hidden: usize) -> Result<Self, EmbedError> {
        let tensors = Weights::open_file(file)?;
        let outputs = match tensors.shape("weight") {
            Some(&[outputs, inputs]) if outputs > 0 && inputs == hidden => outputs,
            Some(shape) => {
                let problem = format!("tensor `weight` has shape {shape:?}; its rows should have {hidden} values");
                let hint = "the layer and the weights belong to different models";
                return Err(EmbedError::file(file, problem, hint));
            }
            None => return Err(tensors.missing(&["weight".to_owned()])),
        };
        Ok(Self {
            weights: tensors.get("weight", &[outputs, hidden])?.to_vec(),
            bias: tensors.get("bias", &[outputs])?.to_vec(),
            outputs,
        })
    }

    /// The first 16 hexadecimal digits of the SHA-256 of its values.
    fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for value in self.weights.iter().chain(&self.bias) {
            hasher.update(value.to_le_bytes());
        }
        hex::encode(&hasher.finalize()[..8])
    }
}

fn lexical(file: &Path, tokenizer: &TextTokenizer, hidden: usize) -> Result<LexicalHead, EmbedError> {
    let layer = Layer::load(file, hidden)?;
    if layer.outputs != 1 {
        let problem = format!("tensor `weight` has {} rows, not one", layer.outputs);
        return Err(EmbedError::file(
            file,
            problem,
            "sparse_linear gives one weight a token",
        ));
    }
    Ok(LexicalHead {
        digest: layer.digest(),
        bias: layer.bias[0],
        weights: layer.weights,
        ignored: WITHOUT_WEIGHT.iter().filter_map(|token| tokenizer.id(token)).collect(),
    })
}

/// The head of a masked language model, by architecture.
struct MaskedHead {
    model_types: &'static [&'static str],
    /// The linear layer before the scores.
    dense: &'static str,
    /// The layer norm after it.
    norm: &'static str,
    /// The key of the epsilon of that norm; empty if there is none.
    epsilon_key: &'static str,
    /// The epsilon without that key.
    epsilon: f64,
    /// The key of the activation; empty if it is always GELU.
    activation_key: &'static str,
    /// The scores' matrix. A checkpoint that lacks it shares the table of embeddings.
    decoder: &'static [&'static str],
    /// The scores' bias.
    bias: &'static [&'static str],
}

const SERVED: [MaskedHead; 4] = [
    MaskedHead {
        model_types: &["bert"],
        dense: "cls.predictions.transform.dense",
        norm: "cls.predictions.transform.LayerNorm",
        epsilon_key: "layer_norm_eps",
        epsilon: 1e-12,
        activation_key: "hidden_act",
        decoder: &[
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight",
            "embeddings.word_embeddings.weight",
        ],
        bias: &["cls.predictions.bias", "cls.predictions.decoder.bias"],
    },
    MaskedHead {
        model_types: &["distilbert"],
        dense: "vocab_transform",
        norm: "vocab_layer_norm",
        epsilon_key: "",
        epsilon: 1e-12,
        activation_key: "activation",
        decoder: &[
            "vocab_projector.weight",
            "distilbert.embeddings.word_embeddings.weight",
            "embeddings.word_embeddings.weight",
        ],
        bias: &["vocab_projector.bias"],
    },
    MaskedHead {
        model_types: &["roberta", "xlm-roberta", "camembert"],
        dense: "lm_head.dense",
        norm: "lm_head.layer_norm",
        epsilon_key: "layer_norm_eps",
        epsilon: 1e-12,
        activation_key: "",
        decoder: &[
            "lm_head.decoder.weight",
            "roberta.embeddings.word_embeddings.weight",
            "embeddings.word_embeddings.weight",
        ],
        bias: &["lm_head.bias", "lm_head.decoder.bias"],
    },
    MaskedHead {
        model_types: &["modernbert"],
        dense: "head.dense",
        norm: "head.norm",
        epsilon_key: "norm_eps",
        epsilon: 1e-5,
        activation_key: "classifier_activation",
        decoder: &[
            "decoder.weight",
            "model.embeddings.tok_embeddings.weight",
            "embeddings.tok_embeddings.weight",
        ],
        bias: &["decoder.bias"],
    },
];

fn splade(folder: &ModelFolder, pooling: Splade, vocabulary: usize, hidden: usize) -> Result<SpladeHead, EmbedError> {
    let text = |key: &str| folder.config.get(key).and_then(Value::as_str).unwrap_or_default();
    let refuse = |problem: String, hint: String| EmbedError::file(&folder.config_file(), problem, hint);
    let kind = text("model_type");
    let Some(head) = SERVED.iter().find(|head| head.model_types.contains(&kind)) else {
        let served: Vec<&str> = SERVED
            .iter()
            .flat_map(|head| head.model_types.iter().copied())
            .collect();
        return Err(refuse(
            format!("the language model head of `{kind}` is not served"),
            format!("supported: {}", served.join(", ")),
        ));
    };
    let activation = match text(head.activation_key) {
        "" | "gelu" => Elementwise::GELU,
        "relu" => Elementwise::ReLU,
        other => {
            return Err(refuse(
                format!("the activation `{other}` of the language model head is not served"),
                "supported: gelu and relu".to_owned(),
            ));
        }
    };
    let epsilon = folder.config.get(head.epsilon_key).and_then(Value::as_f64);
    #[allow(clippy::cast_possible_truncation)]
    let epsilon = epsilon.unwrap_or(head.epsilon) as f32;
    let weights = Weights::open(&folder.transformer)?;
    let transform = vec![
        linear(&weights, head.dense, hidden, hidden, activation)?,
        layer_norm(&weights, head.norm, hidden, epsilon)?,
    ];
    let present = |candidates: &[&'static str]| candidates.iter().copied().find(|name| weights.has(name));
    let Some(decoder) = present(head.decoder) else {
        return Err(weights.missing(&[head.decoder[0].to_owned()]));
    };
    let decoder = weights.get(decoder, &[vocabulary, hidden])?;
    let bias = present(head.bias).map(|name| weights.get(name, &[vocabulary]));
    Ok(SpladeHead {
        pooling,
        transform,
        decoder: PackedMatrix::pack(&decoder, vocabulary, hidden),
        bias: bias.transpose()?.map(|bias| bias.to_vec()),
    })
}
