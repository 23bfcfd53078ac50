//! Results of the two steps.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Agreement, Bin, Estimate, GoldSet, LEVEL, RESAMPLES, RatedPair, SCALE, agreement, by_gold, by_words, estimate,
    spearman_interval,
};
use crate::stats::{self, Interval};

/// Settings of both steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Seed of the texts, ratings and intervals.
    pub seed: u64,
    /// The paraphrasers' transformation, by its name in the catalogue.
    pub transformation: String,
    /// Upper edges of the bins of words.
    pub word_bins: Vec<u32>,
}

/// Time spent on texts that were generated now. Texts from the cache are not timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clock {
    seconds: f64,
    texts: u64,
}

impl Clock {
    fn add(&mut self, took: Duration, fresh: u64) {
        if fresh > 0 {
            self.seconds += took.as_secs_f64();
            self.texts += fresh;
        }
    }

    /// Seconds per text; `None` if all came from the cache.
    pub fn per_text(&self) -> Option<f64> {
        (self.texts > 0).then(|| self.seconds / self.texts as f64)
    }

    fn json(&self) -> Value {
        json!({"per_text": self.per_text(), "timed_texts": self.texts})
    }
}

/// A judge against gold scores (step 1).
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeResult {
    /// Its generator id.
    pub id: String,
    /// By dataset, in order: name, agreement, interval of the correlation.
    pub sets: Vec<(String, Agreement, Option<Interval>)>,
    /// By word count: dataset, bins; the first entry is all datasets together.
    pub words: Vec<(String, Vec<Bin>)>,
    /// By gold score: dataset, bins.
    pub gold: Vec<(String, Vec<Bin>)>,
    /// Pairs without a rating.
    pub failures: u64,
    /// Pairs rated after retries.
    pub retried: u64,
    /// Time of the ratings.
    pub clock: Clock,
    all: Vec<RatedPair>,
}

impl JudgeResult {
    /// Creates the result before the first dataset.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            sets: Vec::new(),
            words: Vec::new(),
            gold: Vec::new(),
            failures: 0,
            retried: 0,
            clock: Clock::default(),
            all: Vec::new(),
        }
    }

    /// Counts the time of `fresh` texts that did not come from the cache.
    pub fn time(&mut self, took: Duration, fresh: u64) {
        self.clock.add(took, fresh);
    }

    /// Adds the ratings of a dataset.
    pub fn add(&mut self, set: &str, pairs: Vec<RatedPair>, settings: &Settings) {
        let interval = spearman_interval(&pairs, settings.seed);
        self.sets.push((set.to_owned(), agreement(&pairs), interval));
        self.words.push((set.to_owned(), by_words(&pairs, &settings.word_bins)));
        self.gold.push((set.to_owned(), by_gold(&pairs)));
        self.all.extend(pairs);
    }

    /// Mean over the datasets; `None` if one of them has no correlation.
    pub fn mean(&self, of: impl Fn(&Agreement) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.sets.iter().map(|(_, agreement, _)| of(agreement)).collect();
        stats::mean(&values?)
    }

    /// The value by which judges are ordered.
    fn order(&self) -> f64 {
        self.mean(|agreement| agreement.spearman).unwrap_or(f64::NEG_INFINITY)
    }

    /// Bins over all datasets together.
    pub fn all_words(&self, edges: &[u32]) -> Vec<Bin> {
        by_words(&self.all, edges)
    }

    /// Bins over all datasets together.
    pub fn all_gold(&self) -> Vec<Bin> {
        by_gold(&self.all)
    }
}

/// A judge's ratings of a paraphraser.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeScore {
    /// Generator id of the judge.
    pub judge: String,
    /// By dataset: name, mean rating.
    pub sets: Vec<(String, Option<f64>)>,
    /// Mean rating over all texts.
    pub mean: Option<Estimate>,
    /// Hodges-Lehmann estimate over the datasets' means and its interval; requires at least two
    /// datasets.
    pub shift: Option<(f64, Interval)>,
    /// Texts without a rating.
    pub unrated: usize,
    scores: Vec<f64>,
}

impl JudgeScore {
    /// Creates the score before the first dataset.
    pub fn new(judge: &str) -> Self {
        Self {
            judge: judge.to_owned(),
            sets: Vec::new(),
            mean: None,
            shift: None,
            unrated: 0,
            scores: Vec::new(),
        }
    }

    /// Adds the ratings of a dataset; `asked`: the number of requested ratings.
    pub fn add(&mut self, set: &str, scores: Vec<f64>, asked: usize) {
        self.sets.push((set.to_owned(), stats::mean(&scores)));
        self.unrated += asked - scores.len();
        self.scores.extend(scores);
    }

    /// Computes the estimate after the last dataset.
    pub fn finish(&mut self, seed: u64) {
        self.mean = estimate(&self.scores, seed);
        let means: Vec<f64> = self.sets.iter().filter_map(|(_, mean)| *mean).collect();
        if means.len() > 1 {
            let interval = stats::hodges_lehmann_bootstrap(&means, RESAMPLES, LEVEL, seed);
            self.shift = stats::hodges_lehmann(&means).zip(interval);
        }
    }
}

/// A paraphraser (step 2).
#[derive(Debug, Clone, PartialEq)]
pub struct ParaphraserResult {
    /// Its generator id.
    pub id: String,
    pub texts: usize,
    /// Texts whose attempts all failed a check.
    pub failed: usize,
    /// Scores by judge, the chosen one first.
    pub scores: Vec<JudgeScore>,
    /// Mean edit distance of its texts from the originals.
    pub edit_distance: Option<Estimate>,
    /// Time of its texts.
    pub clock: Clock,
}

impl ParaphraserResult {
    /// Creates the result before the first dataset.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            texts: 0,
            failed: 0,
            scores: Vec::new(),
            edit_distance: None,
            clock: Clock::default(),
        }
    }

    /// Counts the time of `fresh` texts that did not come from the cache.
    pub fn time(&mut self, took: Duration, fresh: u64) {
        self.clock.add(took, fresh);
    }

    /// The value by which paraphrasers are ordered: the chosen judge's mean.
    fn order(&self) -> f64 {
        let first = self.scores.first().and_then(|score| score.mean);
        first.map_or(f64::NEG_INFINITY, |estimate| estimate.mean)
    }
}

/// Orders the judges by their mean correlation over the datasets, highest first. The first is the
/// judge of step 2.
pub fn rank_judges(judges: &mut [JudgeResult]) {
    judges.sort_by(|a, b| b.order().total_cmp(&a.order()));
}

/// Orders the paraphrasers by the first judge's mean rating, best first.
pub fn rank_paraphrasers(paraphrasers: &mut [ParaphraserResult]) {
    paraphrasers.sort_by(|a, b| b.order().total_cmp(&a.order()));
}

/// The results of both steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub settings: Settings,
    /// Datasets: name, pairs used, pairs in all.
    pub data: Vec<(String, usize, usize)>,
    /// Judges, best first.
    pub judges: Vec<JudgeResult>,
    /// Paraphrasers, best first.
    pub paraphrasers: Vec<ParaphraserResult>,
}

impl Report {
    /// A selection of results that are already in order.
    pub fn new(
        settings: Settings,
        data: &[GoldSet],
        judges: Vec<JudgeResult>,
        paraphrasers: Vec<ParaphraserResult>,
    ) -> Self {
        Self {
            settings,
            data: data
                .iter()
                .map(|set| (set.name.clone(), set.pairs.len(), set.of))
                .collect(),
            judges,
            paraphrasers,
        }
    }

    /// The selection as a JSON document.
    pub fn json(&self) -> Value {
        let judges: Vec<Value> = self.judges.iter().map(|judge| self.judge_json(judge)).collect();
        let paraphrasers: Vec<Value> = self.paraphrasers.iter().map(paraphraser_json).collect();
        let data: Vec<Value> = self
            .data
            .iter()
            .map(|(name, pairs, of)| json!({"name": name, "pairs": pairs, "of": of}))
            .collect();
        json!({
            "seed": self.settings.seed,
            "scale": [SCALE.0, SCALE.1],
            "data": data,
            "judges": judges,
            "chosen_judge": self.judges.first().map(|judge| &judge.id),
            "transformation": self.settings.transformation,
            "paraphrasers": paraphrasers,
        })
    }

    fn judge_json(&self, judge: &JudgeResult) -> Value {
        let sets: Vec<Value> = judge
            .sets
            .iter()
            .zip(judge.words.iter().zip(&judge.gold))
            .map(|((name, agreement, interval), ((_, words), (_, gold)))| {
                json!({
                    "name": name,
                    "agreement": agreement_json(agreement),
                    "spearman_interval": interval.as_ref().map(interval_json),
                    "by_words": bins_json(words),
                    "by_gold": bins_json(gold),
                })
            })
            .collect();
        json!({
            "judge": judge.id,
            "mean_spearman": judge.mean(|agreement| agreement.spearman),
            "mean_mae": judge.mean(|agreement| agreement.mae),
            "failures": judge.failures,
            "rated_after_retries": judge.retried,
            "seconds": judge.clock.json(),
            "sets": sets,
            "by_words": bins_json(&judge.all_words(&self.settings.word_bins)),
            "by_gold": bins_json(&judge.all_gold()),
        })
    }
}

fn paraphraser_json(paraphraser: &ParaphraserResult) -> Value {
    let scores: Vec<Value> = paraphraser
        .scores
        .iter()
        .map(|score| {
            let sets: Vec<Value> = score
                .sets
                .iter()
                .map(|(name, mean)| json!({"name": name, "mean": mean}))
                .collect();
            json!({
                "judge": score.judge,
                "mean": score.mean.as_ref().map(estimate_json),
                "hodges_lehmann": score.shift.as_ref().map(|(shift, interval)| {
                    json!({"estimate": shift, "interval": interval_json(interval)})
                }),
                "unrated": score.unrated,
                "sets": sets,
            })
        })
        .collect();
    json!({
        "generator": paraphraser.id,
        "texts": paraphraser.texts,
        "failed": paraphraser.failed,
        "similarity": scores,
        "edit_distance": paraphraser.edit_distance.as_ref().map(estimate_json),
        "seconds": paraphraser.clock.json(),
    })
}

fn agreement_json(agreement: &Agreement) -> Value {
    json!({
        "pairs": agreement.pairs, "rated": agreement.rated, "spearman": agreement.spearman, "mae": agreement.mae,
    })
}

fn bins_json(bins: &[Bin]) -> Value {
    bins.iter()
        .map(|bin| json!({"bin": bin.label, "agreement": agreement_json(&bin.agreement)}))
        .collect()
}

fn estimate_json(estimate: &Estimate) -> Value {
    json!({"n": estimate.n, "mean": estimate.mean, "interval": interval_json(&estimate.interval)})
}

fn interval_json(interval: &Interval) -> Value {
    json!({
        "low": interval.low, "high": interval.high, "level": interval.level,
        "method": format!("percentile bootstrap ({})", interval.resamples),
    })
}
