//! The judge of a report, and its ratings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Report,
    format::{fine, percent},
    relation::relate,
    stats,
};
use crate::terms::{ProbeResult, Scale};

/// A judge, its ratings, and how far the texts moved under each encoder against them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeReport {
    /// Its generator id.
    pub id: String,
    /// Digest of its weights, where known.
    pub digest: String,
    /// Seed of the draw of the texts and of the judge's sampling: the run's first.
    pub seed: u64,
    /// Maximum number of attempts per pair; the first is greedy.
    pub attempts: u32,
    /// Maximum number of texts rated per data set, transformation and seed; 0: all.
    pub sample: u32,
    /// Rated scales, with their prompts.
    pub scales: Vec<JudgedScale>,
    /// Generators of the texts that are the judge itself: it rated its own words.
    pub own_texts: Vec<String>,
    /// Number of ratings of each version of the model, as its server names it; empty where it names
    /// none.
    #[serde(default)]
    pub versions: BTreeMap<String, u64>,
    /// Ratings per scale and transformation, over data sets and of each where there are several.
    pub ratings: Vec<RatingRow>,
    /// Least similarity of a rewrite that is accepted; absent in reports of versions that accepted
    /// none.
    #[serde(default)]
    pub accept: Option<f64>,
    /// How the judge rated pairs whose rating is known, by kind; empty where similarity was not
    /// rated.
    #[serde(default)]
    pub probes: Vec<ProbeResult>,
    /// Why its acceptance is ignored: it does not distinguish the probes. Absent where it
    /// does.
    #[serde(default)]
    pub inseparable: Option<String>,
    /// Drift against ratings per scale, encoder and transformation, over data sets and of each that
    /// has enough texts.
    pub drift: Vec<DriftRating>,
}

/// A scale that was rated on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedScale {
    /// Rated scale.
    pub scale: Scale,
    /// Lowest rating.
    pub low: u8,
    /// Highest rating.
    pub high: u8,
    /// Prompt id and version.
    pub prompt_version: String,
    /// SHA-256 (hex) of the prompt.
    pub prompt_digest: String,
}

/// How what a transformation made is rated. Counts are of texts x seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RatingRow {
    /// On which scale.
    pub scale: Scale,
    /// Name with parameters.
    pub transformation: String,
    /// Dataset name; absent: over all of them.
    pub dataset: Option<String>,
    /// Texts that were to be transformed.
    pub asked: u64,
    /// Of these, those that stayed as they were: the checks failed, or the transformation left them
    /// alone. Not rated.
    pub unchanged: u64,
    /// Of those that changed, those that were drawn to be rated.
    pub drawn: u64,
    /// Of these, those for which no answer of the judge was a rating.
    pub unreadable: u64,
    /// Of these, those on which the judge failed.
    pub failed: u64,
    /// Of those with a rating, rewrites rated at or above the threshold; absent on scales other
    /// than similarity.
    #[serde(default)]
    pub accepted: Option<u64>,
    /// Distinct texts with a rating.
    pub texts: u64,
    /// Mean over these texts, a text's seeds averaged first.
    pub mean: Option<f64>,
    /// Sample standard deviation over these texts.
    pub sd: Option<f64>,
}

/// How far texts moved under an encoder against how they are rated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftRating {
    /// On which scale.
    pub scale: Scale,
    /// Encoder id.
    pub encoder: String,
    /// Name with parameters.
    pub transformation: String,
    /// Dataset name; absent: over all of them.
    pub dataset: Option<String>,
    /// Distinct texts with a rating and a drift, a text's seeds averaged first.
    pub texts: u64,
    /// Mean of their ratings on the scale.
    pub mean_rating: Option<f64>,
    /// Mean drift (1 − cosine) of these texts.
    pub mean_drift: Option<f64>,
    /// Spearman's rho of drift with rating over these texts; absent where there are too few or all
    /// are equal.
    pub spearman: Option<f64>,
    /// Lower end of its 95 % percentile bootstrap interval over texts (1,000 resamples).
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Resamples left out because the correlation is undefined on them.
    pub undefined_resamples: u64,
    /// Figures that could not be computed, with the reason.
    pub note: Option<String>,
}

impl Report {
    /// The ratings of a transformation's texts on a scale, over all data sets.
    pub fn rating_of(&self, scale: Scale, transformation: &str) -> Option<&RatingRow> {
        let mut rows = self.judge.iter().flat_map(|judge| &judge.ratings);
        rows.find(|row| row.scale == scale && row.transformation == transformation && row.dataset.is_none())
    }

    /// Scales that were rated on, in their order.
    pub fn judged_scales(&self) -> Vec<Scale> {
        let judged = self.judge.iter().flat_map(|judge| &judge.scales);
        judged.map(|judged| judged.scale).collect()
    }
}

impl DriftRating {
    /// Drift against ratings, with one value of each per text; the caller names encoder,
    /// transformation and data set.
    pub fn of(scale: Scale, drifts: &[f64], ratings: &[f64]) -> Self {
        let relation = relate(drifts, ratings);
        Self {
            scale,
            encoder: String::new(),
            transformation: String::new(),
            dataset: None,
            texts: relation.texts as u64,
            mean_rating: stats::mean(ratings),
            mean_drift: stats::mean(drifts),
            spearman: relation.spearman,
            low: relation.interval.map(|(low, _)| low),
            high: relation.interval.map(|(_, high)| high),
            undefined_resamples: relation.undefined_resamples as u64,
            note: relation.note,
        }
    }

    /// Remark that a reader of this row needs.
    pub(super) fn remark(&self) -> String {
        let resamples = match self.undefined_resamples {
            0 => None,
            n => Some(format!("{n} of 1,000 resamples have no correlation and are left out")),
        };
        let parts: Vec<String> = self.note.iter().cloned().chain(resamples).collect();
        parts.join("; ")
    }
}

impl RatingRow {
    /// `4.21 ± 0.63`, or a dash.
    pub fn rating_text(&self) -> String {
        match (self.mean, self.sd) {
            (Some(mean), Some(sd)) => format!("{} ± {}", fine(mean), fine(sd)),
            (Some(mean), None) => fine(mean),
            (None, _) => "–".to_owned(),
        }
    }
}

impl JudgeReport {
    /// The rated scale and the judge, in a sentence.
    pub fn sentence(&self) -> String {
        let scales: Vec<String> = self.scales.iter().map(|one| one.scale.title()).collect();
        let how_many = match self.sample {
            0 => "all texts".to_owned(),
            most => format!("at most {most} texts of each data set, transformation and seed"),
        };
        let rated = format!(
            "{} rated {how_many} that passed the checks and changed ({}).",
            self.id,
            scales.join("; ")
        );
        match self.acceptance() {
            Some(acceptance) => format!("{rated} {acceptance}"),
            None => rated,
        }
    }

    /// The least similarity of an accepted rewrite; `None` where the judge rated no similarity.
    pub(super) fn threshold_text(&self) -> Option<String> {
        let threshold = self.accept?;
        (!self.probes.is_empty()).then(|| fine(threshold))
    }

    /// Rewrites that the judge accepts, and those with a rating, over all data sets and
    /// transformations. `None` where it rated no similarity, or cannot be relied on.
    pub fn accepted(&self) -> Option<(u64, u64)> {
        if self.probes.is_empty() || self.inseparable.is_some() {
            return None;
        }
        let rows = self.ratings.iter().filter(|row| row.dataset.is_none());
        let counts = rows.filter_map(|row| Some((row.accepted?, row.drawn - row.unreadable - row.failed)));
        Some(counts.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1)))
    }

    /// How many rewrites the judge accepts, or why its ratings do not count, in a sentence; `None`
    /// where it rated no similarity.
    fn acceptance(&self) -> Option<String> {
        let threshold = self.threshold_text()?;
        if let Some(why) = &self.inseparable {
            return Some(format!(
                "No rewrite counts as accepted: on pairs whose rating is known, {why}."
            ));
        }
        let (accepted, rated) = self.accepted()?;
        Some(format!(
            "It distinguishes pairs of known rating, and accepts {accepted} of {rated} rated rewrites (similarity of at least {threshold})."
        ))
    }

    /// `acceptance` for the findings, with the share: whether what was scored keeps the
    /// meaning of the texts.
    pub(super) fn finding(&self) -> Option<String> {
        self.threshold_text()?;
        let Some((accepted, rated)) = self.accepted() else {
            return Some(format!(
                "Whether the rewrites keep the meaning is not known: the judge {} does not distinguish pairs of known rating.",
                self.id
            ));
        };
        (rated > 0).then(|| {
            format!(
                "The judge {} accepts {} of the rewrites that it rated ({accepted} of {rated}) as keeping the meaning.",
                self.id,
                percent(accepted as f64 / rated as f64)
            )
        })
    }
}
