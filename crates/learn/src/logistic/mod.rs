//! Logistic regression as in scikit-learn 1.8 with `solver="lbfgs"`: the L2 penalty, the zero
//! start, the losses, the optimiser and its stopping rules. It stops where scikit-learn stops,
//! converged or not, because predictions depend on that.

mod binary;
mod history;
mod lbfgs;
mod line_search;
mod multinomial;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

pub use lbfgs::Stop;

use crate::{
    LearnError,
    linalg::{BLOCK, GROUP, RowBlocks, dot_f32},
    vectors::{FiniteMatrix, Vectors},
};
use binary::Binary;
use lbfgs::{Limits, Minimum, minimise};
use multinomial::{Multinomial, Shape, scores_of};

/// Settings of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogisticRegression {
    /// Inverse strength of the penalty.
    pub c: f64,
    pub max_iter: usize,
    /// Maximum element of the gradient that counts as zero.
    pub tol: f64,
}

impl Default for LogisticRegression {
    /// scikit-learn's defaults.
    fn default() -> Self {
        Self {
            c: 1.0,
            max_iter: 100,
            tol: 1e-4,
        }
    }
}

/// A fitted classifier.
#[derive(Debug, Clone)]
pub struct LogisticModel {
    weights: Weights,
    dimensions: usize,
    classes: usize,
    iterations: usize,
    evaluations: usize,
    loss: f64,
    stop: Stop,
}

#[derive(Debug, Clone)]
enum Weights {
    /// One weight per dimension, then the intercept; a positive score is class 1.
    Binary(Vec<f64>),
    Multinomial(Vec<f64>, Shape),
}

/// Rows to predict, prepared once for several models.
pub(crate) struct TestRows<'a> {
    vectors: Vectors<'a>,
    blocks: std::sync::OnceLock<RowBlocks>,
}

impl<'a> TestRows<'a> {
    /// Prepares rows to predict.
    pub(crate) fn new(vectors: Vectors<'a>) -> Self {
        Self {
            vectors,
            blocks: std::sync::OnceLock::new(),
        }
    }
}

impl LogisticRegression {
    /// Fits all vectors. `classes_of` contains a class in `0..classes` for each vector, and every
    /// class must occur.
    ///
    /// # Errors
    /// If a value is not finite, there is not one class per vector, a class is out of range, there
    /// are fewer than two classes, a class has no vectors, a setting is not positive, or values are
    /// so large that the loss overflows.
    pub fn fit(
        &self,
        vectors: ArrayView2<'_, f32>,
        classes_of: &[usize],
        classes: usize,
    ) -> Result<LogisticModel, LearnError> {
        let vectors = FiniteMatrix::new("train vectors", vectors)?;
        let vectors = vectors.vectors();
        vectors.check_labels("train labels", classes_of.len())?;
        let positions: Vec<usize> = (0..vectors.rows()).collect();
        self.fit_rows(vectors, &positions, classes_of, classes)
    }

    /// Fits the vectors at `positions`, in that order; `classes_of` contains a class for each
    /// position.
    ///
    /// # Errors
    /// Those of [`Self::fit`]; also if a position is out of range.
    pub(crate) fn fit_rows(
        &self,
        vectors: Vectors<'_>,
        positions: &[usize],
        classes_of: &[usize],
        classes: usize,
    ) -> Result<LogisticModel, LearnError> {
        self.check(vectors, positions, classes_of, classes)?;
        let penalty = 1.0 / (self.c * positions.len() as f64);
        let limits = Limits {
            gradient: self.tol,
            decrease: 64.0 * f64::EPSILON,
            iterations: self.max_iter,
            evaluations: 15_000,
            line_search: 50,
            memory: 10,
        };
        if classes == 2 {
            let mut loss = Binary::new(vectors, positions, classes_of, penalty);
            let end = minimise(&mut loss, vectors.cols() + 1, limits)?;
            return Ok(LogisticModel::new(vectors.cols(), classes, end, Weights::Binary));
        }
        let rows = RowBlocks::gather(vectors, positions);
        let mut loss = Multinomial::new(&rows, classes_of, classes, penalty);
        let shape = loss.shape();
        let end = minimise(&mut loss, shape.len(), limits)?;
        Ok(LogisticModel::new(vectors.cols(), classes, end, |x| {
            Weights::Multinomial(x, shape)
        }))
    }

    fn check(
        &self,
        vectors: Vectors<'_>,
        positions: &[usize],
        classes_of: &[usize],
        classes: usize,
    ) -> Result<(), LearnError> {
        if !(self.c > 0.0 && self.c.is_finite()) {
            return Err(LearnError::Setting {
                name: "c",
                value: self.c.to_string(),
                expected: "a positive number",
            });
        }
        if self.max_iter == 0 {
            return Err(LearnError::Setting {
                name: "max_iter",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        if positions.len() != classes_of.len() {
            return Err(LearnError::Labels {
                what: "train labels",
                expected: positions.len(),
                found: classes_of.len(),
            });
        }
        let within = |what, values: &[usize], limit| match values.iter().position(|v| *v >= limit) {
            Some(at) => Err(LearnError::OutOfRange {
                what,
                at,
                value: values[at],
                limit,
            }),
            None => Ok(()),
        };
        within("position", positions, vectors.rows())?;
        within("class", classes_of, classes)?;
        let mut seen = vec![false; classes];
        for &class in classes_of {
            seen[class] = true;
        }
        if let Some(missing) = seen.iter().position(|s| !s) {
            return Err(LearnError::ClassWithoutRows { class: missing });
        }
        if classes < 2 {
            return Err(LearnError::OneClass {
                what: "train labels",
                label: "class 0".to_owned(),
            });
        }
        Ok(())
    }
}

impl LogisticModel {
    fn new(dimensions: usize, classes: usize, end: Minimum, weights: impl FnOnce(Vec<f64>) -> Weights) -> Self {
        Self {
            weights: weights(end.x),
            dimensions,
            classes,
            iterations: end.iterations,
            evaluations: end.evaluations,
            loss: end.value,
            stop: end.stop,
        }
    }

    /// Iterations done (`n_iter_`).
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// Evaluations of loss and gradient.
    pub fn evaluations(&self) -> usize {
        self.evaluations
    }

    /// The mean loss with its penalty at the end of the fit.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Why the fit stopped; [`Stop::converged`] is false if scikit-learn would warn.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    pub fn classes(&self) -> usize {
        self.classes
    }

    /// `coef_`: one row of weights per class, or the single row of class 1 if there are two
    /// classes.
    pub fn coefficients(&self) -> Array2<f64> {
        match &self.weights {
            Weights::Binary(x) => Array2::from_shape_fn((1, self.dimensions), |(_, d)| x[d]),
            Weights::Multinomial(x, shape) => {
                Array2::from_shape_fn((self.classes, self.dimensions), |(class, d)| x[shape.at(class, d)])
            }
        }
    }

    /// `intercept_`: one value per row of [`Self::coefficients`].
    pub fn intercepts(&self) -> Vec<f64> {
        match &self.weights {
            Weights::Binary(x) => vec![x[self.dimensions]],
            Weights::Multinomial(x, shape) => (0..self.classes)
                .map(|class| x[shape.at(class, shape.groups * GROUP)])
                .collect(),
        }
    }

    /// The class of every vector; among equal scores, the first class.
    ///
    /// # Errors
    /// If the vectors have another width, or a value is not finite.
    pub fn predict(&self, vectors: ArrayView2<'_, f32>) -> Result<Vec<usize>, LearnError> {
        let vectors = FiniteMatrix::new("test vectors", vectors)?;
        self.predict_rows(&TestRows::new(vectors.vectors()))
    }

    /// [`Self::predict`] for rows that are shared by several models.
    ///
    /// # Errors
    /// If the vectors have another width.
    pub(crate) fn predict_rows(&self, rows: &TestRows<'_>) -> Result<Vec<usize>, LearnError> {
        rows.vectors.check_width("test vectors", self.dimensions)?;
        match &self.weights {
            Weights::Binary(x) => {
                let (weights, intercept) = (&x[..self.dimensions], x[self.dimensions]);
                Ok((0..rows.vectors.rows())
                    .into_par_iter()
                    .with_min_len(64)
                    .map(|row| usize::from(dot_f32(rows.vectors.row(row), weights) + intercept > 0.0))
                    .collect())
            }
            Weights::Multinomial(x, shape) => {
                let blocks = rows.blocks.get_or_init(|| RowBlocks::new(rows.vectors));
                let mut classes_of = vec![0; blocks.rows()];
                classes_of.par_chunks_mut(BLOCK).enumerate().for_each_init(
                    || (vec![0.0; BLOCK * shape.width()], Vec::new()),
                    |(scores, room), (block, out)| {
                        scores_of(blocks.widened(block, room), *shape, x, scores);
                        for (class, scores) in out.iter_mut().zip(scores.chunks(shape.width())) {
                            *class = first_largest(&scores[..shape.classes]);
                        }
                    },
                );
                Ok(classes_of)
            }
        }
    }
}

/// Position of the first largest value.
fn first_largest(scores: &[f64]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = class;
        }
    }
    best
}
