//! The content that scores and drifts depend on.

use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::task::TaskType;

/// Everything that a score depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitKey {
    /// Digest of the vector space.
    pub vector_space: String,
    /// Digest of the dataset's content, labels included.
    pub dataset: String,
    /// Digest of the texts encoded, in the dataset's order.
    pub texts: String,
    /// Task type.
    pub task: String,
    /// Metric profile with the library versions it equals.
    pub profile: String,
}

impl UnitKey {
    /// The content address: BLAKE3 (hex) over every part, each prefixed with its length.
    pub fn address(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [
            VERSION,
            &self.vector_space,
            &self.dataset,
            &self.texts,
            &self.task,
            &self.profile,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Whether result lists belong to the score.
    pub(super) fn has_lists(&self) -> bool {
        self.task.split(',').next() == Some(TaskType::Retrieval.name())
    }
}

/// The inputs of the drift of pairs of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DriftKey<'a> {
    /// Digest of the vector space.
    pub(crate) vector_space: &'a str,
    /// Digest of the pairs' texts.
    pub(crate) pairs: &'a str,
}

/// Digest of texts in order: BLAKE3 (hex), each text prefixed with its length.
pub fn digest_of_texts<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
