//! Evidence, sorted once.

use super::{
    Evidence,
    agreement::Table,
    rank_order::{Points, RankOrder, weighted_pearson},
};
use crate::metric::rounding::round_decimals;

/// Evidence that scores a weighting of its items in one pass.
#[derive(Debug, Clone)]
pub struct PreparedEvidence<'a> {
    evidence: &'a Evidence,
    order: Order,
}

#[derive(Debug, Clone)]
enum Order {
    Nothing,
    /// Order of gold scores and similarities, and the item of each point.
    Spearman {
        gold: RankOrder,
        predicted: RankOrder,
        points: Points,
    },
    /// Order of each similarity, the highest first.
    Precision(Vec<RankOrder>),
    Tables(Vec<Table>),
}

impl<'a> PreparedEvidence<'a> {
    /// Sorts the evidence.
    pub fn new(evidence: &'a Evidence) -> Self {
        let order = match evidence {
            Evidence::Mean { .. } | Evidence::Nearest { .. } => Order::Nothing,
            Evidence::Spearman {
                gold,
                predicted,
                points,
            } => Order::Spearman {
                gold: RankOrder::ascending(gold),
                predicted: RankOrder::ascending(&widened(predicted)),
                points: Points::new(points, gold.len()),
            },
            Evidence::AveragePrecision { similarities, .. } => Order::Precision(
                similarities
                    .iter()
                    .map(|s| RankOrder::descending(&widened(s)))
                    .collect(),
            ),
            Evidence::VMeasure { classes, clusterings } => {
                Order::Tables(clusterings.iter().map(|one| Table::new(classes, one)).collect())
            }
        };
        Self { evidence, order }
    }

    /// Like [`Evidence::score`].
    pub fn score(&self, weights: &[f64]) -> Option<f64> {
        let score = match (self.evidence, &self.order) {
            (Evidence::Mean { values, decimals, .. }, _) => mean(values, *decimals, weights),
            (
                Evidence::Spearman { .. },
                Order::Spearman {
                    gold,
                    predicted,
                    points,
                },
            ) => {
                let weights = points.weights(weights);
                weighted_pearson(
                    &gold.average_ranks(&weights),
                    &predicted.average_ranks(&weights),
                    &weights,
                )
            }
            (Evidence::AveragePrecision { labels, .. }, Order::Precision(series)) => series
                .iter()
                .map(|ranked| ranked.average_precision(labels, weights))
                .reduce(|best, one| Some(best?.max(one?)))
                .flatten(),
            (Evidence::VMeasure { .. }, Order::Tables(tables)) => v_measure(tables, weights),
            (Evidence::Nearest { nearest }, _) => f1(nearest, weights),
            _ => None,
        };
        score.filter(|score| score.is_finite())
    }
}

pub(super) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

fn mean(values: &[Option<f64>], decimals: Option<u8>, weights: &[f64]) -> Option<f64> {
    // Summed from the left, like the metrics: a sum in another order may round to another decimal.
    let (mut sum, mut total) = (0.0, 0.0);
    for (value, weight) in values.iter().zip(weights) {
        if let Some(value) = value {
            sum += value * weight;
            total += weight;
        }
    }
    if total <= 0.0 {
        return None;
    }
    Some(match decimals {
        Some(decimals) => round_decimals(sum / total, usize::from(decimals)),
        None => sum / total,
    })
}

/// Mean over the clusterings that contain an item with weight.
pub(super) fn v_measure(tables: &[Table], weights: &[f64]) -> Option<f64> {
    let values: Vec<f64> = tables.iter().filter_map(|table| table.v_measure(weights)).collect();
    crate::stats::mean(&values)
}

/// scikit-learn's F1 weighted by support, with the items as classes (`metric::nearest`).
fn f1(nearest: &[u32], weights: &[f64]) -> Option<f64> {
    let mut predicted = vec![0.0; nearest.len()];
    for (prediction, weight) in nearest.iter().zip(weights) {
        *predicted.get_mut(*prediction as usize)? += weight;
    }
    let (mut sum, mut total) = (0.0, 0.0);
    for (item, (prediction, weight)) in nearest.iter().zip(weights).enumerate() {
        total += weight;
        if *prediction as usize == item && *weight > 0.0 {
            let precision = weight / predicted[item];
            sum += weight * 2.0 * precision / (precision + 1.0);
        }
    }
    (total > 0.0).then(|| sum / total)
}
