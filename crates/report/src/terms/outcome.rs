//! The outcome of a text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Passed the checks at the first attempt.
    Ok,
    /// Passed after retries.
    Recovered,
    /// The original stands in.
    KeptOriginal,
    /// There is no text; the original stands in.
    Failed,
}

impl Outcome {
    pub const ALL: [Self; 4] = [Self::Ok, Self::Recovered, Self::KeptOriginal, Self::Failed];

    /// As the transform service names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Recovered => "recovered",
            Self::KeptOriginal => "kept_original",
            Self::Failed => "failed",
        }
    }
}
