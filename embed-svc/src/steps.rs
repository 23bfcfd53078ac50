//! The modules around the pooling, with their weights.

use isomer_kernels::{Epilogue, PackedMatrix, gemm_serial, rows};

use crate::{
    activation::Elementwise,
    error::EmbedError,
    folder::{Dense, Stage},
    pooling::normalise,
    weights::Weights,
};

/// The default of `torch.nn.LayerNorm`; the module does not change it.
const LAYER_NORM_EPS: f32 = 1e-5;

/// A stage with its weights. It works on each row separately.
pub(crate) enum Step {
    /// `activation(x · Wᵀ + b) (+ x or x · Rᵀ)`.
    Dense {
        weights: PackedMatrix,
        bias: Option<Vec<f32>>,
        activation: Elementwise,
        residual: Residual,
    },
    LayerNorm {
        gamma: Vec<f32>,
        beta: Vec<f32>,
        eps: f32,
    },
    Normalize,
    /// A factor for each token id.
    WordWeights(Vec<f32>),
}

/// The vector added to the result of a dense layer.
pub(crate) enum Residual {
    None,
    Input,
    Projected(PackedMatrix),
}

/// Loads the weights of stages and tracks the width through them. The second value is the final
/// width. `vocabulary` is the number of token ids.
pub(crate) fn load(stages: &[Stage], mut width: usize, vocabulary: usize) -> Result<(Vec<Step>, usize), EmbedError> {
    let mut steps = Vec::with_capacity(stages.len());
    for stage in stages {
        steps.push(match stage {
            Stage::Normalize => Step::Normalize,
            Stage::Dense(layer) => {
                let step = dense(layer, width)?;
                width = layer.outputs;
                step
            }
            Stage::LayerNorm {
                folder,
                width: expected,
            } => {
                fits(folder, "dimension", *expected, width)?;
                let file = Weights::open(folder)?;
                Step::LayerNorm {
                    gamma: file.get("norm.weight", &[width])?.to_vec(),
                    beta: file.get("norm.bias", &[width])?.to_vec(),
                    eps: LAYER_NORM_EPS,
                }
            }
            Stage::WordWeights { folder, factors } => {
                if factors.len() < vocabulary {
                    return Err(EmbedError::file(
                        &folder.join("config.json"),
                        format!("names {} words, the tokenizer has {vocabulary}", factors.len()),
                        "the modules of this folder do not belong together",
                    ));
                }
                Step::WordWeights(factors.clone())
            }
        });
    }
    Ok((steps, width))
}

fn fits(folder: &std::path::Path, key: &str, expected: usize, width: usize) -> Result<(), EmbedError> {
    if expected == width {
        return Ok(());
    }
    Err(EmbedError::file(
        &folder.join("config.json"),
        format!("{key} is {expected}, the vector before it has {width} columns"),
        "the modules of this folder do not belong together",
    ))
}

fn dense(layer: &Dense, width: usize) -> Result<Step, EmbedError> {
    let Dense {
        folder,
        inputs,
        outputs,
        bias,
        activation,
        residual,
    } = layer;
    fits(folder, "in_features", *inputs, width)?;
    let file = Weights::open(folder)?;
    let matrix = |name: &str| {
        let weights = file.get(name, &[*outputs, *inputs])?;
        Ok::<_, EmbedError>(PackedMatrix::pack(&weights, *outputs, *inputs))
    };
    let bias = bias.then(|| file.get("linear.bias", &[*outputs])).transpose()?;
    Ok(Step::Dense {
        weights: matrix("linear.weight")?,
        bias: bias.map(|bias| bias.to_vec()),
        activation: *activation,
        residual: match (*residual, inputs == outputs) {
            (false, _) => Residual::None,
            (true, true) => Residual::Input,
            (true, false) => Residual::Projected(matrix("residual.weight")?),
        },
    })
}

impl Step {
    /// Its name in a description of the pipeline.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Dense { .. } => "dense",
            Self::LayerNorm { .. } => "layernorm",
            Self::Normalize => "normalize",
            Self::WordWeights(_) => "wordweights",
        }
    }

    /// Applies the step to rows of `width` values; the second value is the width of the result.
    /// `ids` are the tokens of the rows, if rows are tokens.
    pub(crate) fn apply(&self, mut x: Vec<f32>, width: usize, ids: &[u32]) -> (Vec<f32>, usize) {
        match self {
            Self::Normalize => x.chunks_exact_mut(width.max(1)).for_each(normalise),
            Self::LayerNorm { gamma, beta, eps } => rows::layer_norm(&mut x, gamma, beta, *eps),
            Self::WordWeights(factors) => {
                for (row, id) in x.chunks_exact_mut(width.max(1)).zip(ids) {
                    let factor = factors.get(*id as usize).copied().unwrap_or(f32::NAN);
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Self::Dense {
                weights,
                bias,
                activation,
                residual,
            } => {
                let count = x.len() / width.max(1);
                let product = |weights: &PackedMatrix, bias: Option<&[f32]>| {
                    let mut out = vec![0.0; count * weights.n()];
                    let epilogue = Epilogue {
                        bias,
                        ..Epilogue::default()
                    };
                    gemm_serial(&x, count, weights, epilogue, &mut out);
                    out
                };
                let mut out = product(weights, bias.as_deref());
                activation.apply(&mut out);
                match residual {
                    Residual::None => {}
                    Residual::Input => rows::add(&mut out, &x),
                    Residual::Projected(weights) => rows::add(&mut out, &product(weights, None)),
                }
                return (out, weights.n());
            }
        }
        (x, width)
    }
}

/// Applies steps one after another; see [`Step::apply`].
pub(crate) fn apply(steps: &[Step], rows: Vec<f32>, width: usize, ids: &[u32]) -> Vec<f32> {
    steps
        .iter()
        .fold((rows, width), |(rows, width), step| step.apply(rows, width, ids))
        .0
}
