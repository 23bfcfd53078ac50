//! Multilabel classification by nearest neighbours.

use std::{collections::HashMap, fmt::Display, hash::Hash};

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::{
    LearnError, labels::Classes, metrics::MultilabelScores, neighbours::predict_of, random::NumpyGenerator,
    vectors::FiniteMatrix,
};

/// mteb's multilabel classification (`AbsTaskMultilabelClassification`). mteb scores a sample of
/// 2,000 test rows if the labels can be stratified. Lists of labels cannot, so all rows are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multilabel {
    /// Minimum number of rows per label, if there are that many.
    pub samples_per_label: usize,
    pub experiments: usize,
    /// Neighbours that vote.
    pub neighbours: usize,
}

impl Default for Multilabel {
    fn default() -> Self {
        Self {
            samples_per_label: 8,
            experiments: 10,
            neighbours: 5,
        }
    }
}

/// Every experiment's scores and their means.
#[derive(Debug, Clone, PartialEq)]
pub struct MultilabelReport {
    /// Means; `accuracy` is mteb's main score.
    pub mean: MultilabelScores,
    /// Scores of each experiment, in mteb's order.
    pub experiments: Vec<MultilabelScores>,
}

impl Multilabel {
    /// The train rows of every experiment. mteb uses one `default_rng(42)` per task for all splits
    /// and subsets, so pass the same `random` to all calls.
    pub fn selections<L: Eq + Hash>(&self, random: &mut NumpyGenerator, labels: &[Vec<L>]) -> Vec<Vec<usize>> {
        (0..self.experiments)
            .map(|_| {
                let mut order: Vec<usize> = (0..labels.len()).collect();
                random.shuffle(&mut order);
                let mut taken: HashMap<&L, usize> = HashMap::new();
                order.retain(|i| {
                    let wanted = labels[*i]
                        .iter()
                        .any(|l| taken.get(l).copied().unwrap_or(0) < self.samples_per_label);
                    if wanted {
                        for label in &labels[*i] {
                            *taken.entry(label).or_insert(0) += 1;
                        }
                    }
                    wanted
                });
                order
            })
            .collect()
    }

    /// Fits and scores; `train` and `test` contain a vector for every row of labels. The scored
    /// labels are those of the test rows.
    ///
    /// # Errors
    /// If vectors and labels do not match, there are no test labels, or fewer rows are selected
    /// than there are neighbours.
    pub fn score<L: Ord + Hash + Display + Sync>(
        &self,
        random: &mut NumpyGenerator,
        train: ArrayView2<'_, f32>,
        train_labels: &[Vec<L>],
        test: ArrayView2<'_, f32>,
        test_labels: &[Vec<L>],
    ) -> Result<MultilabelReport, LearnError> {
        let (train, test) = (
            FiniteMatrix::new("train vectors", train)?,
            FiniteMatrix::new("test vectors", test)?,
        );
        let (train, test) = (train.vectors(), test.vectors());
        train.check_labels("train labels", train_labels.len())?;
        test.check_labels("test labels", test_labels.len())?;
        let classes = Classes::of(test_labels.iter().flatten());
        if classes.len() == 0 || self.experiments == 0 {
            return Err(LearnError::Setting {
                name: "test labels × experiments",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        let truth = matrix(&classes, &test_labels.iter().collect::<Vec<_>>());
        let selections = self.selections(random, train_labels);
        let experiments: Result<Vec<MultilabelScores>, LearnError> = selections
            .par_iter()
            .map(|rows| {
                let of_rows: Vec<&Vec<L>> = rows.iter().map(|r| &train_labels[*r]).collect();
                let labels = matrix(&classes, &of_rows);
                let predicted = predict_of(train, rows, labels.view(), test, self.neighbours)?;
                Ok(MultilabelScores::new(truth.view(), predicted.view()))
            })
            .collect();
        let experiments = experiments?;
        Ok(MultilabelReport {
            mean: MultilabelScores::mean(&experiments),
            experiments,
        })
    }
}

/// The classes of each row; labels that are not a class are ignored.
fn matrix<L: Ord>(classes: &Classes<'_, L>, rows: &[&Vec<L>]) -> Array2<bool> {
    let mut has = Array2::from_elem((rows.len(), classes.len()), false);
    for (mut has, labels) in has.rows_mut().into_iter().zip(rows) {
        for class in labels.iter().filter_map(|label| classes.number(label)) {
            has[class] = true;
        }
    }
    has
}
