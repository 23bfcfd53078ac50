//! Whether transformed texts rank the encoders as the original ones do (HTEB, table 4).

use ndarray::ArrayView2;
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
    /// Reason why it is absent.
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
    /// Their sample standard deviation over datasets; absent with one dataset, and with fewer than
    /// four encoders, of which tau takes so few values that a deviation says nothing. `reordered`
    /// then says what there is to say.
    pub sd: Option<f64>,
    /// Datasets with a tau.
    pub n: usize,
    /// Of these, datasets on which two encoders at least change places; absent in reports of
    /// versions that did not count them.
    #[serde(default)]
    pub reordered: Option<usize>,
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

/// Fewest encoders for which the deviation of tau is shown: with three, tau takes four values.
const LEAST_ENCODERS: usize = 4;

/// Taus per axis, transformation and in total. None with one encoder.
pub(super) fn stability(grid: &Grid) -> Vec<RankStability> {
    if grid.encoders.len() < 2 {
        return Vec::new();
    }
    let original = Quantity::original().table(grid);
    let quantities = Quantity::transformed(grid).into_iter();
    quantities
        .map(|quantity| one(grid, original.view(), quantity))
        .collect()
}

fn one(grid: &Grid, original: ArrayView2<'_, f64>, quantity: Quantity) -> RankStability {
    let scores = quantity.table(grid);
    let column = |table: ArrayView2<'_, f64>, d: usize| table.column(d).to_vec();
    let datasets: Vec<DatasetTau> = (0..grid.datasets.len())
        .map(|d| {
            let tau = stats::kendall_tau_b(&column(original, d), &column(scores.view(), d));
            DatasetTau {
                dataset: grid.datasets[d].clone(),
                note: tau.as_ref().err().map(ToString::to_string),
                tau: tau.ok(),
            }
        })
        .collect();
    let taus: Vec<f64> = datasets.iter().filter_map(|dataset| dataset.tau).collect();
    let changes =
        |d: &usize| datasets[*d].tau.is_some() && change_places(&column(original, *d), &column(scores.view(), *d));
    RankStability {
        axis: axis_of(grid, &quantity),
        tau: stats::mean(&taus),
        sd: stats::sample_sd(&taus).filter(|_| grid.encoders.len() >= LEAST_ENCODERS),
        n: taus.len(),
        reordered: Some((0..datasets.len()).filter(changes).count()),
        datasets,
        quantity,
    }
}

/// Whether two encoders are in one order before and in the other after. Two encoders with equal
/// scores have no order.
fn change_places(before: &[f64], after: &[f64]) -> bool {
    let pairs = (0..before.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs
        .into_iter()
        .any(|(i, j)| (before[i] - before[j]) * (after[i] - after[j]) < 0.0)
}

impl RankStability {
    /// `order changes on 2 of 6`; none of reports that did not count it.
    pub fn reordered_text(&self) -> Option<String> {
        let reordered = self.reordered.filter(|_| self.n > 0)?;
        Some(format!("order changes on {reordered} of {}", self.n))
    }
}

fn axis_of(grid: &Grid, quantity: &Quantity) -> Option<Axis> {
    match quantity.level {
        Level::Original | Level::Total => None,
        Level::Axis => Axis::SCORED.into_iter().find(|axis| axis.name() == quantity.name),
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
    let table = quantity.table(grid);
    let means: Vec<f64> = table.rows().into_iter().map(|row| -mean(row.iter().copied())).collect();
    stats::average_ranks(&means)
}
