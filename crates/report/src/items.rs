//! `items.json`: the item-level data behind the scores of a run, so that two runs can be compared
//! without their vectors. It is stored with the report.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::Report;
use crate::{evidence::Evidence, task::ResultLists, terms::Scale};

/// Version of the format. The number increases when a field changes its meaning or is removed.
pub const ITEMS_SCHEMA: &str = "isomer.items/1";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunItems {
    /// [`ITEMS_SCHEMA`].
    pub schema: String,
    /// Id of the run.
    pub run: String,
    pub isomer_version: String,
    /// The reason why the file is otherwise empty; absent if it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// The reason why the texts are missing although the rest is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts_left_out: Option<String>,
    /// Distinct texts of the items.
    pub texts: Vec<String>,
    /// The data sets.
    pub datasets: Vec<ItemsOfDataset>,
    pub scores: Vec<ItemsOfScore>,
    /// The rewrites that a judge was asked about; empty without a judge, or without the texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<JudgedRewrite>,
}

/// A rewrite that a judge was asked about. Equal rewrites of a text by a transformation are one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedRewrite {
    /// Name with parameters.
    pub transformation: String,
    /// Position of the original in [`RunItems::texts`].
    pub original: u32,
    /// Position of the rewrite there.
    pub rewrite: u32,
    /// Ratings; a scale without a rating is absent.
    pub ratings: BTreeMap<Scale, f64>,
    /// Drift by encoder id: mean over data sets and seeds.
    pub drift: BTreeMap<String, f64>,
}

/// The items of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemsOfDataset {
    pub name: String,
    /// The cluster of each item: items that share a text.
    pub clusters: Vec<u32>,
    /// The original texts of the items, and the transformed ones.
    pub variants: Vec<ItemTexts>,
}

impl ItemsOfDataset {
    /// Whether clusters are numbered correctly: no number exceeds the number of items.
    fn is_consistent(&self) -> bool {
        self.clusters
            .iter()
            .all(|cluster| (*cluster as usize) < self.clusters.len())
    }
}

/// The texts of each item under a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemTexts {
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Seed; absent for the originals.
    pub seed: Option<u64>,
    /// Positions in [`RunItems::texts`].
    pub texts: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemsOfScore {
    /// Encoder id.
    pub encoder: String,
    /// Name of the data set.
    pub dataset: String,
    /// Name with parameters; absent for the originals.
    pub transformation: Option<String>,
    /// Seed; absent for the originals.
    pub seed: Option<u64>,
    /// Address of the score, as in the report.
    pub unit: String,
    /// The item-level data behind the main score; absent if there is none.
    pub evidence: Option<Evidence>,
    /// Result lists of retrieval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ResultLists>,
}

/// A score by its data set, transformation and seed.
pub(crate) type ScoreKey<'a> = (&'a str, Option<&'a str>, Option<u64>);

impl RunItems {
    /// An empty file, with the reason.
    pub fn none(run: &str, isomer_version: &str, why: String) -> Self {
        Self {
            schema: ITEMS_SCHEMA.to_owned(),
            run: run.to_owned(),
            isomer_version: isomer_version.to_owned(),
            left_out: Some(why),
            ..Self::default()
        }
    }

    pub(crate) fn of_encoder(&self, encoder: &str) -> HashMap<ScoreKey<'_>, &ItemsOfScore> {
        let own = self.scores.iter().filter(|one| one.encoder == encoder);
        own.map(|one| ((one.dataset.as_str(), one.transformation.as_deref(), one.seed), one))
            .collect()
    }

    pub(crate) fn dataset(&self, name: &str) -> Option<&ItemsOfDataset> {
        self.datasets.iter().find(|one| one.name == name)
    }

    /// The reason why these items do not belong to a report; `None` if they do.
    pub(crate) fn mismatch(&self, report: &Report) -> Option<String> {
        if self.run != report.run.id {
            return Some(format!(
                "they are those of run {}, and the report is of {}",
                self.run, report.run.id
            ));
        }
        if let Some(why) = &self.left_out {
            return Some(why.clone());
        }
        if let Some(own) = self.datasets.iter().find(|own| !own.is_consistent()) {
            return Some(format!("those of {} do not fit together", own.name));
        }
        let broken = |one: &&ItemsOfScore| one.evidence.as_ref().is_some_and(|evidence| !evidence.is_consistent());
        if let Some(one) = self.scores.iter().find(broken) {
            return Some(format!(
                "those of {} on {} do not fit together",
                one.encoder, one.dataset
            ));
        }
        let known: HashMap<(&str, ScoreKey<'_>), &str> = self
            .scores
            .iter()
            .map(|one| {
                let place = (one.dataset.as_str(), one.transformation.as_deref(), one.seed);
                ((one.encoder.as_str(), place), one.unit.as_str())
            })
            .collect();
        let lacking = report.scores.iter().find(|row| {
            let place = (row.dataset.as_str(), row.transformation.as_deref(), row.seed);
            known.get(&(row.encoder.as_str(), place)) != Some(&row.unit.as_str())
        });
        lacking.map(|row| {
            format!(
                "they lack those of {} on {}, or hold those of another score",
                row.encoder, row.dataset
            )
        })
    }
}

/// Reads an `items.json`.
///
/// # Errors
/// If it is not of this version ([`ITEMS_SCHEMA`]) or some part of it is invalid.
pub fn read_items(json: &[u8]) -> Result<RunItems, String> {
    super::versioned(json, "an items.json", ITEMS_SCHEMA)
}
