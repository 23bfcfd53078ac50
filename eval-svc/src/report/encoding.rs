//! How texts were encoded: prompts that they got, and texts that were cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::{
    prompts::{Part, PromptSource},
    truncation::CutCount,
};

/// A prompt that texts got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptUse {
    /// Part that the texts play.
    pub part: Part,
    /// Where it comes from.
    pub source: PromptSource,
    /// Its role there, as written.
    pub role: String,
    /// Its text; absent where the encoder names the prompt and does not say its text.
    pub text: Option<String>,
    /// Datasets whose texts got it.
    pub datasets: Vec<String>,
}

/// A prompt that no text got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusedPrompt {
    /// Where it comes from.
    pub source: PromptSource,
    /// Its role there, as written.
    pub role: String,
}

/// Texts of a dataset that an encoder cut at its length (`max_tokens`): what came after is not in their vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TruncationRow {
    /// Encoder id.
    pub encoder: String,
    /// Dataset name.
    pub dataset: String,
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Whether these are the texts that no transformation changes, e.g. the documents of retrieval.
    pub fixed: bool,
    /// Distinct texts x seeds.
    #[serde(flatten)]
    pub count: CutCount,
}

/// Share of cut texts from which a reader is told: were every cut text to lose its whole score, the mean would move by five
/// points, as much as the drops that a gate is about.
pub(super) const MANY_CUT: f64 = 0.05;

impl Report {
    /// Texts of a transformation (none: the originals) that an encoder cut, over the datasets named, or all.
    pub fn cut(&self, encoder: &str, dataset: Option<&str>, transformation: Option<&str>) -> CutCount {
        let mut count = CutCount::default();
        self.truncation
            .iter()
            .filter(|row| !row.fixed && row.encoder == encoder && row.transformation.as_deref() == transformation)
            .filter(|row| dataset.is_none_or(|name| row.dataset == name))
            .for_each(|row| count.extend(row.count));
        count
    }
}
