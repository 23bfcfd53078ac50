//! The languages that `translation` translated into, and how each of them changed the scores.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::stats::mean;

/// The languages of `translation`; empty without it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LanguageReport {
    /// Targets drawn (or named) per transformation, seed, data set and source language.
    #[serde(default)]
    pub draws: Vec<DrawnTarget>,
    /// Scores per encoder and target language.
    #[serde(default)]
    pub targets: Vec<TargetScore>,
}

/// The language that a data set's texts of one language were translated into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DrawnTarget {
    /// Name with parameters.
    pub transformation: String,
    /// Seed that the target was drawn with.
    pub seed: u64,
    /// Dataset name.
    pub dataset: String,
    /// Language of the texts, as the data set says it; absent where it was detected text by text.
    pub source: Option<String>,
    /// Language they were to be translated into.
    pub target: String,
    /// How many texts.
    pub texts: u64,
}

/// How an encoder scores on texts in a target language. First the mean over the seeds and
/// transformations of a data set that went into the language, then over data sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetScore {
    /// Encoder id.
    pub encoder: String,
    /// The language. Where the sides of a pair were translated into two languages, both with a plus
    /// between them.
    pub target: String,
    /// Data sets that went into it under one seed at least.
    pub datasets: usize,
    /// Pairs of a data set and a seed (and transformation, where several are run) that the score is
    /// made of.
    pub cells: usize,
    /// Mean main score of the original texts of these data sets, x 100.
    pub original: f64,
    /// Mean main score of the translated texts, x 100.
    pub translated: f64,
    /// Translated less original.
    pub delta: f64,
    /// Share of the texts that stayed as they were.
    pub unchanged: f64,
}

/// A data set under a transformation and a seed.
type VariantKey<'a> = (&'a str, u64, &'a str);

/// Scores per target language, in the order of encoders and languages.
pub(super) fn targets(report: &Report) -> Vec<TargetScore> {
    let mut drawn: BTreeMap<VariantKey<'_>, BTreeSet<&str>> = BTreeMap::new();
    for draw in &report.languages.draws {
        let place = (draw.transformation.as_str(), draw.seed, draw.dataset.as_str());
        drawn.entry(place).or_default().insert(&draw.target);
    }
    let mut keys: BTreeMap<String, Vec<VariantKey<'_>>> = BTreeMap::new();
    for (place, languages) in drawn {
        let languages: Vec<&str> = languages.into_iter().collect();
        keys.entry(languages.join("+")).or_default().push(place);
    }
    let mut rows = Vec::new();
    for encoder in &report.encoders {
        let mut originals: BTreeMap<&str, f64> = BTreeMap::new();
        let mut scores: BTreeMap<VariantKey<'_>, f64> = BTreeMap::new();
        for row in report.scores.iter().filter(|row| row.encoder == encoder.id) {
            let points = row.main_score * 100.0;
            match (&row.transformation, row.seed) {
                (Some(label), Some(seed)) => {
                    scores.insert((label, seed, &row.dataset), points);
                }
                _ => {
                    originals.insert(&row.dataset, points);
                }
            }
        }
        for (target, keys) in &keys {
            let mut by_dataset: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for place in keys {
                if let Some(points) = scores.get(place) {
                    by_dataset.entry(place.2).or_default().push(*points);
                }
            }
            let means = |of: &dyn Fn(&str, &[f64]) -> Option<f64>| {
                let values: Vec<f64> = by_dataset
                    .iter()
                    .filter_map(|(name, points)| of(name, points))
                    .collect();
                mean(&values)
            };
            let original = means(&|name, _| originals.get(name).copied());
            let translated = means(&|_, points| mean(points));
            if let (Some(original), Some(translated)) = (original, translated) {
                rows.push(TargetScore {
                    encoder: encoder.id.clone(),
                    target: target.clone(),
                    datasets: by_dataset.len(),
                    cells: by_dataset.values().map(Vec::len).sum(),
                    original,
                    translated,
                    delta: translated - original,
                    unchanged: unchanged(report, keys),
                });
            }
        }
    }
    rows
}

/// Share of the texts of these data sets and seeds that stayed as they were.
fn unchanged(report: &Report, keys: &[VariantKey<'_>]) -> f64 {
    let own = |transformation: &str, seed, dataset: &str| keys.contains(&(transformation, seed, dataset));
    super::model::share(
        report
            .checks
            .iter()
            .filter(|row| own(&row.transformation, row.seed, &row.dataset)),
    )
}

/// One row of draws for each transformation, seed and source language: the data sets of a source
/// language share its draw.
pub(super) fn by_source(draws: &[DrawnTarget]) -> Vec<(&str, u64, Option<&str>, Vec<&str>, u64)> {
    let mut rows: BTreeMap<(&str, u64, Option<&str>), (BTreeSet<&str>, u64)> = BTreeMap::new();
    for draw in draws {
        let source = draw.source.as_deref();
        let (targets, texts) = rows.entry((&draw.transformation, draw.seed, source)).or_default();
        targets.insert(&draw.target);
        *texts += draw.texts;
    }
    rows.into_iter()
        .map(|((transformation, seed, source), (targets, texts))| {
            (transformation, seed, source, targets.into_iter().collect(), texts)
        })
        .collect()
}
