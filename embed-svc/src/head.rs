//! Classification heads: the layers between the pooled tokens and the logits, by architecture.

use isomer_kernels::PackedMatrix;
use serde_json::Value;

use crate::{
    activation::Elementwise,
    error::EmbedError,
    folder::{Head, ModelFolder},
    pooling::PoolingMode,
    steps::{Residual, Step},
    weights::Weights,
};

/// A loaded head.
pub(crate) struct LoadedHead {
    pub(crate) pooling: PoolingMode,
    /// From the pooled vector to the logits.
    pub(crate) steps: Vec<Step>,
    /// One for each logit.
    pub(crate) labels: Vec<String>,
    pub(crate) activation: Elementwise,
}

/// Loads the head of a transformer's folder.
pub(crate) fn load(
    folder: &ModelFolder,
    head: &Head,
    weights: &Weights,
    hidden: usize,
) -> Result<LoadedHead, EmbedError> {
    let kind = folder
        .config
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let file = folder.config_file();
    let refuse = |problem: String, hint: &str| EmbedError::file(&file, problem, hint);
    let text = |key: &str, default: &'static str| {
        folder
            .config
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or(default)
            .to_owned()
    };
    let (tanh, none) = (Elementwise::Tanh, Elementwise::Identity);
    let (pooling, inner, last) = match kind {
        "bert" => {
            let pooler = if weights.has("pooler.dense.weight") {
                "pooler.dense"
            } else {
                "bert.pooler.dense"
            };
            (PoolingMode::Cls, dense(weights, pooler, hidden, tanh)?, "classifier")
        }
        "roberta" | "xlm-roberta" | "camembert" | "mpnet" => {
            let inner = dense(weights, "classifier.dense", hidden, tanh)?;
            (PoolingMode::Cls, inner, "classifier.out_proj")
        }
        "distilbert" => {
            let inner = dense(weights, "pre_classifier", hidden, Elementwise::ReLU)?;
            (PoolingMode::Cls, inner, "classifier")
        }
        "modernbert" => {
            let pooling = match text("classifier_pooling", "cls").as_str() {
                "cls" => PoolingMode::Cls,
                "mean" => PoolingMode::Mean,
                other => {
                    return Err(refuse(
                        format!("classifier_pooling is `{other}`"),
                        "served are cls and mean",
                    ));
                }
            };
            let activation = text("classifier_activation", "gelu");
            if activation != "gelu" {
                return Err(refuse(
                    format!("classifier_activation is `{activation}`"),
                    "served is gelu",
                ));
            }
            let mut inner = dense(weights, "head.dense", hidden, Elementwise::GELU)?;
            let beta = if weights.has("head.norm.bias") {
                weights.get("head.norm.bias", &[hidden])?.to_vec()
            } else {
                vec![0.0; hidden]
            };
            #[allow(clippy::cast_possible_truncation)]
            inner.push(Step::LayerNorm {
                gamma: weights.get("head.norm.weight", &[hidden])?.to_vec(),
                beta,
                eps: folder.config.get("norm_eps").and_then(Value::as_f64).unwrap_or(1e-5) as f32,
            });
            (pooling, inner, "classifier")
        }
        other => {
            return Err(refuse(
                format!("the classification head of `{other}` is not served"),
                "served are those of bert, distilbert, roberta, xlm-roberta, camembert, mpnet and modernbert",
            ));
        }
    };
    let name = format!("{last}.weight");
    let count = match weights.shape(&name) {
        Some(&[count, _]) if count > 0 => count,
        Some(shape) => {
            return Err(refuse(
                format!("tensor `{name}` has shape {shape:?}"),
                "fetch the model again",
            ));
        }
        None => return Err(weights.missing(&[name])),
    };
    let mut steps = inner;
    steps.push(linear(weights, last, count, hidden, none)?);
    let labels = if head.labels.len() == count {
        head.labels.clone()
    } else if head.labels.is_empty() {
        (0..count).map(|id| format!("LABEL_{id}")).collect()
    } else {
        let problem = format!("id2label names {} labels, the head has {count}", head.labels.len());
        return Err(refuse(
            problem,
            "config.json and the weights belong to different models",
        ));
    };
    let default = if count == 1 { Elementwise::Sigmoid } else { none };
    Ok(LoadedHead {
        pooling,
        steps,
        labels,
        activation: head.activation.unwrap_or(default),
    })
}

fn dense(weights: &Weights, name: &str, width: usize, activation: Elementwise) -> Result<Vec<Step>, EmbedError> {
    Ok(vec![linear(weights, name, width, width, activation)?])
}

fn linear(
    weights: &Weights,
    name: &str,
    outputs: usize,
    inputs: usize,
    activation: Elementwise,
) -> Result<Step, EmbedError> {
    let matrix = weights.get(&format!("{name}.weight"), &[outputs, inputs])?;
    let bias = format!("{name}.bias");
    let bias = weights.has(&bias).then(|| weights.get(&bias, &[outputs])).transpose()?;
    Ok(Step::Dense {
        weights: PackedMatrix::pack(&matrix, outputs, inputs),
        bias: bias.map(|bias| bias.to_vec()),
        activation,
        residual: Residual::None,
    })
}
