//! Normalised area under the abstention curve: does the retriever know when it fails?
//!
//! Source: arXiv 2402.12997 as implemented in mteb 2.20.0 `_evaluators/retrieval_metrics.py`. The
//! curve is the mean of a metric over the remaining queries when the least confident 0 %, 10 %, …,
//! 90 % are dropped. Its area is scaled between that of no abstention (0) and that of an oracle
//! which drops the worst queries first (1).

use crate::stats::{describe::population_sd, mean, pairwise_sum};

/// The retriever's confidence in a query's list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    /// Highest score.
    pub max: f64,
    /// Population standard deviation of the scores.
    pub std: f64,
    /// Highest score minus the second highest.
    pub diff1: f64,
}

/// Confidence from the scores of a query's retrieved documents, in any order.
pub fn confidence(scores: &[f64]) -> Confidence {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let max = sorted.first().copied().unwrap_or(0.0);
    let diff1 = sorted.get(1).map_or(0.0, |second| max - second);
    Confidence {
        max,
        std: population_sd(scores).unwrap_or(0.0),
        diff1,
    }
}

/// Normalised area under the abstention curve of a metric, at most 1. `None` if the oracle gains
/// nothing (every query scores the same, or there are none); mteb writes NaN in that case.
pub fn nauc(confidence: &[f64], metric: &[f64]) -> Option<f64> {
    if metric.is_empty() || confidence.len() != metric.len() {
        return None;
    }
    let curve = abstention_curve(confidence, metric)?;
    let oracle = abstention_curve(metric, metric)?;
    let flat = oracle[0] * (rate(RATES - 1) - rate(0));
    let (area, best) = (trapezoid(&curve), trapezoid(&oracle));
    // Compared exactly, like mteb: sums run in numpy's order so that values are equal in the same
    // cases.
    (best != flat).then(|| (area - flat) / (best - flat))
}

const RATES: usize = 10;

/// Abstention rates 0, 0.1, …, 0.9, with the rounding of `numpy.linspace(0, 1, 11)`.
fn rate(i: usize) -> f64 {
    i as f64 * 0.1
}

fn abstention_curve(confidence: &[f64], metric: &[f64]) -> Option<[f64; RATES]> {
    let mut order: Vec<usize> = (0..metric.len()).collect();
    order.sort_by(|&a, &b| (confidence[a] + 0.0).total_cmp(&(confidence[b] + 0.0)));
    let sorted: Vec<f64> = order.iter().map(|&i| metric[i]).collect();
    let mut curve = [0.0; RATES];
    for (i, point) in curve.iter_mut().enumerate() {
        let dropped = (rate(i) * sorted.len() as f64).round_ties_even() as usize;
        *point = mean(&sorted[dropped.min(sorted.len() - 1)..])?;
    }
    Some(curve)
}

fn trapezoid(curve: &[f64; RATES]) -> f64 {
    let areas: Vec<f64> = (1..RATES)
        .map(|i| (rate(i) - rate(i - 1)) * (curve[i] + curve[i - 1]) / 2.0)
        .collect();
    pairwise_sum(&areas)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn confidence_that_orders_queries_by_their_score_is_worth_one() {
        let metric: Vec<f64> = (0..50).map(|i| f64::from(i) / 50.0).collect();
        assert!((nauc(&metric, &metric).unwrap() - 1.0).abs() < 1e-12);
        let inverted: Vec<f64> = metric.iter().map(|m| -m).collect();
        assert!(nauc(&inverted, &metric).unwrap() < -0.9);
    }

    #[test]
    fn nothing_to_gain_is_undefined() {
        assert_eq!(nauc(&[0.1, 0.2, 0.3], &[0.0; 3]), None);
        assert_eq!(nauc(&[], &[]), None);
    }

    #[test]
    fn confidence_of_one_score_has_no_spread() {
        assert_eq!(
            confidence(&[0.5]),
            Confidence {
                max: 0.5,
                std: 0.0,
                diff1: 0.0
            }
        );
        assert_eq!(
            confidence(&[0.25, 0.75]),
            Confidence {
                max: 0.75,
                std: 0.25,
                diff1: 0.5
            }
        );
    }
}
