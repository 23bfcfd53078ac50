//! Counters of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work that a run did, and work that it found in caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counters {
    /// Distinct texts x transformations x seeds, and texts of which the transform service was asked
    /// for copies with another meaning.
    pub texts_planned: u64,
    /// Made by a generator now.
    pub texts_generated: u64,
    /// Made by rule now, without a generator.
    pub texts_by_rule: u64,
    /// Found in the transform service's cache.
    pub texts_cached: u64,
    /// Calls to a generator, retries included.
    pub generator_calls: u64,
    /// Tokens that generators read, prompts included.
    pub generator_tokens: u64,
    /// Tokens that generators wrote.
    pub generated_tokens: u64,
    /// Whether some of the tokens are estimated from the texts, because a generator does not count
    /// them.
    pub tokens_estimated: bool,
    /// Texts run through an encoder.
    pub texts_encoded: u64,
    /// Tokens run through an encoder.
    pub tokens_encoded: u64,
    /// Cost of these tokens at the prices that a gateway names for its providers, in billionths of
    /// a US dollar.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost_nano_usd: u64,
    /// Scores computed now.
    pub scores_computed: u64,
    /// Scores found in the store.
    pub scores_cached: u64,
    /// Texts for which the original stands in.
    pub kept_original: u64,
    /// Texts that came back without a text; the original stands in.
    pub failed_texts: u64,
    /// Work of the judge; absent without a judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeCounters>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Work that a judge did, and work that it found in caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JudgeCounters {
    /// Pairs to rate x scales, equal pairs of a transformation once.
    pub ratings_planned: u64,
    /// Asked now.
    pub ratings_made: u64,
    /// Found in the transform service's cache.
    pub ratings_cached: u64,
    /// Without a rating, since no answer was one or the judge failed.
    pub ratings_missing: u64,
    /// Calls to the judge, retries and the trial before the run included.
    pub calls: u64,
    /// Tokens that it read, prompts included.
    pub tokens: u64,
    /// Tokens that it wrote.
    pub generated_tokens: u64,
    /// Whether some of the tokens are estimated, because the judge does not count them.
    pub tokens_estimated: bool,
}
