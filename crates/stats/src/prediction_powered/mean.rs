//! The prediction-powered mean and its normal interval, as in `ppi_py` 0.2.3.

use crate::{
    StatsError,
    error::{finite, paired, probability, sample},
    special::normal_quantile,
};

/// Labelled units with their predictions, and predictions of units without a label.
#[derive(Debug, Clone, Copy)]
pub struct PredictedSample<'a> {
    /// True values of labelled units.
    pub labels: &'a [f64],
    /// Predictions of the same units, in the same order.
    pub predictions: &'a [f64],
    /// Predictions of units without a label.
    pub unlabelled: &'a [f64],
}

/// The weight of the predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tuning {
    /// A fixed weight: 0 ignores the predictions, and 1 is prediction-powered inference without
    /// tuning.
    Fixed(f64),
    /// The weight from 0 to 1 with the smallest estimated variance (PPI++).
    Power,
}

/// A mean of labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionPoweredMean {
    /// Estimated mean of all units.
    pub estimate: f64,
    pub weight: f64,
    /// Standard error of the estimate.
    pub standard_error: f64,
}

impl PredictionPoweredMean {
    /// The one-sided lower bound at 1 − alpha by the normal law.
    ///
    /// # Errors
    /// If `alpha` is outside (0, 1).
    pub fn lower(&self, alpha: f64) -> Result<f64, StatsError> {
        probability("alpha", alpha)?;
        Ok(self.estimate - normal_quantile(1.0 - alpha) * self.standard_error)
    }
}

/// The mean of the labels of all units.
///
/// # Errors
/// If there are fewer than two labels or no unlabelled units, labels and predictions differ in
/// number, or a value is not finite.
pub fn prediction_powered_mean(
    sampled: PredictedSample<'_>,
    tuning: Tuning,
) -> Result<PredictionPoweredMean, StatsError> {
    let PredictedSample {
        labels,
        predictions,
        unlabelled,
    } = sampled;
    paired(labels, predictions, "a prediction-powered mean", 2)?;
    sample(
        "unlabelled",
        unlabelled,
        "a prediction-powered mean (unlabelled units)",
        1,
    )?;
    let weight = match tuning {
        Tuning::Fixed(weight) => {
            finite("weight", &[weight])?;
            weight
        }
        Tuning::Power => tuned(sampled),
    };
    let rectifier: Vec<f64> = labels.iter().zip(predictions).map(|(y, f)| y - weight * f).collect();
    let imputed: Vec<f64> = unlabelled.iter().map(|f| weight * f).collect();
    let variance = |values: &[f64]| covariance(values, values) / values.len() as f64;
    Ok(PredictionPoweredMean {
        estimate: mean(&imputed) + mean(&rectifier),
        weight,
        standard_error: (variance(&imputed) + variance(&rectifier)).sqrt(),
    })
}

/// The weight with the smallest variance; 0 for predictions that do not vary.
fn tuned(sampled: PredictedSample<'_>) -> f64 {
    let all: Vec<f64> = sampled.predictions.iter().chain(sampled.unlabelled).copied().collect();
    let spread = covariance(&all, &all) * all.len() as f64 / (all.len() - 1) as f64;
    if spread <= 0.0 {
        return 0.0;
    }
    let ratio = 1.0 + sampled.labels.len() as f64 / sampled.unlabelled.len() as f64;
    (covariance(sampled.labels, sampled.predictions) / (ratio * spread)).clamp(0.0, 1.0)
}

fn mean(values: &[f64]) -> f64 {
    crate::pairwise_sum(values) / values.len() as f64
}

/// Divided by the number of values.
fn covariance(x: &[f64], y: &[f64]) -> f64 {
    let (own, other) = (mean(x), mean(y));
    let products: Vec<f64> = x.iter().zip(y).map(|(a, b)| (a - own) * (b - other)).collect();
    mean(&products)
}
