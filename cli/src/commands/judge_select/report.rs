//! What was measured, as data.

use std::time::Duration;

use isomer_eval::{
    selection::{self, Agreement, Bin, Estimate, RatedPair},
    stats::{self, Interval},
};
use serde_json::{Value, json};

use super::data::StsData;
use crate::{args::JudgeSelectArgs, exit::Failure};

/// Seconds over texts that were made now; what came from the cache took no time worth telling.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
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

    /// Seconds a text; `None` where all came from the cache.
    pub(super) fn per_text(&self) -> Option<f64> {
        (self.texts > 0).then(|| self.seconds / self.texts as f64)
    }

    fn json(&self) -> Value {
        json!({"per_text": self.per_text(), "timed_texts": self.texts})
    }
}

/// A judge against gold scores (step 1).
pub(super) struct JudgeResult {
    pub(super) id: String,
    /// By dataset, in order.
    pub(super) sets: Vec<(String, Agreement, Option<Interval>)>,
    /// By word count: dataset, bins; the first entry is all datasets together.
    pub(super) words: Vec<(String, Vec<Bin>)>,
    pub(super) gold: Vec<(String, Vec<Bin>)>,
    pub(super) failures: u64,
    pub(super) retried: u64,
    pub(super) clock: Clock,
    all: Vec<RatedPair>,
}

impl JudgeResult {
    pub(super) fn new(id: &str) -> Self {
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

    pub(super) fn time(&mut self, took: Duration, fresh: u64) {
        self.clock.add(took, fresh);
    }

    pub(super) fn add(&mut self, set: &str, pairs: Vec<RatedPair>, args: &JudgeSelectArgs) {
        let interval = selection::spearman_interval(&pairs, args.seed);
        self.sets.push((set.to_owned(), selection::agreement(&pairs), interval));
        self.words
            .push((set.to_owned(), selection::by_words(&pairs, &args.word_bins)));
        self.gold.push((set.to_owned(), selection::by_gold(&pairs)));
        self.all.extend(pairs);
    }

    /// Mean over the datasets; `None` where one of them has none.
    pub(super) fn mean(&self, of: impl Fn(&Agreement) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.sets.iter().map(|(_, agreement, _)| of(agreement)).collect();
        stats::mean(&values?)
    }

    /// What judges are ordered by.
    pub(super) fn order(&self) -> f64 {
        self.mean(|agreement| agreement.spearman).unwrap_or(f64::NEG_INFINITY)
    }

    /// Bins over all datasets together.
    pub(super) fn all_words(&self, edges: &[u32]) -> Vec<Bin> {
        selection::by_words(&self.all, edges)
    }

    /// Bins over all datasets together.
    pub(super) fn all_gold(&self) -> Vec<Bin> {
        selection::by_gold(&self.all)
    }
}

/// A judge's opinion of a paraphraser.
pub(super) struct JudgeScore {
    pub(super) judge: String,
    /// By dataset: name, mean rating.
    pub(super) sets: Vec<(String, Option<f64>)>,
    pub(super) mean: Option<Estimate>,
    /// Hodges-Lehmann estimate over the datasets' means and its interval; from two datasets on.
    pub(super) shift: Option<(f64, Interval)>,
    pub(super) unrated: usize,
    scores: Vec<f64>,
}

impl JudgeScore {
    pub(super) fn new(judge: &str) -> Self {
        Self {
            judge: judge.to_owned(),
            sets: Vec::new(),
            mean: None,
            shift: None,
            unrated: 0,
            scores: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, set: &str, scores: Vec<f64>, asked: usize) {
        self.sets.push((set.to_owned(), stats::mean(&scores)));
        self.unrated += asked - scores.len();
        self.scores.extend(scores);
    }

    pub(super) fn finish(&mut self, seed: u64) {
        self.mean = selection::estimate(&self.scores, seed);
        let means: Vec<f64> = self.sets.iter().filter_map(|(_, mean)| *mean).collect();
        if means.len() > 1 {
            let interval = stats::hodges_lehmann_bootstrap(&means, selection::RESAMPLES, selection::LEVEL, seed);
            self.shift = stats::hodges_lehmann(&means).zip(interval);
        }
    }
}

/// A paraphraser (step 2).
pub(super) struct ParaphraserResult {
    pub(super) id: String,
    pub(super) texts: usize,
    /// Texts whose attempts all failed a check.
    pub(super) failed: usize,
    /// By judge, the chosen one first.
    pub(super) scores: Vec<JudgeScore>,
    pub(super) edit_distance: Option<Estimate>,
    pub(super) clock: Clock,
}

impl ParaphraserResult {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            texts: 0,
            failed: 0,
            scores: Vec::new(),
            edit_distance: None,
            clock: Clock::default(),
        }
    }

    pub(super) fn time(&mut self, took: Duration, fresh: u64) {
        self.clock.add(took, fresh);
    }

    /// What paraphrasers are ordered by: the chosen judge's mean.
    pub(super) fn order(&self) -> f64 {
        let first = self.scores.first().and_then(|score| score.mean);
        first.map_or(f64::NEG_INFINITY, |estimate| estimate.mean)
    }
}

/// Everything.
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) transformation: String,
    pub(super) word_bins: Vec<u32>,
    /// Name, pairs used, pairs there are.
    pub(super) data: Vec<(String, usize, usize)>,
    /// Best first.
    pub(super) judges: Vec<JudgeResult>,
    /// Best first.
    pub(super) paraphrasers: Vec<ParaphraserResult>,
}

impl Report {
    pub(super) fn new(
        args: &JudgeSelectArgs,
        data: &[StsData],
        judges: Vec<JudgeResult>,
        paraphrasers: Vec<ParaphraserResult>,
    ) -> Self {
        Self {
            seed: args.seed,
            transformation: args.transformation.clone(),
            word_bins: args.word_bins.clone(),
            data: data
                .iter()
                .map(|set| (set.name.clone(), set.pairs.len(), set.of))
                .collect(),
            judges,
            paraphrasers,
        }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        let judges: Vec<Value> = self.judges.iter().map(|judge| self.judge_json(judge)).collect();
        let paraphrasers: Vec<Value> = self.paraphrasers.iter().map(paraphraser_json).collect();
        let data: Vec<Value> = self
            .data
            .iter()
            .map(|(name, pairs, of)| json!({"name": name, "pairs": pairs, "of": of}))
            .collect();
        let document = json!({
            "seed": self.seed,
            "scale": [selection::SCALE.0, selection::SCALE.1],
            "data": data,
            "judges": judges,
            "chosen_judge": self.judges.first().map(|judge| &judge.id),
            "transformation": self.transformation,
            "paraphrasers": paraphrasers,
        });
        serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::dependency(format!("cannot write the report: {error}")))
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
            "by_words": bins_json(&judge.all_words(&self.word_bins)),
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
