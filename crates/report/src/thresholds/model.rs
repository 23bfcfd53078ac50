//! The content of `thresholds.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{task::TaskType, terms::Part};

/// Version of the `thresholds.json` format. The number increases when a field changes its meaning
/// or is removed.
pub const THRESHOLDS_SCHEMA: &str = "isomer.thresholds/1";

/// Thresholds of an encoder's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thresholds {
    /// [`THRESHOLDS_SCHEMA`].
    pub schema: String,
    /// The findings in sentences, most important first.
    pub headline: Vec<String>,
    /// The encoder. A service whose scores come from another `vector_space` must not use these
    /// thresholds.
    pub encoder: ScoredEncoder,
    /// Goal of the thresholds.
    pub options: ThresholdOptions,
    /// Seeds of the transformed texts.
    pub seeds: Vec<u64>,
    /// One for each data set that has one, then one over all data sets of a kind where there are
    /// several.
    pub sets: Vec<ThresholdSet>,
    /// Data sets, and groups of them, that have no threshold.
    pub without: Vec<WithoutThreshold>,
    /// Maps from an earlier encoder's scores; empty where none was named.
    pub maps: Vec<ScoreMap>,
    /// Why data sets, or parts of the two runs, are not in any map.
    pub not_mapped: Vec<WithoutThreshold>,
    /// Version of Isomer that wrote this.
    pub isomer_version: String,
}

/// The encoder that scores come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoredEncoder {
    /// Encoder id.
    pub encoder: String,
    /// Revision of its source.
    pub revision: String,
    /// SHA-256 (hex) of the weights.
    pub weights_digest: String,
    /// Digest of the vector space: model, weights, prompt, pipeline.
    pub vector_space: String,
    /// Id of the run.
    pub run: String,
    /// When its report was made.
    pub finished: jiff::Timestamp,
    /// Name of the suite.
    pub suite: String,
    /// BLAKE3 (hex) of the suite's text.
    pub suite_digest: String,
}

/// Goal of a threshold, on the original texts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum ThresholdTarget {
    /// The lowest threshold with at least this precision.
    Precision {
        /// Between 0 and 1.
        at: f64,
    },
    /// The lowest threshold with at most this false-positive rate.
    Fpr {
        /// Between 0 and 1.
        at: f64,
    },
    /// The threshold with the highest F1.
    F1,
}

/// How thresholds are chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdOptions {
    /// Goal of the thresholds.
    pub target: ThresholdTarget,
    /// Maximum number of documents that a search returns per query.
    pub k: usize,
    /// Gold score from which a graded pair (STS) is positive; absent: graded pairs have no
    /// threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sts_cut: Option<f64>,
    /// Names of the data sets; empty: all of the run.
    #[serde(default)]
    pub datasets: Vec<String>,
    /// Whether to map what two runs share where they differ.
    #[serde(default)]
    pub shared: bool,
}

/// Kind of similarity that a threshold is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScoreKind {
    /// A pair of texts, by the cosine of its vectors.
    PairCosine,
    /// A document of a search, among the first k of its query, by the similarity that the encoder
    /// searches with.
    SearchSimilarity,
}

/// A prompt that texts of the data sets got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetPrompt {
    /// Part that the texts play.
    pub part: Part,
    /// Its role there, as written.
    pub role: String,
    /// Its text; absent where the encoder names the prompt and does not say its text.
    pub text: Option<String>,
}

/// A threshold, and what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdSet {
    /// The data set; `all pairs` or `all searches` over several.
    pub name: String,
    /// Names of its data sets.
    pub datasets: Vec<String>,
    /// Kind of task.
    pub task: TaskType,
    /// Kind of similarity that the threshold applies to.
    pub score: ScoreKind,
    /// Prompts of the texts. A service must use the same; empty: the encoder's default.
    pub prompts: Vec<SetPrompt>,
    /// A pair or document is accepted if its score is at least this, compared in double precision.
    pub threshold: f64,
    /// The lowest score of the original texts that is accepted.
    pub accepted: f64,
    /// The highest that is not; absent where all are accepted.
    pub rejected: Option<f64>,
    /// Where the threshold would lie with other items.
    pub interval: Option<ScoreInterval>,
    /// Items: pairs, or queries.
    pub items: usize,
    /// Clusters of items that share a text.
    pub clusters: usize,
    /// Share of positives among the decisions on original texts. A service with a different share
    /// has a different precision.
    pub prevalence: f64,
    /// Remarks that a reader needs.
    pub notes: Vec<String>,
    /// The original texts, then each transformation.
    pub rows: Vec<ThresholdRow>,
    /// The same threshold on the data sets of each language, where there are several.
    pub languages: Vec<ThresholdLanguage>,
}

/// The data sets of a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdLanguage {
    /// A code, two of them for pairs across languages, or `not known`.
    pub language: String,
    /// Names of its data sets.
    pub datasets: Vec<String>,
    /// The original texts, then each transformation.
    pub rows: Vec<ThresholdRow>,
}

/// Interval of a threshold, or of its change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level.
    pub level: f64,
    /// Resamples drawn.
    pub resamples: usize,
    /// Resamples without a threshold, which are left out.
    pub without: usize,
    /// Method of the interval.
    pub method: String,
}

/// The threshold on some texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdRow {
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Counts of the decisions, summed over seeds.
    pub counts: DecisionCounts,
    /// The rates of these decisions.
    pub rates: Rates,
    /// The rates where each item is decided by a threshold that was chosen without it.
    pub held_out: Option<Rates>,
    /// Whether the target is shown to be met, or missed, by the interval of the held-out rate.
    pub target: TargetMet,
    /// Why neither is shown, where the number of decisions rules it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_note: Option<String>,
    /// Share of the items of which some text stayed as it was; absent for the originals.
    pub unchanged: Option<f64>,
    /// The rates over the items all of whose texts changed; absent for the originals, and where the
    /// texts are not kept.
    pub changed: Option<Rates>,
    /// The threshold that restores the target on these texts; absent for the originals.
    pub restored: Option<Restored>,
    /// Reason why it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_restored: Option<String>,
}

/// Numbers of right and wrong decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionCounts {
    /// Positives accepted.
    pub true_positives: u64,
    /// Negatives accepted.
    pub false_positives: u64,
    /// Positives not accepted; of a search also those that it did not return.
    pub false_negatives: u64,
    /// Negatives not accepted; of a search only those among the first k.
    pub true_negatives: u64,
}

/// Rates of decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Share of the accepted that are positive.
    pub precision: Rate,
    /// Share of the positives that are accepted.
    pub recall: Rate,
    /// Share of the negatives that are accepted; absent for searches.
    pub fpr: Option<Rate>,
    /// Harmonic mean of precision and recall; absent without positives.
    pub f1: Option<f64>,
}

/// A share with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// The share; absent where it is one of nothing.
    pub value: Option<f64>,
    /// Lower end of its 95 % interval; absent where fewer than two clusters have a decision.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Decisions that it is a share of.
    pub of: u64,
    /// Independent decisions that these are worth.
    pub effective: f64,
}

/// Whether a target is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetMet {
    /// The whole interval keeps the target.
    Met,
    /// The whole interval misses it.
    Missed,
    /// The interval contains the target, or there is none.
    NotShown,
    /// The target is the highest F1, which no number stands for.
    NoNumber,
}

/// The threshold that restores the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The threshold, chosen on these texts as the other was on the originals.
    pub threshold: f64,
    /// The threshold less that of the originals.
    pub change: f64,
    /// Interval of the change: both thresholds are chosen on the same resamples.
    pub interval: Option<ScoreInterval>,
    /// The rates at it, on the texts that it was chosen on.
    pub rates: Rates,
}

/// A data set, or a group of them, without a threshold or outside of the map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WithoutThreshold {
    /// A data set, or a group of them.
    pub name: String,
    /// Reason, in words.
    pub why: String,
}

/// A non-decreasing map from the scores of an earlier encoder to those of this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreMap {
    /// The earlier encoder: only scores of its `vector_space` may be mapped.
    pub from: ScoredEncoder,
    /// Names of the data sets.
    pub datasets: Vec<String>,
    /// Kind of similarity that the map applies to.
    pub score: ScoreKind,
    /// Prompts of the earlier encoder's texts.
    pub from_prompts: Vec<SetPrompt>,
    /// Prompts of this encoder's texts.
    pub prompts: Vec<SetPrompt>,
    /// Pairs of original texts that it was fitted on.
    pub pairs: usize,
    /// Clusters of pairs that share a text.
    pub clusters: usize,
    /// Knots, by old score. Scores between two are interpolated linearly; scores beyond the first
    /// or the last take its new score.
    pub knots: Vec<Knot>,
    /// Its error on the pairs that it was fitted on, which is too small an estimate for others.
    pub in_sample: MapError,
    /// Its error on pairs that it was not fitted on, by cross-validation over clusters.
    pub cross_validated: MapError,
    /// The error of one new score for all pairs, their mean: what a map that says nothing has.
    pub of_the_mean: MapError,
    /// The error of leaving old scores as they are.
    pub of_no_map: MapError,
    /// Number of folds.
    pub folds: usize,
    /// Spearman's correlation of old and new scores.
    pub spearman: f64,
    /// The error on the texts of each transformation, of a map from pairs that it was not fitted
    /// on.
    pub transformations: Vec<TransformationMapError>,
    /// The earlier encoder's thresholds, mapped.
    pub thresholds: Vec<MappedThreshold>,
    /// Why data sets have no mapped threshold.
    pub not_mapped: Vec<WithoutThreshold>,
}

/// A knot of a map.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knot {
    /// Score of the earlier encoder.
    pub old: f64,
    /// Score of this one.
    pub new: f64,
}

/// The error of a map, in units of the new score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapError {
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// 95 % of the absolute errors are at most this.
    pub p95: f64,
}

/// The error of a map on transformed texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransformationMapError {
    /// Name with parameters.
    pub transformation: String,
    /// Error on the transformed texts.
    pub error: MapError,
    /// Share of the old scores beyond the map's knots.
    pub beyond: f64,
}

/// A threshold of the earlier encoder, mapped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MappedThreshold {
    /// Data set.
    pub dataset: String,
    /// The earlier encoder's threshold for the same target.
    pub old: f64,
    /// The threshold after mapping.
    pub mapped: f64,
    /// This encoder's own threshold; absent where it has none.
    pub own: Option<f64>,
    /// Rates of the mapped threshold on this encoder's original texts.
    pub rates: Rates,
}
