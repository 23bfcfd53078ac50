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
    /// Kind of task of each dataset: what splits in halves are stratified by.
    pub tasks: Vec<String>,
    /// Whether a dataset names a language other than English.
    pub multilingual: Vec<bool>,
}

impl Grid {
    /// An empty grid (NaN everywhere) of this layout.
    pub fn new(encoders: Vec<String>, datasets: Vec<String>, columns: Vec<Column>, seeds: Vec<u64>) -> Self {
        let seeded = vec![vec![f64::NAN; seeds.len()]; columns.len()];
        Self {
            original: vec![vec![f64::NAN; datasets.len()]; encoders.len()],
            transformed: vec![vec![seeded; datasets.len()]; encoders.len()],
            same_texts: vec![vec![false; columns.len()]; datasets.len()],
            tasks: vec![String::new(); datasets.len()],
            multilingual: vec![false; datasets.len()],
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

    /// The same grid over some of its datasets.
    pub fn select(&self, datasets: &[usize]) -> Self {
        fn of<T: Clone>(all: &[T], chosen: &[usize]) -> Vec<T> {
            chosen.iter().filter_map(|d| all.get(*d)).cloned().collect()
        }
        Self {
            encoders: self.encoders.clone(),
            datasets: of(&self.datasets, datasets),
            columns: self.columns.clone(),
            seeds: self.seeds.clone(),
            original: self.original.iter().map(|scores| of(scores, datasets)).collect(),
            transformed: self.transformed.iter().map(|scores| of(scores, datasets)).collect(),
            same_texts: of(&self.same_texts, datasets),
            tasks: of(&self.tasks, datasets),
            multilingual: of(&self.multilingual, datasets),
        }
    }

    /// Transformations of an axis.
    pub(super) fn columns_of(&self, axis: Axis) -> Vec<usize> {
        (0..self.columns.len())
            .filter(|c| self.columns[*c].axis == axis)
            .collect()
    }
}
