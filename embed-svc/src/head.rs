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

pub(crate) struct LoadedHead {
    pub(crate) pooling: PoolingMode,
    /// From the pooled vector to the logits.
    pub(crate) steps: Vec<Step>,
    /// One label per logit.
    pub(crate) labels: Vec<String>,
    pub(crate) activation: Elementwise,
}

/// The layers of a head before its last, and the name of the last.
struct Body {
    pooling: PoolingMode,
    inner: Vec<Step>,
    last: &'static str,
}

type HeadReader = fn(&ModelFolder, &Weights, usize) -> Result<Body, EmbedError>;

/// Every `model_type` with a supported head, and its reader.
const SERVED: [(&str, HeadReader); 7] = [
    ("bert", bert),
    ("distilbert", distilbert),
    ("roberta", roberta),
    ("xlm-roberta", roberta),
    ("camembert", roberta),
    ("mpnet", roberta),
    ("modernbert", modernbert),
];

fn bert(_: &ModelFolder, weights: &Weights, hidden: usize) -> Result<Body, EmbedError> {
    let pooler = if weights.has("pooler.dense.weight") {
        "pooler.dense"
    } else {
        "bert.pooler.dense"
    };
    Ok(Body {
        pooling: PoolingMode::Cls,
        inner: dense(weights, pooler, hidden, Elementwise::Tanh)?,
        last: "classifier",
    })
}

fn roberta(_: &ModelFolder, weights: &Weights, hidden: usize) -> Result<Body, EmbedError> {
    Ok(Body {
        pooling: PoolingMode::Cls,
        inner: dense(weights, "classifier.dense", hidden, Elementwise::Tanh)?,
        last: "classifier.out_proj",
    })
}

fn distilbert(_: &ModelFolder, weights: &Weights, hidden: usize) -> Result<Body, EmbedError> {
    Ok(Body {
        pooling: PoolingMode::Cls,
        inner: dense(weights, "pre_classifier", hidden, Elementwise::ReLU)?,
        last: "classifier",
    })
}

fn modernbert(folder: &ModelFolder, weights: &Weights, hidden: usize) -> Result<Body, EmbedError> {
    let refuse = |problem: String, hint: &str| EmbedError::file(&folder.config_file(), problem, hint);
    let text = |key: &str, default: &'static str| {
        let value = folder.config.get(key).and_then(Value::as_str);
        value.unwrap_or(default).to_owned()
    };
    let pooling = match text("classifier_pooling", "cls").as_str() {
        "cls" => PoolingMode::Cls,
        "mean" => PoolingMode::Mean,
        other => {
            return Err(refuse(
                format!("classifier_pooling is `{other}`"),
                "supported: cls and mean",
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
    #[allow(clippy::cast_possible_truncation)]
    let epsilon = folder.config.get("norm_eps").and_then(Value::as_f64).unwrap_or(1e-5) as f32;
    inner.push(layer_norm(weights, "head.norm", hidden, epsilon)?);
    Ok(Body {
        pooling,
        inner,
        last: "classifier",
    })
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
    let refuse = |problem: String, hint: &str| EmbedError::file(&folder.config_file(), problem, hint);
    let Some((_, read)) = SERVED.iter().find(|(name, _)| *name == kind) else {
        let [others @ .., last] = SERVED.map(|(name, _)| name);
        return Err(refuse(
            format!("the classification head of `{kind}` is not served"),
            &format!("supported: {} and {last}", others.join(", ")),
        ));
    };
    let Body { pooling, inner, last } = read(folder, weights, hidden)?;
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
    steps.push(linear(weights, last, count, hidden, Elementwise::Identity)?);
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
    let default = if count == 1 {
        Elementwise::Sigmoid
    } else {
        Elementwise::Identity
    };
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

/// A linear layer; it has a bias if the checkpoint has one.
pub(crate) fn linear(
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

/// A layer norm; without a bias in the checkpoint, the bias is 0.
pub(crate) fn layer_norm(weights: &Weights, name: &str, width: usize, eps: f32) -> Result<Step, EmbedError> {
    let bias = format!("{name}.bias");
    let beta = weights.has(&bias).then(|| weights.get(&bias, &[width])).transpose()?;
    Ok(Step::LayerNorm {
        gamma: weights.get(&format!("{name}.weight"), &[width])?.to_vec(),
        beta: beta.map_or_else(|| vec![0.0; width], |beta| beta.to_vec()),
        eps,
    })
}
