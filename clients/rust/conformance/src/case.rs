//! Cases as they are written down.

use std::{collections::HashMap, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tonic::Code;

#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) connect: Connect,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Connect {
    pub(crate) address: String,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) key: Option<String>,
    pub(crate) tokens: Vec<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) certificate_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) in_flight: Option<usize>,
    pub(crate) batch_items: Option<usize>,
    pub(crate) batch_bytes: Option<usize>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) traceparent: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) op: String,
    pub(crate) encoder: String,
    /// A list for runs, a table for providers.
    pub(crate) encoders: Value,
    pub(crate) texts: Vec<String>,
    pub(crate) prompt: Option<String>,
    pub(crate) prompt_name: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) dimensions: Option<u32>,
    pub(crate) normalise: Option<bool>,
    pub(crate) dtype: Option<String>,
    pub(crate) truncation: Option<String>,
    pub(crate) partial: bool,
    pub(crate) outputs: Vec<String>,
    pub(crate) max_active_dimensions: Option<u32>,
    pub(crate) collection: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) cancel_after_ms: Option<u64>,
    pub(crate) leave_after: Option<usize>,
    pub(crate) threads: usize,
    pub(crate) query: String,
    pub(crate) documents: Vec<String>,
    pub(crate) top_n: Option<u32>,
    pub(crate) transformation: String,
    pub(crate) generator: String,
    pub(crate) sources: Vec<SourceOf>,
    pub(crate) pooling: Option<String>,
    pub(crate) original_weight: Option<f64>,
    pub(crate) task: String,
    pub(crate) first: Vec<Vec<f32>>,
    pub(crate) second: Vec<Vec<f32>>,
    pub(crate) labels: Vec<f64>,
    pub(crate) dataset: String,
    pub(crate) limit: Option<u32>,
    pub(crate) p_values: Vec<f64>,
    pub(crate) reference: Vec<f64>,
    pub(crate) treatments: HashMap<String, Vec<f64>>,
    pub(crate) seed: Option<u64>,
    pub(crate) suite: String,
    pub(crate) transformations: Vec<String>,
    pub(crate) formats: Vec<String>,
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) scopes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SourceOf {
    pub(crate) transformation: String,
    pub(crate) generator: String,
}

/// A word of the table as the protos write it.
pub(crate) fn word(prefix: &str, word: &str) -> String {
    format!("{prefix}{}", word.to_uppercase().replace('-', "_"))
}

/// gRPC's name of a code.
pub(crate) fn code_name(code: Code) -> String {
    // `ResourceExhausted` → `RESOURCE_EXHAUSTED`.
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}
