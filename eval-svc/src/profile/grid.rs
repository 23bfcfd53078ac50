//! Scores of a run, laid out.

use super::Axis;

/// A transformation as the profile sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name with parameters.
    pub label: String,
    /// Its axis.
    pub axis: Axis,
}

/// Main scores x 100, complete: every encoder on every dataset, original and under every transformation and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Encoder ids.
    pub encoders: Vec<String>,
    /// Dataset names.
    pub datasets: Vec<String>,
    /// Transformations.
    pub columns: Vec<Column>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// `[encoder][dataset]`.
    pub original: Vec<Vec<f64>>,
    /// `[encoder][dataset][transformation][seed]`.
    pub transformed: Vec<Vec<Vec<Vec<f64>>>>,
    /// `[dataset][transformation]`: whether all seeds gave the same texts.
    pub same_texts: Vec<Vec<bool>>,
}

impl Grid {
    /// An empty grid (NaN everywhere) of this layout.
    pub fn new(encoders: Vec<String>, datasets: Vec<String>, columns: Vec<Column>, seeds: Vec<u64>) -> Self {
        let seeded = vec![vec![f64::NAN; seeds.len()]; columns.len()];
        Self {
            original: vec![vec![f64::NAN; datasets.len()]; encoders.len()],
            transformed: vec![vec![seeded; datasets.len()]; encoders.len()],
            same_texts: vec![vec![false; columns.len()]; datasets.len()],
            encoders,
            datasets,
            columns,
            seeds,
        }
    }

    /// Axes that occur, in the order of the tables.
    pub fn axes(&self) -> Vec<Axis> {
        Axis::ALL
            .into_iter()
            .filter(|axis| self.columns.iter().any(|column| column.axis == *axis))
            .collect()
    }

    /// Transformations of an axis.
    pub(super) fn columns_of(&self, axis: Axis) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|c| self.columns[*c].axis == axis)
            .collect()
    }
}
