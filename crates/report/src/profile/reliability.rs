//! Whether a profile belongs to the encoders or to the choice of datasets (HTEB, table 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Grid, Level, Quantity};
use crate::stats::reliability::split_half_reliability;

/// Splits drawn (HTEB: 1000).
const SPLITS: usize = 1_000;
const SEED: u64 = 1337;

/// How alike two task-stratified halves of the datasets rank the encoders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SplitHalf {
    /// On what the encoders are ranked.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Median of Spearman's correlation over the splits.
    pub median: Option<f64>,
    /// 2.5 % quantile over the splits: how much depends on the split, no confidence interval.
    pub low: Option<f64>,
    /// 97.5 % quantile.
    pub high: Option<f64>,
    /// Splits with a correlation.
    pub splits: usize,
    /// Splits without one, because a half scores all encoders alike.
    pub undefined: usize,
    /// Reason why the median is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Per axis, in total and, to compare with, on the original texts. None with fewer than three
/// encoders or two datasets.
pub(super) fn split_half(grid: &Grid) -> Vec<SplitHalf> {
    if grid.encoders.len() < 3 || grid.datasets.len() < 2 {
        return Vec::new();
    }
    let quantities = std::iter::once(Quantity::original())
        .chain(Quantity::transformed(grid))
        .filter(|quantity| quantity.level != Level::Transformation);
    quantities
        .map(
            |quantity| match split_half_reliability(quantity.table(grid).view(), &grid.tasks, SPLITS, SEED) {
                Ok(found) => SplitHalf {
                    quantity,
                    median: Some(found.median),
                    low: Some(found.spread.0),
                    high: Some(found.spread.1),
                    splits: found.splits,
                    undefined: found.undefined,
                    note: None,
                },
                Err(error) => SplitHalf {
                    quantity,
                    median: None,
                    low: None,
                    high: None,
                    splits: 0,
                    undefined: 0,
                    note: Some(error.to_string()),
                },
            },
        )
        .collect()
}
