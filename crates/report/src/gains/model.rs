//! Schema of `gains.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::{
        Evidence,
        interval::{DeltaInterval, DeltaIntervals},
    },
    task::TaskType,
};

/// Version of the format.
pub const GAINS_SCHEMA: &str = "isomer.gains/1";

/// A way to augment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GainSetting {
    /// Its name, which no other setting has.
    pub name: String,
    /// Transformations of the variants, each once.
    pub transformations: Vec<String>,
    /// Generators of the variants, each once; an empty name stands for the server's default. Empty
    /// where the transformations need none.
    pub generators: Vec<String>,
    /// Variants of a text at most: the k of the paper.
    pub k: usize,
    /// How vectors are pooled, e.g. `mean` or `weighted, original 0.75`.
    pub pooling: String,
    /// Whether documents stay as they are.
    pub queries_only: bool,
}

/// A data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GainDataset {
    /// Its name, with the language subset.
    pub name: String,
    /// Data sets of one group, such as the languages of one data set, count as one in averages.
    pub group: String,
    /// The language subset; empty where there is none.
    pub language: String,
    /// Kind of task.
    pub task: TaskType,
    /// Key of the main score.
    pub main_score: String,
    /// BLAKE3 (hex) of texts and labels.
    pub digest: String,
    /// Items scored.
    pub items: usize,
    /// Clusters of items that share a text.
    pub clusters: usize,
}

/// One score: an encoder on a data set, plain or augmented.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GainCell {
    pub encoder: String,
    /// Name of the data set.
    pub dataset: String,
    /// Name of the setting; absent: plain vectors.
    pub setting: Option<String>,
    /// The main score, in the metric's own unit.
    pub score: f64,
    /// Items that it is computed from; absent if it cannot be decomposed.
    pub evidence: Option<Evidence>,
    /// The cluster of each item.
    pub clusters: Vec<u32>,
    /// Values of the items by name; absent where undefined.
    pub columns: BTreeMap<String, Vec<Option<f64>>>,
    /// Work of the augmentation; absent for plain vectors.
    pub work: Option<GainWork>,
}

/// Work of an augmentation. Counts are of distinct texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GainWork {
    /// Texts that were to be augmented.
    pub texts: u64,
    /// Texts that were not, such as documents.
    pub plain_texts: u64,
    /// Variants pooled.
    pub variants: u64,
    /// Variants missing: their texts were pooled without them.
    pub missing: u64,
    /// Reasons why variants are missing, with the number of each.
    pub missing_reasons: BTreeMap<String, u64>,
    /// Variants that came from a cache.
    pub cached: u64,
    /// Tokens generated for the variants pooled, whether now or when the cache was filled.
    pub generated_tokens: u64,
    /// Tokens of the prompts for these variants.
    pub prompt_tokens: u64,
    /// Whether some of these tokens are estimated.
    pub tokens_estimated: bool,
}

/// Times of one kind of vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GainTiming {
    pub encoder: String,
    /// Name of the data set.
    pub dataset: String,
    /// Name of the setting; absent: plain vectors.
    pub setting: Option<String>,
    /// Seconds of each run, generation included.
    pub seconds: Vec<f64>,
    /// Distinct texts of each run.
    pub texts: Vec<u64>,
    /// Texts of all runs whose vector or variant came from a cache: these runs are too fast.
    pub cached: u64,
}

/// Data that the gains are computed from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GainInput {
    /// Encoders, in the order of the tables.
    pub encoders: Vec<String>,
    /// Data sets, likewise; without items and clusters, which follow from the cells.
    pub datasets: Vec<GainDataset>,
    pub settings: Vec<GainSetting>,
    /// Scores.
    pub cells: Vec<GainCell>,
    pub timings: Vec<GainTiming>,
    /// The profile of the metrics.
    pub profile: String,
    /// Remarks for readers.
    pub notes: Vec<String>,
}

/// A difference with its intervals, in points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Augmented less plain.
    pub value: f64,
    /// Intervals of the difference over other items and over other data sets.
    #[serde(default, skip_serializing_if = "DeltaIntervals::is_empty")]
    pub intervals: DeltaIntervals,
}

/// An encoder over the data sets of a task, plain or augmented in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AverageGain {
    /// Encoder id.
    pub encoder: String,
    /// Setting; absent: plain.
    pub setting: Option<String>,
    /// Variants of a text at most.
    pub k: usize,
    /// Mean score x 100 over groups of data sets.
    pub score: f64,
    /// Gain over plain vectors; absent for these.
    pub gain: Option<Gain>,
    /// Whether no other row of the encoder has a higher score.
    pub best: bool,
    /// Generated tokens for each distinct text, mean over the same data sets.
    pub tokens_per_text: f64,
    /// Milliseconds for each distinct text, mean over data sets; absent where not measured on all
    /// of them, or where caches answered.
    pub milliseconds_per_text: Option<f64>,
    /// Whether no other row of the task has at least the score for no more tokens and is better in
    /// one of them.
    pub on_token_front: bool,
    /// The same for milliseconds; absent without times.
    pub on_time_front: Option<bool>,
}

/// The averages of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskGains {
    /// Kind of task.
    pub task: TaskType,
    /// Key of the main score.
    pub main_score: String,
    /// Data sets that are averaged.
    pub datasets: Vec<String>,
    /// Groups of data sets.
    pub groups: usize,
    /// By encoder, then plain and setting.
    pub rows: Vec<AverageGain>,
}

/// An encoder on a data set, plain or augmented in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainRow {
    /// Encoder id.
    pub encoder: String,
    /// Data set.
    pub dataset: String,
    /// Setting; absent: plain.
    pub setting: Option<String>,
    /// Score x 100.
    pub score: f64,
    /// Gain over plain vectors; absent for these.
    pub gain: Option<Gain>,
    /// Why the gain has no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_interval: Option<String>,
    /// Work of the augmentation; absent for plain vectors.
    pub work: Option<GainWork>,
}

/// A mean over pairs, x 100.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanCosine {
    /// The mean.
    pub value: f64,
    /// Its interval over other pairs.
    pub interval: Option<DeltaInterval>,
    /// Pairs with the variants that it takes.
    pub pairs: usize,
}

/// Cosines of texts with their variants (Table 5 of the paper).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CosineRow {
    /// Encoder id.
    pub encoder: String,
    /// Data set.
    pub dataset: String,
    /// Setting, of one source.
    pub setting: String,
    /// First texts of the pairs with their variants.
    pub original_variant_1: MeanCosine,
    /// Second texts with theirs.
    pub original_variant_2: MeanCosine,
    /// The two variants.
    pub variants: MeanCosine,
    /// The two originals, over all pairs.
    pub originals: MeanCosine,
}

/// The ends of an interval of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Times (Table 20 of the paper).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeRow {
    /// Encoder id.
    pub encoder: String,
    /// Data set.
    pub dataset: String,
    /// Setting; absent: plain.
    pub setting: Option<String>,
    /// Number of timed runs.
    pub runs: usize,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Sample standard deviation over runs; absent of one run.
    pub sd: Option<f64>,
    /// 95 % interval of the mean by Student's t; absent of one run.
    pub interval: Option<TimeInterval>,
    /// Mean distinct texts of a run.
    pub texts: f64,
    /// Milliseconds for each distinct text.
    pub milliseconds_per_text: f64,
    /// Texts that a cache answered, over all runs; the times are too short where it is not 0.
    pub cached: u64,
}

/// Some of the items, by a value that is known without labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stratum {
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Number of items in the part.
    pub items: usize,
    /// Score x 100 of these items alone, plain.
    pub plain: Option<f64>,
    /// The same, augmented.
    pub augmented: Option<f64>,
    /// The difference.
    pub gain: Option<f64>,
    /// Its interval over other items.
    pub interval: Option<DeltaInterval>,
}

/// Gains per stratum: the items of a data set divided by a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainStrata {
    /// Encoder id.
    pub encoder: String,
    /// Data set.
    pub dataset: String,
    /// Name of the setting.
    pub setting: String,
    /// Value that divides the items: `words`, `gap` (similarity of the best document less that of
    /// the second, plain) or `similarity` (of the pair, plain).
    pub by: String,
    /// Up to ten parts of about equal size; items with equal values are in one.
    pub strata: Vec<Stratum>,
    /// Gain on the upper half of the items less gain on the lower half.
    pub upper_less_lower: Option<Gain>,
    /// Why there are fewer than ten parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Gains by augmentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gains {
    /// Version of this format.
    pub schema: String,
    /// The findings, in sentences.
    pub headline: Vec<String>,
    /// Ids of the measured encoders.
    pub encoders: Vec<String>,
    /// Data sets.
    pub datasets: Vec<GainDataset>,
    /// Settings that were compared with plain vectors.
    pub settings: Vec<GainSetting>,
    /// Averages by task (tables 1, 6, 9 and 10 of the paper).
    pub tasks: Vec<TaskGains>,
    /// By data set (tables 13 and 15 to 19).
    pub rows: Vec<GainRow>,
    /// Cosines (Table 5).
    pub cosines: Vec<CosineRow>,
    /// Times (Table 20).
    pub times: Vec<TimeRow>,
    /// Gains per stratum of texts.
    pub strata: Vec<GainStrata>,
    /// The profile of the metrics.
    pub profile: String,
    /// Remarks.
    pub notes: Vec<String>,
    /// Version of Isomer that wrote this.
    pub isomer_version: String,
}
