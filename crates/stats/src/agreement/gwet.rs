//! Gwet's AC1 and AC2.
//!
//! Sources: K. L. Gwet, "Computing inter-rater reliability and its variance in the presence of high
//! agreement" (2008); "Handbook of Inter-Rater Reliability", 4th edition (2014), sections 4.4 and
//! 5.3 (weights, missing ratings, variance over items with the raters held fixed).

use super::{Ratings, Weights};
use crate::{
    StatsError,
    error::level as check_level,
    special::{student_quantile, student_sf},
};

/// Agreement beyond chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GwetAgreement {
    /// AC1 with identity weights, AC2 with others; at most 1.
    pub coefficient: f64,
    /// Weighted share of agreeing pairs.
    pub observed: f64,
    pub chance: f64,
    /// Standard error over items.
    pub standard_error: f64,
    /// Interval by Student's t with items − 1 degrees of freedom; its upper end is at most 1.
    pub interval: (f64, f64),
    /// Level of the interval.
    pub level: f64,
    /// Two-sided p-value against no agreement beyond chance.
    pub p_value: f64,
}

/// Gwet's AC1 (identity weights) or AC2 (any other).
///
/// # Errors
/// If the level is outside (0, 1).
pub fn gwet(ratings: &Ratings, weights: Weights, level: f64) -> Result<GwetAgreement, StatsError> {
    check_level(level)?;
    let matrix = weights.matrix(ratings.categories());
    let rows = ratings.rows();
    let (n, q) = (rows.len() as f64, ratings.categories().len());
    let given: Vec<f64> = rows.iter().map(|row| row.iter().sum()).collect();

    // Weighted fraction of agreeing pairs of raters per item; 0 for items with one rating.
    let agreed: Vec<f64> = rows
        .iter()
        .zip(&given)
        .map(|(row, total)| {
            let sum: f64 = (0..q)
                .map(|k| {
                    let alike: f64 = (0..q).map(|l| matrix[k][l] * row[l]).sum();
                    row[k] * (alike - 1.0)
                })
                .sum();
            if *total < 2.0 {
                0.0
            } else {
                sum / (total * (total - 1.0))
            }
        })
        .collect();
    let twice = given.iter().filter(|total| **total >= 2.0).count() as f64;
    let observed = agreed.iter().sum::<f64>() / twice;

    let prevalence: Vec<f64> = (0..q)
        .map(|k| rows.iter().zip(&given).map(|(row, total)| row[k] / total).sum::<f64>() / n)
        .collect();
    let factor = matrix.iter().flatten().sum::<f64>() / (q * (q - 1)) as f64;
    let chance = factor * prevalence.iter().map(|p| p * (1.0 - p)).sum::<f64>();
    let coefficient = (observed - chance) / (1.0 - chance);

    // Each item's linearised contribution to the coefficient.
    let squares: f64 = rows
        .iter()
        .zip(&given)
        .zip(&agreed)
        .map(|((row, total), agreed)| {
            let own = if *total >= 2.0 {
                n / twice * (agreed - chance) / (1.0 - chance)
            } else {
                0.0
            };
            let by_chance = factor * (0..q).map(|k| row[k] * (1.0 - prevalence[k])).sum::<f64>() / total;
            let share = own - 2.0 * (1.0 - coefficient) * (by_chance - chance) / (1.0 - chance);
            (share - coefficient) * (share - coefficient)
        })
        .sum();
    let standard_error = (squares / (n * (n - 1.0))).sqrt();
    let freedom = n - 1.0;
    let half = student_quantile((1.0 + level) / 2.0, freedom) * standard_error;
    let p_value = if standard_error > 0.0 {
        2.0 * student_sf((coefficient / standard_error).abs(), freedom)
    } else if coefficient == 0.0 {
        1.0
    } else {
        0.0
    };
    Ok(GwetAgreement {
        coefficient,
        observed,
        chance,
        standard_error,
        interval: (coefficient - half, (coefficient + half).min(1.0)),
        level,
        p_value,
    })
}
