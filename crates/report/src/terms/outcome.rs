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

isomer_names::names!(Outcome {
    Ok = "ok", Recovered = "recovered", KeptOriginal = "kept_original", Failed = "failed"
});
