//! Multilabel classification by nearest neighbours.

use std::{collections::HashMap, fmt::Display, hash::Hash};

use rayon::prelude::*;

use crate::{
    LearnError, Vectors,
    labels::Classes,
    metrics::{LabelMatrix, MultilabelScores},
    neighbours::predict_labels,
    random::NumpyGenerator,
};

/// mteb's multilabel classification (`AbsTaskMultilabelClassification`). mteb scores a sample of
/// 2,000 test rows if the labels can be stratified. Lists of labels cannot, so all rows are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multilabel {
    /// Fewest rows of each label, if there are that many.
    pub samples_per_label: usize,
    /// Number of fits.
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

    /// Fits and scores; `train` and `test` hold a vector for every row of labels. The labels scored
    /// are those of the test rows.
    ///
    /// # Errors
    /// If vectors and labels do not match, there are no test labels, or fewer rows are selected
    /// than there are neighbours.
    pub fn score<L: Ord + Hash + Display + Sync>(
        &self,
        random: &mut NumpyGenerator,
        train: Vectors<'_>,
        train_labels: &[Vec<L>],
        test: Vectors<'_>,
        test_labels: &[Vec<L>],
    ) -> Result<MultilabelReport, LearnError> {
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
        let truth = matrix(&classes, test_labels.iter());
        let selections = self.selections(random, train_labels);
        let experiments: Result<Vec<MultilabelScores>, LearnError> = selections
            .par_iter()
            .map(|rows| {
                let labels = matrix(&classes, rows.iter().map(|r| &train_labels[*r]));
                let predicted = predict_labels(train, rows, &labels, test, self.neighbours)?;
                Ok(MultilabelScores::new(&truth, &predicted))
            })
            .collect();
        let experiments = experiments?;
        Ok(MultilabelReport {
            mean: MultilabelScores::mean(&experiments),
            experiments,
        })
    }
}

/// Which of the classes each row has; labels that are not a class are left out.
fn matrix<'l, L: Ord + 'l>(classes: &Classes<'_, L>, rows: impl Iterator<Item = &'l Vec<L>>) -> LabelMatrix {
    let width = classes.len();
    let mut has = Vec::new();
    for labels in rows {
        let start = has.len();
        has.resize(start + width, false);
        for class in labels.iter().filter_map(|l| classes.number(l)) {
            has[start + class] = true;
        }
    }
    LabelMatrix { width, has }
}
