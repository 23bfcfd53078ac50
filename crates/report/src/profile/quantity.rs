//! The quantities that encoders are ranked and compared on.

use ndarray::Array2;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Grid,
    build::{axis_series, mean, total_series},
};

/// How much a quantity takes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The original texts.
    Original,
    /// Mean of the axes.
    Total,
    /// Mean of an axis' transformations.
    Axis,
    /// One transformation.
    Transformation,
}

/// A score that every encoder has on every data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quantity {
    /// How much it takes together.
    pub level: Level,
    /// `original`, `total`, the axis or the transformation with its parameters.
    pub name: String,
}

impl Quantity {
    fn new(level: Level, name: &str) -> Self {
        Self {
            level,
            name: name.to_owned(),
        }
    }

    pub(super) fn original() -> Self {
        Self::new(Level::Original, "original")
    }

    /// Every quantity computed from transformed texts: each axis and its transformations, then the
    /// total.
    pub(super) fn transformed(grid: &Grid) -> Vec<Self> {
        let mut all = Vec::new();
        for axis in grid.axes() {
            all.push(Self::new(Level::Axis, axis.name()));
            let own = grid.columns_of(axis).into_iter();
            all.extend(own.map(|c| Self::new(Level::Transformation, &grid.columns[c].label)));
        }
        all.extend(Self::total(grid));
        all
    }

    /// The total, where an axis counts.
    pub(super) fn total(grid: &Grid) -> Option<Self> {
        let counts = grid.columns.iter().any(|column| column.axis.in_total());
        counts.then(|| Self::new(Level::Total, "total"))
    }

    /// Score of an encoder on a dataset, seeds averaged first; NaN where the grid has no such
    /// quantity.
    pub(super) fn value(&self, grid: &Grid, e: usize, d: usize) -> f64 {
        match self.level {
            Level::Original => grid.original[e][d],
            Level::Total => mean(total_series(grid, e, d).unwrap_or_default().into_iter()),
            Level::Axis => match grid.axes().into_iter().find(|axis| axis.name() == self.name) {
                Some(axis) => mean(axis_series(grid, e, d, axis).into_iter()),
                None => f64::NAN,
            },
            Level::Transformation => match grid.columns.iter().position(|column| column.label == self.name) {
                Some(c) => mean(grid.transformed[e][d][c].iter().copied()),
                None => f64::NAN,
            },
        }
    }

    /// One row for each encoder, with one value for each dataset.
    pub(super) fn table(&self, grid: &Grid) -> Array2<f64> {
        let shape = (grid.encoders.len(), grid.datasets.len());
        Array2::from_shape_fn(shape, |(encoder, dataset)| self.value(grid, encoder, dataset))
    }
}
