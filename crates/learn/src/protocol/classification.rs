//! Classification: ten fits on a few rows of each class, one fit on the whole train split, or
//! cross-validation.

use std::{collections::HashMap, fmt::Display};

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::{
    LearnError,
    labels::Classes,
    logistic::{LogisticRegression, Stop, TestRows},
    metrics::ClassificationScores,
    random::NumpyLegacy,
    vectors::{FiniteMatrix, Vectors},
};

/// mteb's classification: fits on a few rows of each class, several times
/// (`AbsTaskClassification`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FewShot {
    /// Rows of each class; 8 unless the task sets another number.
    pub samples_per_label: usize,
    pub experiments: usize,
    /// Seed of the selection.
    pub seed: u32,
    pub classifier: LogisticRegression,
}

impl Default for FewShot {
    fn default() -> Self {
        Self {
            samples_per_label: 8,
            experiments: 10,
            seed: 42,
            classifier: LogisticRegression::default(),
        }
    }
}

/// One fit and its scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Scores on the test rows.
    pub scores: ClassificationScores,
    /// Index of each test row's predicted label among all labels, sorted.
    pub predictions: Vec<usize>,
    pub iterations: usize,
    /// Why the fit stopped. A fit that did not converge is not an error, but should be reported.
    pub stop: Stop,
}

/// Every fit and the means.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassificationReport {
    /// Mean scores; `accuracy` is mteb's main score unless the task defines another.
    pub mean: ClassificationScores,
    /// The fits, in mteb's order.
    pub experiments: Vec<Experiment>,
}

impl ClassificationReport {
    fn new(experiments: Vec<Experiment>) -> Self {
        let scores: Vec<ClassificationScores> = experiments.iter().map(|e| e.scores).collect();
        Self {
            mean: ClassificationScores::mean(&scores),
            experiments,
        }
    }

    /// Number of fits that did not converge.
    pub fn not_converged(&self) -> usize {
        self.experiments.iter().filter(|e| !e.stop.converged()).count()
    }
}

/// Shuffles `order` in place with a fresh `RandomState(seed)` and takes positions from its front
/// while their label has fewer than `per_label`. mteb reuses the list for all experiments, so each
/// experiment shuffles it further.
///
/// # Panics
/// If `order` contains a position beyond `labels`.
pub fn undersample<L: Eq + std::hash::Hash>(
    labels: &[L],
    order: &mut [usize],
    per_label: usize,
    seed: u32,
) -> Vec<usize> {
    NumpyLegacy::new(seed).shuffle(order);
    let mut taken: HashMap<&L, usize> = HashMap::new();
    order
        .iter()
        .copied()
        .filter(|i| {
            let count = taken.entry(&labels[*i]).or_insert(0);
            *count += 1;
            *count <= per_label
        })
        .collect()
}

/// The train rows of each experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selections {
    /// Per experiment: train rows in the order in which they are fitted.
    pub experiments: Vec<Vec<usize>>,
    /// All rows that any experiment needs, ascending. Only these need encoding.
    pub rows: Vec<usize>,
}

impl FewShot {
    /// The rows of every experiment.
    pub fn selections<L: Eq + std::hash::Hash>(&self, train_labels: &[L]) -> Selections {
        let mut order: Vec<usize> = (0..train_labels.len()).collect();
        let experiments: Vec<Vec<usize>> = (0..self.experiments)
            .map(|_| undersample(train_labels, &mut order, self.samples_per_label, self.seed))
            .collect();
        let mut rows = experiments.concat();
        rows.sort_unstable();
        rows.dedup();
        Selections { experiments, rows }
    }

    /// Fits and scores. `train` contains a vector for every train label.
    ///
    /// # Errors
    /// If vectors and labels do not match, there is only one class, a test label has no train row,
    /// or there are no experiments.
    pub fn score<L: Ord + Eq + std::hash::Hash + Display + Sync>(
        &self,
        train: ArrayView2<'_, f32>,
        train_labels: &[L],
        test: ArrayView2<'_, f32>,
        test_labels: &[L],
    ) -> Result<ClassificationReport, LearnError> {
        let (train, test) = checked(train, test)?;
        let (train, test) = (train.vectors(), test.vectors());
        train.check_labels("train labels", train_labels.len())?;
        let selections = self.selections(train_labels);
        self.score_selections(train, train_labels, &selections.experiments, test, test_labels)
    }

    /// [`Self::score`] if only [`Selections::rows`] were encoded: `train` contains their vectors in
    /// that order.
    ///
    /// # Errors
    /// Those of [`Self::score`].
    pub fn score_needed<L: Ord + Eq + std::hash::Hash + Display + Sync>(
        &self,
        train: ArrayView2<'_, f32>,
        train_labels: &[L],
        test: ArrayView2<'_, f32>,
        test_labels: &[L],
    ) -> Result<ClassificationReport, LearnError> {
        let (train, test) = checked(train, test)?;
        let (train, test) = (train.vectors(), test.vectors());
        let selections = self.selections(train_labels);
        train.check_labels("train rows needed", selections.rows.len())?;
        let at: HashMap<usize, usize> = selections.rows.iter().enumerate().map(|(at, row)| (*row, at)).collect();
        let experiments: Vec<Vec<usize>> = selections
            .experiments
            .iter()
            .map(|rows| rows.iter().filter_map(|row| at.get(row).copied()).collect())
            .collect();
        let labels: Vec<&L> = selections.rows.iter().map(|row| &train_labels[*row]).collect();
        let test_labels: Vec<&L> = test_labels.iter().collect();
        self.score_selections(train, &labels, &experiments, test, &test_labels)
    }

    fn score_selections<L: Ord + Display + Sync>(
        &self,
        train: Vectors<'_>,
        train_labels: &[L],
        experiments: &[Vec<usize>],
        test: Vectors<'_>,
        test_labels: &[L],
    ) -> Result<ClassificationReport, LearnError> {
        let fits = Fits::new(train, train_labels, test, test_labels, self.classifier)?;
        if experiments.is_empty() || self.samples_per_label == 0 {
            return Err(LearnError::Setting {
                name: "experiments × samples_per_label",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        let done: Result<Vec<Experiment>, LearnError> =
            experiments.par_iter().map(|positions| fits.run(positions)).collect();
        Ok(ClassificationReport::new(done?))
    }
}

fn checked<'a>(
    train: ArrayView2<'a, f32>,
    test: ArrayView2<'a, f32>,
) -> Result<(FiniteMatrix<'a>, FiniteMatrix<'a>), LearnError> {
    Ok((
        FiniteMatrix::new("train vectors", train)?,
        FiniteMatrix::new("test vectors", test)?,
    ))
}

/// HTEB's classification: one fit on all train rows. Its three seeds have no effect, because the
/// solver makes no random draws.
///
/// # Errors
/// Those of [`FewShot::score`].
pub fn whole_train<L: Ord + Display + Sync>(
    train: ArrayView2<'_, f32>,
    train_labels: &[L],
    test: ArrayView2<'_, f32>,
    test_labels: &[L],
    classifier: LogisticRegression,
) -> Result<ClassificationReport, LearnError> {
    let (train, test) = checked(train, test)?;
    let (train, test) = (train.vectors(), test.vectors());
    train.check_labels("train labels", train_labels.len())?;
    let fits = Fits::new(train, train_labels, test, test_labels, classifier)?;
    let positions: Vec<usize> = (0..train.rows()).collect();
    Ok(ClassificationReport::new(vec![fits.run(&positions)?]))
}

/// Data shared by all fits on one pair of splits.
struct Fits<'a> {
    train: Vectors<'a>,
    train_classes: Vec<usize>,
    test: TestRows<'a>,
    test_classes: Vec<usize>,
    classes: usize,
    classifier: LogisticRegression,
}

impl<'a> Fits<'a> {
    fn new<L: Ord + Display>(
        train: Vectors<'a>,
        train_labels: &[L],
        test: Vectors<'a>,
        test_labels: &[L],
        classifier: LogisticRegression,
    ) -> Result<Self, LearnError> {
        test.check_labels("test labels", test_labels.len())?;
        test.check_width("test vectors", train.cols())?;
        let classes = Classes::of(train_labels);
        classes.check_several("train labels")?;
        classes.check_test(test_labels)?;
        Ok(Self {
            train,
            train_classes: classes.numbers(train_labels),
            test: TestRows::new(test),
            test_classes: classes.numbers(test_labels),
            classes: classes.len(),
            classifier,
        })
    }

    fn run(&self, positions: &[usize]) -> Result<Experiment, LearnError> {
        let of = |positions: &[usize]| positions.iter().map(|p| self.train_classes[*p]).collect::<Vec<_>>();
        fit_and_score(
            self.classifier,
            (self.train, positions, &of(positions)),
            &self.test,
            &self.test_classes,
            self.classes,
        )
    }
}

/// Fits rows that may lack some of the `classes` classes, and scores predictions among all of them.
fn fit_and_score(
    classifier: LogisticRegression,
    (train, positions, classes_of): (Vectors<'_>, &[usize], &[usize]),
    test: &TestRows<'_>,
    truth: &[usize],
    classes: usize,
) -> Result<Experiment, LearnError> {
    let present = Classes::of(classes_of);
    present.check_several("labels of the rows fitted")?;
    let model = classifier.fit_rows(train, positions, &present.numbers(classes_of), present.len())?;
    let names = present.into_inner();
    let predictions: Vec<usize> = model.predict_rows(test)?.into_iter().map(|p| *names[p]).collect();
    Ok(Experiment {
        scores: ClassificationScores::new(truth, &predictions, classes),
        predictions,
        iterations: model.iterations(),
        stop: model.stop(),
    })
}

/// mteb's cross-validation on one split (`is_cross_validation`): folds, with a few rows of each
/// class in each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossValidation {
    pub folds: usize,
    /// Settings of each fit; `experiments` is not used.
    pub few_shot: FewShot,
}

impl Default for CrossValidation {
    fn default() -> Self {
        Self {
            folds: 5,
            few_shot: FewShot::default(),
        }
    }
}

/// `KFold(folds, shuffle=True, random_state=seed)`: the test rows of each fold, ascending.
pub fn k_folds(rows: usize, folds: usize, seed: u32) -> Vec<Vec<usize>> {
    let order = NumpyLegacy::new(seed).permutation(rows);
    let mut start = 0;
    (0..folds)
        .map(|fold| {
            let size = rows / folds + usize::from(fold < rows % folds);
            let mut test = order[start..start + size].to_vec();
            test.sort_unstable();
            start += size;
            test
        })
        .collect()
}

impl CrossValidation {
    /// Fits and scores every fold.
    ///
    /// # Errors
    /// If vectors and labels do not match, there are fewer than two folds or fewer rows than folds,
    /// or there is only one class.
    pub fn score<L: Ord + Eq + std::hash::Hash + Display + Sync>(
        &self,
        vectors: ArrayView2<'_, f32>,
        labels: &[L],
    ) -> Result<ClassificationReport, LearnError> {
        let vectors = FiniteMatrix::new("vectors", vectors)?;
        let vectors = vectors.vectors();
        vectors.check_labels("labels", labels.len())?;
        if self.folds < 2 {
            return Err(LearnError::Setting {
                name: "folds",
                value: self.folds.to_string(),
                expected: "at least 2",
            });
        }
        if vectors.rows() < self.folds {
            return Err(LearnError::TooFew {
                what: "folds",
                needed: self.folds,
                found: vectors.rows(),
            });
        }
        let classes = Classes::of(labels);
        classes.check_several("labels")?;
        let classes_of = classes.numbers(labels);
        let few_shot = self.few_shot;
        // The shuffled list is that of the first fold's train rows; mteb reuses it for the other
        // folds.
        let mut order: Option<Vec<usize>> = None;
        let folds: Vec<(Vec<usize>, Vec<usize>)> = k_folds(vectors.rows(), self.folds, few_shot.seed)
            .into_iter()
            .map(|test| {
                let train: Vec<usize> = (0..vectors.rows()).filter(|r| test.binary_search(r).is_err()).collect();
                let order = order.get_or_insert_with(|| (0..train.len()).collect());
                let labels: Vec<usize> = train.iter().map(|r| classes_of[*r]).collect();
                let chosen = undersample(&labels, order, few_shot.samples_per_label, few_shot.seed);
                (chosen.into_iter().map(|i| train[i]).collect(), test)
            })
            .collect();
        let done: Result<Vec<Experiment>, LearnError> = folds
            .par_iter()
            .map(|(train, test)| {
                let of = |rows: &[usize]| rows.iter().map(|r| classes_of[*r]).collect::<Vec<_>>();
                let values = vectors.gather(test);
                fit_and_score(
                    few_shot.classifier,
                    (vectors, train, &of(train)),
                    &TestRows::new(Vectors::new(&values, vectors.cols())),
                    &of(test),
                    classes.len(),
                )
            })
            .collect();
        Ok(ClassificationReport::new(done?))
    }
}
