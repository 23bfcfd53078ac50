//! Whether transformed texts rank the encoders as the original ones do (HTEB, table 4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Axis, Grid, Level, Quantity, build::mean};
use crate::stats;

/// Kendall's tau-b of one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetTau {
    /// Dataset name.
    pub dataset: String,
    /// Tau-b between the encoders' original and transformed scores, seeds averaged first.
    pub tau: Option<f64>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How well a ranking of encoders survives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankStability {
    /// Under what.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Its axis; absent for the total.
    pub axis: Option<Axis>,
    /// Mean of the datasets' taus.
    pub tau: Option<f64>,
    /// Their sample standard deviation; absent with one dataset.
    pub sd: Option<f64>,
    /// Datasets with a tau.
    pub n: usize,
    /// Per dataset.
    pub datasets: Vec<DatasetTau>,
}

/// Place of an encoder under one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankUnder {
    /// Under what.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// 1 is best; encoders with equal means share the mean of their places.
    pub rank: f64,
    /// Places gained (positive) or lost against the original texts.
    pub gained: f64,
}

/// Places of an encoder by its mean over datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankShift {
    /// Encoder id.
    pub encoder: String,
    /// Place on the original texts.
    pub original: f64,
    /// Places under transformation.
    pub under: Vec<RankUnder>,
}

/// Taus per axis, transformation and in total. None with one encoder.
pub(super) fn stability(grid: &Grid) -> Vec<RankStability> {
    if grid.encoders.len() < 2 {
        return Vec::new();
    }
    let original = Quantity::original().table(grid);
    let quantities = Quantity::transformed(grid).into_iter();
    quantities.map(|quantity| one(grid, &original, quantity)).collect()
}

fn one(grid: &Grid, original: &[Vec<f64>], quantity: Quantity) -> RankStability {
    let scores = quantity.table(grid);
    let column = |table: &[Vec<f64>], d: usize| table.iter().map(|series| series[d]).collect::<Vec<f64>>();
    let datasets: Vec<DatasetTau> = (0..grid.datasets.len())
        .map(|d| {
            let tau = stats::kendall_tau_b(&column(original, d), &column(&scores, d));
            DatasetTau {
                dataset: grid.datasets[d].clone(),
                note: tau.as_ref().err().map(ToString::to_string),
                tau: tau.ok(),
            }
        })
        .collect();
    let taus: Vec<f64> = datasets.iter().filter_map(|dataset| dataset.tau).collect();
    RankStability {
        axis: axis_of(grid, &quantity),
        tau: stats::mean(&taus),
        sd: stats::sample_sd(&taus),
        n: taus.len(),
        datasets,
        quantity,
    }
}

fn axis_of(grid: &Grid, quantity: &Quantity) -> Option<Axis> {
    match quantity.level {
        Level::Original | Level::Total => None,
        Level::Axis => Axis::ALL.into_iter().find(|axis| axis.name() == quantity.name),
        Level::Transformation => grid
            .columns
            .iter()
            .find(|column| column.label == quantity.name)
            .map(|column| column.axis),
    }
}

/// Places by the mean over datasets. None with one encoder.
pub(super) fn shifts(grid: &Grid) -> Vec<RankShift> {
    if grid.encoders.len() < 2 {
        return Vec::new();
    }
    let original = places(grid, &Quantity::original());
    let under: Vec<(Quantity, Vec<f64>)> = Quantity::transformed(grid)
        .into_iter()
        .map(|quantity| {
            let places = places(grid, &quantity);
            (quantity, places)
        })
        .collect();
    let of = |e: usize| RankShift {
        encoder: grid.encoders[e].clone(),
        original: original[e],
        under: under
            .iter()
            .map(|(quantity, places)| RankUnder {
                quantity: quantity.clone(),
                rank: places[e],
                gained: original[e] - places[e],
            })
            .collect(),
    };
    (0..grid.encoders.len()).map(of).collect()
}

fn places(grid: &Grid, quantity: &Quantity) -> Vec<f64> {
    let means: Vec<f64> = quantity
        .table(grid)
        .into_iter()
        .map(|series| -mean(series.into_iter()))
        .collect();
    stats::average_ranks(&means)
}
