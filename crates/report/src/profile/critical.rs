//! Significant differences between encoders over the datasets: Friedman's test, Nemenyi's critical
//! difference, letters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Grid, Level, Quantity};
use crate::stats::friedman::{friedman, nemenyi};

/// Level of the test and of the critical difference.
const ALPHA: f64 = 0.05;

/// An encoder among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EncoderGroup {
    /// Encoder id.
    pub encoder: String,
    /// Mean over datasets of its place, 1 the best.
    pub average_rank: f64,
    /// Encoders that share a letter do not differ significantly.
    pub letters: String,
}

/// Friedman's test over datasets, with all pairs after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FriedmanTest {
    /// On what the encoders are ranked.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Friedman's chi-squared, corrected for ties.
    pub statistic: Option<f64>,
    /// Its p-value; not adjusted over the quantities.
    pub p_value: Option<f64>,
    /// p-value of Iman and Davenport's F, the less conservative form.
    pub f_p_value: Option<f64>,
    /// Average ranks further apart than this differ (Nemenyi).
    pub critical_difference: Option<f64>,
    /// Level of the critical difference and of the letters.
    pub alpha: f64,
    /// Per encoder, best first.
    pub encoders: Vec<EncoderGroup>,
    /// Reason why the test is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// On the original texts, per axis and in total. None with fewer than three encoders or two
/// datasets.
pub(super) fn tests(grid: &Grid) -> Vec<FriedmanTest> {
    if grid.encoders.len() < 3 || grid.datasets.len() < 2 {
        return Vec::new();
    }
    std::iter::once(Quantity::original())
        .chain(Quantity::transformed(grid))
        .filter(|quantity| quantity.level != Level::Transformation)
        .map(|quantity| test(grid, quantity))
        .collect()
}

fn test(grid: &Grid, quantity: Quantity) -> FriedmanTest {
    let found = friedman(quantity.table(grid).view()).and_then(|test| Ok((nemenyi(&test, ALPHA)?, test)));
    match found {
        Ok((pairs, test)) => {
            let mut encoders: Vec<EncoderGroup> = grid
                .encoders
                .iter()
                .zip(&test.average_ranks)
                .zip(pairs.letters)
                .map(|((encoder, rank), letters)| EncoderGroup {
                    encoder: encoder.clone(),
                    average_rank: *rank,
                    letters,
                })
                .collect();
            encoders.sort_by(|a, b| a.average_rank.total_cmp(&b.average_rank));
            FriedmanTest {
                quantity,
                statistic: Some(test.statistic),
                p_value: Some(test.p_value),
                f_p_value: Some(test.f_p_value),
                critical_difference: Some(pairs.critical_difference),
                alpha: ALPHA,
                encoders,
                note: None,
            }
        }
        Err(error) => FriedmanTest {
            quantity,
            statistic: None,
            p_value: None,
            f_p_value: None,
            critical_difference: None,
            alpha: ALPHA,
            encoders: Vec::new(),
            note: Some(error.to_string()),
        },
    }
}
