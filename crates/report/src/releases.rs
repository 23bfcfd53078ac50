//! The releases of an encoder: the content of `history.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GateVerdict, evidence::interval::DeltaInterval};

/// Version of the `history.json` format. The number increases when a field changes its meaning or
/// is removed.
pub const HISTORY_SCHEMA: &str = "isomer.history/1";

/// The releases of an encoder, by their checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// [`HISTORY_SCHEMA`].
    pub schema: String,
    /// The findings in sentences, most important first.
    pub headline: Vec<String>,
    /// Encoder id.
    pub encoder: String,
    /// Name of the suite.
    pub suite: String,
    /// BLAKE3 (hex) of the suite's text: all checks have it.
    pub suite_digest: String,
    /// Metric profile of all checks.
    pub metrics: String,
    /// How releases are tested.
    pub options: HistoryOptions,
    /// Reference that each release is compared with.
    pub reference: HistoryReference,
    /// Groups of data sets: the units of the tests.
    pub groups: Vec<String>,
    /// The releases, the earliest first.
    pub releases: Vec<Release>,
    /// Checks that are not among them, and why.
    pub left_out: Vec<LeftOutRun>,
    /// Remarks that a reader needs.
    pub notes: Vec<String>,
    /// Version of Isomer that wrote this.
    pub isomer_version: String,
}

/// The score that releases are compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryQuantity {
    /// The score of the original texts.
    Original,
    /// The mean over the axes' transformed texts.
    #[default]
    Total,
}

/// How releases are tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryOptions {
    /// The score.
    pub of: HistoryQuantity,
    /// How much worse a release may be, in points.
    pub margin: f64,
    /// Chance that any release worse by the margin is ever called non-inferior, over all releases.
    pub alpha: f64,
    /// Hold releases against the first one, although the checks have a baseline.
    #[serde(default)]
    pub against_first: bool,
    /// Looks that were taken before the first of these, at checks that are no longer kept.
    #[serde(default)]
    pub earlier: u64,
    /// Beginning of the suite's digest; absent: that of the newest check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// Reference that each release is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryReference {
    /// Encoder id.
    pub encoder: String,
    /// SHA-256 (hex) of its weights.
    pub weights_digest: String,
    /// Whether it is the checks' baseline, which each check has measured itself; else the first
    /// release.
    pub baseline: bool,
}

/// One tested release of the encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// A short name: the version in a registry, the first digits of the source's commit, or those
    /// of the weights' digest.
    #[serde(default)]
    pub name: String,
    /// Id of the run.
    pub run: String,
    /// When its report was made.
    pub finished: jiff::Timestamp,
    /// Version of Isomer that made it.
    pub isomer_version: String,
    /// Revision of the encoder's source.
    pub revision: String,
    /// SHA-256 (hex) of the weights.
    pub weights_digest: String,
    /// Digest of the vector space.
    pub vector_space: String,
    /// Score of the original texts x 100.
    pub original: f64,
    /// Mean of the transformed texts x 100; absent where no transformation counts.
    pub transformed: Option<f64>,
    /// Transformed less original.
    pub delta: Option<f64>,
    /// Interval of that, over items.
    pub delta_interval: Option<DeltaInterval>,
    /// Verdict of the run's gate on the encoder.
    pub gate: Option<GateVerdict>,
    /// The test; absent for the release that the others are compared with.
    pub test: Option<ReleaseTest>,
}

/// Whether a release is inferior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseTest {
    /// Number of the look, from 1.
    pub look: u64,
    /// The chance of error that it may spend: alpha / (look x (look + 1)).
    pub alpha: f64,
    /// Pass: not worse by the margin. Fail: worse by it.
    pub verdict: GateVerdict,
    /// Hodges-Lehmann shift, release less reference, in points.
    pub shift: f64,
    /// One-sided p-value against "worse by the margin or more"; absent where there is no test.
    pub p_value: Option<f64>,
    /// One-sided p-value against "not worse by the margin".
    pub p_inferior: Option<f64>,
    /// Groups of data sets without which no outcome could pass at this look.
    pub fewest_groups: u32,
    /// Reason why the test is missing, or why none could pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A check that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutRun {
    /// Id of the run.
    pub run: String,
    /// Reason, in words.
    pub why: String,
}
