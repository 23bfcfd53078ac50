//! The content of `diff.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::right::Right;
use crate::{evidence::interval::DeltaInterval, task::TaskType};

/// Version of the `diff.json` format. The number increases when a field changes its meaning or is
/// removed.
pub const DIFF_SCHEMA: &str = "isomer.diff/1";

/// Two encoders on the same items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// [`DIFF_SCHEMA`].
    pub schema: String,
    /// The findings in sentences, most important first.
    pub headline: Vec<String>,
    /// The earlier one.
    pub old: DiffSide,
    /// The later one.
    pub new: DiffSide,
    /// How they were compared.
    pub options: DiffOptions,
    /// Parts of the runs that were left out because only one of them has them; empty unless the
    /// caller asked for the shared parts only.
    pub left_out: Vec<String>,
    /// Transformations that are compared although the rewrites differ, with the data sets where
    /// they do; empty unless the caller asked for it.
    #[serde(default)]
    pub other_rewrites: Vec<String>,
    /// Seeds compared.
    pub seeds: Vec<u64>,
    /// Over all data sets: the originals, then each transformation.
    pub rows: Vec<DiffRow>,
    /// The same for the data sets of each language, where there are several languages.
    pub languages: Vec<DiffGroup>,
    /// The same for each data set.
    pub datasets: Vec<DatasetDiff>,
    /// Version of Isomer that wrote this.
    pub isomer_version: String,
}

/// An encoder of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSide {
    /// Id of the run.
    pub run: String,
    /// When its report was made.
    pub finished: jiff::Timestamp,
    /// Encoder id.
    pub encoder: String,
    /// Revision of its source.
    pub revision: String,
    /// SHA-256 (hex) of the weights.
    pub weights_digest: String,
    /// Digest of the vector space.
    pub vector_space: String,
    /// Ids of the run's generators.
    #[serde(default)]
    pub generators: Vec<String>,
    /// Name of the suite.
    pub suite: String,
    /// BLAKE3 (hex) of the suite's text.
    pub suite_digest: String,
}

/// The encoder on whose original texts the thresholds of pairs are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdOf {
    /// The old encoder, for both: what a service sees that replaces the encoder and keeps its
    /// threshold.
    #[default]
    Old,
    /// Each encoder, for itself: what a service sees that chooses its threshold again.
    Each,
}

/// How two encoders are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffOptions {
    /// A query is right if a relevant document is among the first `k`; overlap is that of the first
    /// `k`.
    pub k: usize,
    /// Persistence of rank-biased overlap.
    pub persistence: f64,
    /// Whose thresholds.
    pub threshold: ThresholdOf,
    /// How many items to show of each data set.
    pub worst: usize,
    /// Whether to compare what the two runs share where they differ.
    pub shared: bool,
    /// Whether to compare other rewrites of the same texts, e.g. by another generator.
    #[serde(default)]
    pub other_rewrites: bool,
}

/// The data sets of a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffGroup {
    /// The language: a code, two of them for pairs across languages, or `not known`.
    pub language: String,
    /// Names of its data sets.
    pub datasets: Vec<String>,
    /// The originals, then each transformation.
    pub rows: Vec<DiffRow>,
}

/// A data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetDiff {
    /// Name.
    pub dataset: String,
    /// Kind of task.
    pub task: TaskType,
    /// Its language, as in [`DiffGroup::language`].
    pub language: String,
    /// mteb's key of the main score.
    pub main_score: String,
    /// Items: pairs, queries, texts.
    pub items: usize,
    /// Clusters of items that share a text.
    pub clusters: usize,
    /// When an item of the old encoder counts as right; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_old: Option<Right>,
    /// When an item of the new encoder counts as right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_new: Option<Right>,
    /// Why there are no flips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_flips: Option<String>,
    /// Why a data set of retrieval has no agreement of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_lists: Option<String>,
    /// Why there are no intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_intervals: Option<String>,
    /// The originals, then each transformation.
    pub rows: Vec<DiffRow>,
    /// The items that lose most.
    pub worst: Vec<WorstItem>,
}

/// The original texts, or the texts of a transformation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRow {
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Score of the old encoder in points, mean over seeds.
    pub old: f64,
    /// Score of the new encoder.
    pub new: f64,
    /// New less old.
    pub change: Change,
    /// How much the old encoder loses by the transformation: original less transformed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_drop: Option<f64>,
    /// How much the new encoder loses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_drop: Option<f64>,
    /// New drop less old drop: above 0, the new encoder loses more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_change: Option<Change>,
    /// Items that became wrong or right; over data sets, of those that have flips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flips: Option<Flips>,
    /// How far the result lists agree; over data sets, of those of retrieval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListAgreement>,
}

/// A difference between the encoders, paired over items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// In points.
    pub value: f64,
    /// 95 % interval, with other items of these data sets; absent where the items are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<DeltaInterval>,
}

/// Items that are right under one encoder and wrong under the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flips {
    /// Decisions compared: items x seeds.
    pub decisions: u64,
    /// Right under the old encoder.
    pub old_right: u64,
    /// Right under the new encoder.
    pub new_right: u64,
    /// Right under the old and wrong under the new.
    pub negative: u64,
    /// Wrong under the old and right under the new.
    pub positive: u64,
    /// Two-sided p-value of equal chances of both.
    pub p: f64,
    /// The test: McNemar's exact test, or the sign test over clusters of items that share a text,
    /// seeds together.
    pub test: String,
    /// Data sets.
    pub datasets: usize,
}

impl Flips {
    /// Negative flips as a share of the decisions.
    pub fn negative_rate(&self) -> f64 {
        self.negative as f64 / (self.decisions.max(1)) as f64
    }
}

/// How far the result lists of two encoders agree, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListAgreement {
    /// Share of the first k documents in common, mean over queries, in percent.
    pub overlap: Change,
    /// Extrapolated rank-biased overlap, likewise.
    pub rank_biased_overlap: Change,
    /// Share of the queries with the same first document.
    pub same_first: f64,
    /// Queries x seeds.
    pub lists: u64,
    /// Data sets.
    pub datasets: usize,
}

/// An item that loses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstItem {
    /// Position in the data set.
    pub item: usize,
    /// The variant on which it loses most; absent for the originals.
    pub transformation: Option<String>,
    /// Seed of that variant.
    pub seed: Option<u64>,
    /// Its texts as they were.
    pub original: Vec<String>,
    /// Its texts under the variant; empty for the originals.
    pub transformed: Vec<String>,
    /// Its texts under the variant in the old run, if they are others.
    #[serde(default)]
    pub transformed_old: Vec<String>,
    /// Whether it is right under the old and wrong under the new.
    pub flipped: bool,
    /// Result of the old encoder, in words.
    pub old: String,
    /// Result of the new encoder, in words.
    pub new: String,
    /// How much it loses: of its score, 0 to 1, or of a pair's distance to the threshold.
    pub loss: f64,
    /// On how many variants it is right under the old and wrong under the new.
    pub flips: u64,
    /// Total that it is a part of.
    pub of: u64,
}
