//! The parts of a main score, item by item. They suffice to compute the score again for any weights
//! of the items, without vectors.
//!
//! An *item* corresponds to a row of a data set: a pair, a query, a test text, a document, a
//! summarised text. [`Evidence`] is kept with every score of a run. [`PreparedEvidence`] sorts it
//! once and then computes the score for any item weights in one pass over the items. Weights are
//! counts: weight 2 means that the row occurs twice, weight 0 that it is left out. With all weights
//! 1, the result is the main score itself.
//!
//! Two things are held fixed: the classifier is not fitted again on other train rows, and documents
//! are not clustered again. Other items of the data set would not change them. So weights give the
//! score on other items under the same classifier and the same clusters.
//!
//! * [`clusters`]: items that share a text are drawn together.
//! * [`resample`]: weights of a bootstrap resample.
//! * [`interval`]: computes an interval and a one-sided bound from resampled differences.
//! * `permuted`: the score relative to those of permuted labels.
//! * [`subset`]: the difference of two scores over some of the items.

mod agreement;
pub mod clusters;
pub mod interval;
mod permuted;
mod prepared_evidence;
mod rank_order;
pub mod resample;
pub mod subset;

use serde::{Deserialize, Serialize};

pub(crate) use permuted::{correlations_within, precisions_within};
pub use prepared_evidence::PreparedEvidence;

use crate::chance::Chance;

/// Number of decimals to which mteb rounds means over queries.
pub const MTEB_DECIMALS: u8 = 5;

/// The parts of a main score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// The score is the mean of the items' values: nDCG, average precision or reciprocal rank of a
    /// query, the fraction of fits that label a text correctly, or the correlation within a text.
    Mean {
        /// One value per item; `None` if the metric leaves the item out.
        values: Vec<Option<f64>>,
        /// Number of decimals to which mteb rounds the mean.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decimals: Option<u8>,
        /// The comparison of the score with those of permuted labels, which the values do not
        /// contain. Absent in evidence of versions that did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chance: Option<Chance>,
    },
    /// The score is Spearman's correlation of gold scores with similarities.
    Spearman {
        /// One gold score per point.
        gold: Vec<f64>,
        /// One similarity per point.
        predicted: Vec<f32>,
        /// Number of points of each item, in order; empty: one point per item.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        points: Vec<u32>,
    },
    /// The score is the average precision of a similarity, or the highest of several (mteb's
    /// `max_ap`). The highest is determined again for every weighting, as mteb would on those rows.
    AveragePrecision {
        /// Whether each item is positive.
        labels: Vec<bool>,
        /// One series per similarity, one value per item.
        similarities: Vec<Vec<f32>>,
    },
    /// The score is the V-measure, averaged over clusterings.
    VMeasure {
        /// The class of each item.
        classes: Vec<u32>,
        clusterings: Vec<Clustering>,
    },
    /// The score is the F1 of nearest neighbours as predictions (bitext): item i is correct if its
    /// nearest is i.
    Nearest {
        /// The nearest second text of each first text.
        nearest: Vec<u32>,
    },
}

/// One clustering of some items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clustering {
    pub items: Vec<u32>,
    pub clusters: Vec<u32>,
    /// How often each item was drawn into this clustering; empty: once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u32>,
}

impl Evidence {
    /// Evidence of a mean over items; NaN for items that the metric leaves out.
    pub fn mean(values: &[f64], decimals: Option<u8>) -> Self {
        Self::Mean {
            values: values.iter().map(|v| (!v.is_nan()).then_some(*v)).collect(),
            decimals,
            chance: None,
        }
    }

    /// Adds the known comparison with permuted labels. Only evidence of a mean stores it; other
    /// evidence contains its labels.
    #[must_use]
    pub fn with_chance(mut self, known: Option<Chance>) -> Self {
        if let Self::Mean { chance, .. } = &mut self {
            *chance = known;
        }
        self
    }

    pub fn items(&self) -> usize {
        match self {
            Self::Mean { values, .. } => values.len(),
            Self::Spearman { gold, points, .. } if points.is_empty() => gold.len(),
            Self::Spearman { points, .. } => points.len(),
            Self::AveragePrecision { labels, .. } => labels.len(),
            Self::VMeasure { classes, .. } => classes.len(),
            Self::Nearest { nearest } => nearest.len(),
        }
    }

    /// Number of points that scoring visits: the cost of a score.
    pub fn points(&self) -> usize {
        match self {
            Self::Spearman { gold, .. } => gold.len(),
            Self::AveragePrecision { labels, similarities } => labels.len() * similarities.len(),
            Self::VMeasure { clusterings, .. } => clusterings.iter().map(|one| one.items.len()).sum(),
            Self::Mean { .. } | Self::Nearest { .. } => self.items(),
        }
    }

    /// Whether its lists match. All other functions assume it; evidence from outside is checked
    /// first.
    pub fn is_consistent(&self) -> bool {
        match self {
            Self::Mean { .. } => true,
            Self::Spearman {
                gold,
                predicted,
                points,
            } => {
                let counted: u64 = points.iter().map(|own| u64::from(*own)).sum();
                gold.len() == predicted.len() && (points.is_empty() || counted == gold.len() as u64)
            }
            Self::AveragePrecision { labels, similarities } => {
                !similarities.is_empty() && similarities.iter().all(|series| series.len() == labels.len())
            }
            Self::VMeasure { classes, clusterings } => clusterings.iter().all(|one| {
                let counts = one.counts.is_empty() || one.counts.len() == one.items.len();
                let known = one.items.iter().all(|item| (*item as usize) < classes.len());
                counts && known && one.clusters.len() == one.items.len()
            }),
            Self::Nearest { nearest } => nearest.iter().all(|found| (*found as usize) < nearest.len()),
        }
    }

    /// The items on which the score depends: mteb's clustering scores a sample of the documents.
    pub fn used(&self) -> Vec<bool> {
        let Self::VMeasure { classes, clusterings } = self else {
            return vec![true; self.items()];
        };
        let mut used = vec![false; classes.len()];
        for item in clusterings.iter().flat_map(|one| &one.items) {
            if let Some(used) = used.get_mut(*item as usize) {
                *used = true;
            }
        }
        used
    }

    /// The score of these items, each counted as often as its weight. `None` if it is undefined on
    /// them.
    ///
    /// To score many weightings, sort once with [`PreparedEvidence::new`].
    pub fn score(&self, weights: &[f64]) -> Option<f64> {
        PreparedEvidence::new(self).score(weights)
    }

    /// The score of all items: the main score.
    pub fn whole(&self) -> Option<f64> {
        self.score(&vec![1.0; self.items()])
    }
}

#[cfg(test)]
mod tests;
