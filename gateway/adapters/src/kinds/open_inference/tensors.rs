//! Finds the tensors of texts and vectors of a model, and reads vectors from an answer.

use isomer_service_kit::{Fault, vectors};

use super::messages::{InferResponse, ModelMetadata, TensorMetadata};
use crate::foreign::TensorNames;

/// Names of outputs that contain a text's vector, for models with several outputs.
const VECTORS: [&str; 5] = [
    "sentence_embedding",
    "sentence_embeddings",
    "embeddings",
    "embedding",
    "text_embeds",
];

impl TensorNames {
    /// # Errors
    /// If the model requires inputs other than one tensor of texts, or returns no vectors.
    pub(super) fn of(metadata: &ModelMetadata, model: &str) -> Result<Self, Fault> {
        let unfit = |what: String, hint: &str| {
            Err(Fault::precondition("PROVIDER_OTHER_MODEL", format!("`{model}` {what}"))
                .field("provider.encoders")
                .hint(hint))
        };
        let input = match metadata.inputs.as_slice() {
            [one] if one.datatype == "BYTES" && (1..=2).contains(&one.shape.len()) => one,
            inputs => {
                let what = format!("takes {}, not one tensor of texts (BYTES)", listed(inputs));
                return unfit(what, "offer a model with its tokenizer in front, e.g. an ensemble");
            }
        };
        let fit: Vec<&TensorMetadata> = metadata
            .outputs
            .iter()
            .filter(|output| matches!(output.datatype.as_str(), "FP32" | "FP16" | "FP64") && output.shape.len() == 2)
            .collect();
        let named = VECTORS
            .iter()
            .find_map(|name| fit.iter().find(|output| output.name == *name));
        let output = match (fit.as_slice(), named) {
            ([one], _) => *one,
            (_, Some(named)) => *named,
            _ => {
                let what = format!(
                    "gives {}, not one tensor of vectors (FP32, FP16 or FP64 of rank 2)",
                    listed(&metadata.outputs)
                );
                return unfit(
                    what,
                    "offer a model that pools, with one such output or one called sentence_embedding",
                );
            }
        };
        let number = |size: Option<&i64>| size.and_then(|size| u32::try_from(*size).ok()).unwrap_or_default();
        Ok(Self {
            input: input.name.clone(),
            input_rank: input.shape.len(),
            output: output.name.clone(),
            dimensions: number(output.shape.last()),
            most: number(input.shape.first()),
        })
    }
}

fn listed(tensors: &[TensorMetadata]) -> String {
    let one = |tensor: &TensorMetadata| format!("{} ({} {:?})", tensor.name, tensor.datatype, tensor.shape);
    tensors.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The vectors of `count` texts.
///
/// # Errors
/// The defect of the answer, in words.
pub(super) fn vectors(answer: InferResponse, output: &str, count: usize) -> Result<Vec<Vec<f32>>, String> {
    let at = answer.outputs.iter().position(|tensor| tensor.name == output);
    let at = at.ok_or_else(|| format!("the answer has no tensor {output}"))?;
    let tensor = &answer.outputs[at];
    let cols = match tensor.shape.as_slice() {
        [rows, cols] if usize::try_from(*rows) == Ok(count) => usize::try_from(*cols).ok().filter(|cols| *cols > 0),
        _ => None,
    };
    let cols = cols.ok_or_else(|| format!("{output} has the shape {:?} for {count} texts", tensor.shape))?;
    #[allow(clippy::cast_possible_truncation)]
    let values: Vec<f32> = match (
        answer.raw_output_contents.get(at),
        &tensor.contents,
        tensor.datatype.as_str(),
    ) {
        (Some(raw), _, "FP32") => vectors::floats(raw).collect(),
        (Some(raw), _, "FP16") => vectors::widened(raw).collect(),
        (Some(raw), _, "FP64") => raw
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b) as f32)
            .collect(),
        (None, Some(contents), "FP32") => contents.fp32_contents.clone(),
        (None, Some(contents), "FP64") => contents.fp64_contents.iter().map(|value| *value as f32).collect(),
        (_, _, datatype) => return Err(format!("{output} has no contents of type {datatype}")),
    };
    if values.len() != count * cols {
        return Err(format!(
            "{output} holds {} values for {count} vectors of {cols}",
            values.len()
        ));
    }
    Ok(values.chunks_exact(cols).map(<[f32]>::to_vec).collect())
}
