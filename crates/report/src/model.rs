//! The content of a report; `report.json` is this model, serialised.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    GateReport, JudgeReport, LanguageReport, PromptUse, SeparationReport, SubsetReport, TruncationRow, UnusedPrompt,
    tables::Table,
};
use crate::{
    dataset::Sample,
    profile::{Axis, DropShare, LanguageGroup, NotComputed, RobustnessProfile},
    task::TaskType,
    terms::{Counters, Outcome, Transformation},
};

/// Version of the `report.json` format. The number increases when a field changes its meaning or is
/// removed.
pub const SCHEMA: &str = "isomer.report/1";

/// A run's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The findings in sentences, most important first.
    pub headline: Vec<String>,
    /// Identity and times of the run.
    pub run: RunInfo,
    /// Suite of the run.
    pub suite: SuiteInfo,
    /// Encoders profiled.
    pub encoders: Vec<EncoderInfo>,
    /// Generators that took part, from the texts' provenance: none where everything was made by
    /// rule.
    pub generators: Vec<GeneratorInfo>,
    /// Data sets that were scored.
    pub datasets: Vec<DatasetInfo>,
    /// The robustness profile.
    pub profile: RobustnessProfile,
    /// The profile's differences on some of the rewrites: changed ones, and those that a judge
    /// accepts.
    #[serde(default)]
    pub subsets: Vec<SubsetReport>,
    /// Verdict of the gate; absent without rules.
    #[serde(default)]
    pub gate: Option<GateReport>,
    /// How the texts are rated, and how drift goes with that; absent where the run named no judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeReport>,
    /// Whether encoders distinguish a rewrite from a change of meaning; absent where the run left
    /// it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separation: Option<SeparationReport>,
    /// How much of each encoder's drop is left in each of its searches by terms; empty without
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop_shares: Vec<DropShare>,
    /// Outcome of the texts per transformation, seed and dataset: the quality of the profile's
    /// input.
    pub checks: Vec<CheckRow>,
    /// The same per transformation, as shares of its texts, over all seeds and datasets.
    #[serde(default)]
    pub error_rates: Vec<ErrorRates>,
    /// The languages that `translation` went into, and the scores per language.
    #[serde(default)]
    pub languages: LanguageReport,
    /// How far the texts moved in each encoder's vector space.
    #[serde(default)]
    pub drift: Vec<DriftRow>,
    /// Texts that the encoders cut at their length; empty in reports of versions that did not count
    /// them.
    #[serde(default)]
    pub truncation: Vec<TruncationRow>,
    /// Every score.
    pub scores: Vec<ScoreRow>,
    /// Texts before and after their transformation.
    pub examples: Vec<Example>,
    /// The tables of PTEB and HTEB, in the papers' form.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Work that was done, and work that was found in caches.
    pub counters: Counters,
    /// Seconds per stage.
    pub durations: BTreeMap<String, f64>,
    /// Remarks that a reader needs before trusting a number.
    pub notes: Vec<String>,
    /// Figures that are missing, with the reason.
    #[serde(default)]
    pub not_computed: Vec<NotComputed>,
    /// Version of Isomer that wrote this.
    pub isomer_version: String,
}

/// Identity and times of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Id of the run.
    pub id: String,
    /// Time of the request.
    pub created: Timestamp,
    /// When it began.
    pub started: Timestamp,
    /// When the report was made.
    pub finished: Timestamp,
    /// From beginning to report.
    pub seconds: f64,
}

/// The suite, overrides included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteInfo {
    /// Name as the suite gives it.
    pub name: String,
    /// Purpose of the suite.
    pub description: String,
    /// BLAKE3 (hex) of the suite's text.
    pub digest: String,
    /// Seeds of the transformations.
    pub seeds: Vec<u64>,
    /// Generator asked for; empty: the transform service's default.
    pub generator: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// Nucleus.
    pub top_p: f64,
    /// Tokens sampled among; absent: the generator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Maximum number of attempts per text.
    pub attempts: u32,
    /// Whether texts that came back unchanged are requested again.
    #[serde(default = "yes")]
    pub retry_identical: bool,
    /// Least temperature of attempts after the first.
    #[serde(default = "warm")]
    pub retry_temperature: f64,
    /// Effect of a meaning guard that fires: `warn`, `retry` or `off`; empty in reports from before
    /// there were any.
    #[serde(default)]
    pub guards: String,
    /// Replacement for texts that could not be transformed.
    pub on_failure: String,
    /// Metric profile with the library versions it equals.
    pub metrics: String,
    /// Transformations of the suite.
    pub transformations: Vec<TransformationInfo>,
}

/// The default for reports of versions without this setting: identical texts were retried.
fn yes() -> bool {
    true
}

/// The default for reports of versions without this setting: 0.7.
fn warm() -> f64 {
    0.7
}

/// A transformation of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransformationInfo {
    /// Name with parameters.
    pub label: String,
    /// Axis of variation.
    pub axis: Axis,
    /// Name and parameters.
    pub transformation: Transformation,
    /// Whether a generator made the texts.
    pub needs_generator: bool,
    /// Prompt id and version; empty where none.
    pub prompt_version: String,
    /// SHA-256 (hex) of the prompt; empty where none.
    pub prompt_digest: String,
}

/// Identity and properties of an encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EncoderInfo {
    /// Encoder id, as requests name it.
    pub id: String,
    /// Revision of its source.
    pub revision: String,
    /// SHA-256 (hex) of the weights.
    pub weights_digest: String,
    /// Digest of the vector space.
    pub vector_space: String,
    /// Model architecture, as the encoder reports it.
    pub architecture: String,
    /// Columns of a vector.
    pub dimensions: u32,
    /// Longest input in tokens.
    pub max_tokens: u32,
    /// Pooling pipeline.
    pub pooling: String,
    /// Whether vectors have unit length.
    pub normalised: bool,
    /// Literal prompt of texts that are in none of `prompts`: the encoder's default.
    pub prompt: String,
    /// Prompts that texts got.
    #[serde(default)]
    pub prompts: Vec<PromptUse>,
    /// Prompts that were there and that no text got.
    #[serde(default)]
    pub unused_prompts: Vec<UnusedPrompt>,
    /// Whether the others are compared with this one.
    pub baseline: bool,
    /// The variant that it is; absent: the encoder as its service has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantInfo>,
}

/// A variant of an encoder: its vectors in a stored form, or its prompts in other words. Statistics
/// over encoders leave it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantInfo {
    /// Id of the encoder.
    pub encoder: String,
    /// Stored form, e.g. `binary:256`; absent for other prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// Prompt variant, e.g. `typos`; absent for a stored form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<String>,
    /// Bytes of a vector.
    pub bytes: u32,
    /// Share of the encoder's first 10 documents that are among the first 10 of the variant: mean
    /// over the original queries of a data set, then over data sets of retrieval. Absent without
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<f64>,
}

/// A generator that made texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorInfo {
    /// Id, e.g. `local:qwen2.5-coder-0.5b-instruct`.
    pub id: String,
    /// Digest of the weights, where known.
    pub digest: String,
    /// Number of texts that each version of the model wrote, as its server names it; empty where it
    /// names none.
    #[serde(default)]
    pub versions: BTreeMap<String, u64>,
}

/// Identity and content of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetInfo {
    /// Data set name, with the language subset.
    pub name: String,
    /// The group that it counts in, with the other languages or parts of the same data. Empty in
    /// reports of versions that knew no groups: the data set counts alone.
    #[serde(default)]
    pub group: String,
    /// Kind of task.
    pub task: TaskType,
    /// Where from.
    pub source: String,
    /// Split, e.g. `test`.
    pub split: String,
    /// Language subset, where the files name one; else the language of its texts, where it is
    /// known.
    pub language: Option<String>,
    /// Languages of its texts, where they are known: one, or that of the first and of the second
    /// side.
    #[serde(default)]
    pub languages: Vec<String>,
    /// Rows scored: pairs, or queries.
    pub items: usize,
    /// Texts encoded.
    pub texts: usize,
    /// Distinct texts transformed.
    pub transformed_texts: usize,
    /// BLAKE3 (hex) of the content.
    pub digest: String,
    /// The hub's commit, where it came from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How its rows were drawn, where a limit left some out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// mteb's key of the main score.
    pub main_score: String,
}

/// Outcome of a dataset's distinct texts under one transformation and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRow {
    /// Name with parameters.
    pub transformation: String,
    /// Seed of the transformation.
    pub seed: u64,
    /// Dataset name.
    pub dataset: String,
    /// Distinct texts transformed.
    pub texts: u64,
    /// Passed at the first attempt.
    pub ok: u64,
    /// Passed after retries.
    pub recovered: u64,
    /// The original stood in.
    pub kept_original: u64,
    /// No text came back; the original stood in.
    pub failed: u64,
    /// Texts that stayed as they were: equal to the original after NFKC, without case, punctuation
    /// and white space. Those for which the original stood in count too. Absent in reports of
    /// versions that did not compare the texts.
    #[serde(default)]
    pub unchanged: Option<u64>,
    /// Texts in which one word differs from the original; absent likewise.
    #[serde(default)]
    pub near_copies: Option<u64>,
    /// On how many texts each check still fired at the last attempt.
    pub failed_checks: BTreeMap<String, u64>,
    /// How often each check fired on attempts before the last.
    pub retried_checks: BTreeMap<String, u64>,
    /// On how many texts each check fired at the first attempt.
    #[serde(default)]
    pub first_checks: BTreeMap<String, u64>,
    /// On how many of the texts that were transformed each meaning guard fired: warnings, which
    /// change no other count.
    #[serde(default)]
    pub guards: BTreeMap<String, u64>,
    /// Number of these texts on which each meaning guard has no result.
    #[serde(default)]
    pub guards_untold: BTreeMap<String, u64>,
    /// Mean word-level edit distance of texts that were transformed, 0 to 1.
    pub edit_distance: Option<f64>,
    /// Mean word-level Jaccard similarity of them.
    pub jaccard: Option<f64>,
    /// Mean length ratio of them.
    pub length_ratio: Option<f64>,
}

impl CheckRow {
    /// Texts that stayed as they were. Reports of versions that did not compare the texts count
    /// those for which the original stood in.
    pub fn unchanged_texts(&self) -> u64 {
        self.unchanged.unwrap_or(self.kept_original + self.failed)
    }

    /// Texts that stayed as they were, as a share.
    pub fn unchanged_share(&self) -> f64 {
        if self.texts == 0 {
            0.0
        } else {
            self.unchanged_texts() as f64 / self.texts as f64
        }
    }
}

/// Outcome of a transformation's texts, over all seeds and datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRates {
    /// Name with parameters.
    pub transformation: String,
    /// Distinct texts of the datasets x seeds.
    pub texts: u64,
    /// Share for which the original stood in: HTEB's total error rate, at most one per text.
    pub unchanged: f64,
    /// Share that stayed as it was, the original standing in or not: see [`CheckRow::unchanged`].
    #[serde(default)]
    pub same: Option<f64>,
    /// Share in which one word differs from the original.
    #[serde(default)]
    pub near_copies: Option<f64>,
    /// Share that passed only after retries.
    pub recovered: f64,
    /// Share on which each check still fired at the last attempt; several may on one text.
    pub checks: BTreeMap<String, f64>,
    /// Share that failed a check at the first attempt, at most one per text.
    #[serde(default)]
    pub first_failed: f64,
    /// Share on which each check fired at the first attempt.
    #[serde(default)]
    pub first_checks: BTreeMap<String, f64>,
    /// Share of the transformed texts on which each meaning guard fired.
    #[serde(default)]
    pub guards: BTreeMap<String, f64>,
    /// Share of these texts on which each meaning guard has no result.
    #[serde(default)]
    pub guards_untold: BTreeMap<String, f64>,
    /// Mean word-level edit distance of texts that were transformed.
    pub edit_distance: Option<f64>,
    /// Mean length ratio of them.
    pub length_ratio: Option<f64>,
}

/// How far the distinct transformed texts of a dataset moved: 1 - cosine of original and
/// transformed under an encoder. Texts for which the original stood in are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftRow {
    /// Encoder id.
    pub encoder: String,
    /// Dataset name.
    pub dataset: String,
    /// Name with parameters.
    pub transformation: String,
    /// Pairs measured, over all seeds.
    pub pairs: u64,
    /// Pairs with a vector of length 0, which have no cosine.
    pub undefined: u64,
    /// Mean over seeds of the mean over pairs; absent without pairs.
    pub mean: Option<f64>,
    /// Sample standard deviation of those means over seeds; absent with fewer than two.
    pub sd: Option<f64>,
    /// Median over the pairs of all seeds.
    pub median: Option<f64>,
    /// 90 % quantile over the pairs of all seeds.
    pub ninth_decile: Option<f64>,
    /// The encoder's parallel gap on this dataset: mean cosine of texts with their rewrites less
    /// that with the rewrites of other texts, over the texts of separation and the transformations
    /// that stay in the text's language. It is the scale of the encoder's cosines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_gap: Option<f64>,
    /// `mean` divided by `parallel_gap`: at 1, texts move by as much as divides a rewrite from an
    /// unrelated text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_gaps: Option<f64>,
    /// Reason why `in_gaps` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_note: Option<String>,
}

/// Scores of one encoder on one data set, original or transformed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScoreRow {
    /// Encoder id.
    pub encoder: String,
    /// Dataset name.
    pub dataset: String,
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Seed; absent for the originals.
    pub seed: Option<u64>,
    /// Digest of the texts scored.
    pub texts_digest: String,
    /// Its address in the server's store of scores, where its items lie too: `<first two
    /// letters>/<address>.items.json`. Empty in reports of versions that kept no items.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// mteb's key of the main score.
    pub main_score_key: String,
    /// Its value, in the metric's own unit.
    pub main_score: f64,
    /// Every metric.
    pub scores: BTreeMap<String, f64>,
    /// Rows scored.
    pub items: u64,
    /// Found in the store rather than computed.
    pub cached: bool,
}

/// Why an example is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Picked {
    /// Drawn by its content: the same text in every run.
    #[default]
    Drawn,
    /// Among those that moved furthest.
    WorstMoved,
}

/// A text before and after its transformation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// Dataset name.
    pub dataset: String,
    /// Name with parameters.
    pub transformation: String,
    /// Seed of the transformation; absent for the originals.
    pub seed: u64,
    /// As it was.
    pub original: String,
    /// As it became.
    pub transformed: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Checks that fired on the last attempt.
    pub failed_checks: Vec<String>,
    /// Word-level edit distance, if computed.
    pub edit_distance: Option<f64>,
    /// Why it is shown.
    #[serde(default)]
    pub picked: Picked,
    /// 1 - cosine of the two texts, mean over encoders; absent where nothing was transformed.
    #[serde(default)]
    pub drift: Option<f64>,
    /// The same per encoder.
    #[serde(default)]
    pub drift_by_encoder: BTreeMap<String, f64>,
}

impl DatasetInfo {
    /// The language group, as far as the language is known.
    pub fn language_group(&self) -> LanguageGroup {
        LanguageGroup::of(self.languages.iter().map(String::as_str), self.language.as_deref())
    }
}

impl Report {
    /// Error rates of a transformation; absent in reports of versions that did not have them.
    pub fn error_rates_of(&self, transformation: &str) -> Option<&ErrorRates> {
        self.error_rates
            .iter()
            .find(|rates| rates.transformation == transformation)
    }

    /// As [`Report::unchanged_share`], over the transformations of an axis.
    pub fn unchanged_share_of_axis(&self, axis: Axis) -> f64 {
        let of_axis = |label: &str| {
            let mut all = self.suite.transformations.iter();
            all.any(|one| one.label == label && one.axis == axis)
        };
        share(self.checks.iter().filter(|row| of_axis(&row.transformation)))
    }

    /// As [`Report::unchanged_share`], over all transformations that count towards the total:
    /// pooled over all texts, or the mean of the data sets' shares, whichever is larger. The pooled
    /// share alone would hide a small data set without a single rewrite.
    pub fn unchanged_share_of_total(&self) -> f64 {
        let counts = |label: &str| {
            let mut all = self.suite.transformations.iter();
            all.any(|one| one.label == label && one.axis.in_total())
        };
        let rows: Vec<&CheckRow> = self.checks.iter().filter(|row| counts(&row.transformation)).collect();
        let datasets: BTreeSet<&str> = rows.iter().map(|row| row.dataset.as_str()).collect();
        let shares: Vec<f64> = datasets
            .into_iter()
            .map(|dataset| share(rows.iter().copied().filter(|row| row.dataset == dataset)))
            .collect();
        crate::stats::mean(&shares).unwrap_or(0.0).max(share(rows.into_iter()))
    }

    /// Share of texts that stayed as they were, over all seeds; over all datasets where none is
    /// named.
    pub fn unchanged_share(&self, transformation: &str, dataset: Option<&str>) -> f64 {
        share(
            self.checks
                .iter()
                .filter(|row| row.transformation == transformation && dataset.is_none_or(|name| row.dataset == name)),
        )
    }
}

/// Share of the rows' texts that stayed as they were.
pub(super) fn share<'a>(rows: impl Iterator<Item = &'a CheckRow>) -> f64 {
    let (unchanged, texts) = rows.fold((0, 0), |(unchanged, texts), row| {
        (unchanged + row.unchanged_texts(), texts + row.texts)
    });
    if texts == 0 {
        0.0
    } else {
        unchanged as f64 / texts as f64
    }
}
