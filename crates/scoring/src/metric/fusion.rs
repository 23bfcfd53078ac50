//! Hybrid search: the hits of several searches as one list.
//!
//! Source: mteb 2.26.24 `models/hybrid_wrappers.py`. A document that a search has not found gets
//! nothing from it.

use std::collections::HashMap;

use super::search::{Hit, TieOrder};
use crate::stats::describe::population_sd;

/// The rank constant of reciprocal rank fusion.
const RANK_CONSTANT: f64 = 60.0;
/// Value of every document of a search whose scores do not differ.
const MIDDLE: f64 = 0.5;
/// Standard deviations from the mean to either end of the scale of distribution-based fusion.
const SPREAD: f64 = 3.0;
/// A standard deviation below it counts as 0.
const CONSTANT: f64 = 1e-9;

/// How the scores of a search become comparable with those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fusion {
    /// Reciprocal rank fusion.
    Rrf,
    /// Distribution-based score fusion.
    Dbsf,
    /// Relative score fusion.
    Rsf,
}

isomer_names::names!(Fusion { Rrf = "rrf", Dbsf = "dbsf", Rsf = "rsf" });

impl Fusion {
    /// The comparable value of a document in one list, for readers.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Rrf => "reciprocal ranks: 1 / (60 + rank)",
            Self::Dbsf => {
                "distribution-based: from three standard deviations below to three above the mean of the list's scores becomes 0 to 1"
            }
            Self::Rsf => "relative scores: the lowest score of the list becomes 0, the highest 1",
        }
    }

    /// Comparable values of the hits of one search, best first.
    fn values(self, hits: &[Hit]) -> Vec<f64> {
        let scores: Vec<f64> = hits.iter().map(|hit| f64::from(hit.score)).collect();
        match self {
            Self::Rrf => (1..=hits.len())
                .map(|rank| 1.0 / (RANK_CONSTANT + rank as f64))
                .collect(),
            Self::Dbsf => {
                let mean = scores.iter().sum::<f64>() / scores.len() as f64;
                let sd = population_sd(&scores).unwrap_or(0.0);
                if sd < CONSTANT {
                    return vec![MIDDLE; scores.len()];
                }
                let low = mean - SPREAD * sd;
                let value = |score: &f64| ((score - low) / (2.0 * SPREAD * sd)).clamp(0.0, 1.0);
                scores.iter().map(value).collect()
            }
            Self::Rsf => {
                let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
                let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if low == high {
                    return vec![MIDDLE; scores.len()];
                }
                scores.iter().map(|score| (score - low) / (high - low)).collect()
            }
        }
    }
}

/// The hits of one search, best first, and the weight of its values.
#[derive(Debug, Clone, Copy)]
pub struct WeightedHits<'a> {
    /// Each document at most once.
    pub hits: &'a [Hit],
    /// Factor of its values.
    pub weight: f64,
}

/// The `k` best documents of several searches for one query, best first.
pub fn fuse(searches: &[WeightedHits<'_>], fusion: Fusion, order: &TieOrder<'_>, k: usize) -> Vec<Hit> {
    let mut sums: HashMap<usize, f64> = HashMap::new();
    for search in searches {
        for (hit, value) in search.hits.iter().zip(fusion.values(search.hits)) {
            *sums.entry(hit.document).or_default() += search.weight * value;
        }
    }
    order.best(sums.into_iter(), k)
}
