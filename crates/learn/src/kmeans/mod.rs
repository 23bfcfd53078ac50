//! Mini-batch k-means as in scikit-learn 1.8 on f32 vectors (Sculley 2010; k-means++ of Arthur and
//! Vassilvitskii 2007 with local trials): the same draws from numpy's `RandomState`, the same
//! stopping rule, the same arithmetic in f32.
//!
//! scikit-learn 1.9 draws its mini-batches differently, so its labels differ for the same seed.

mod arithmetic;
mod nearest;
mod plus_plus;

use ndarray::{Array2, ArrayView2};

use crate::{
    LearnError,
    random::NumpyLegacy,
    vectors::{FiniteMatrix, Vectors},
};
use arithmetic::update_centres;
use nearest::{Nearest, squared_distance};

/// Settings; those that mteb does not set have scikit-learn's defaults (no tolerance, one
/// initialisation by k-means++).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MiniBatchKMeans {
    pub clusters: usize,
    /// Vectors of a mini-batch.
    pub batch_size: usize,
    /// Maximum number of passes over the data.
    pub max_iter: usize,
    /// The fit stops after this many mini-batches without improvement.
    pub max_no_improvement: usize,
    /// Clusters whose weight is less than this fraction of the largest one's are reassigned.
    pub reassignment_ratio: f32,
    /// Seed of `RandomState`.
    pub seed: u32,
}

impl MiniBatchKMeans {
    /// scikit-learn's defaults.
    pub const fn new(clusters: usize, batch_size: usize, seed: u32) -> Self {
        Self {
            clusters,
            batch_size,
            max_iter: 100,
            max_no_improvement: 10,
            reassignment_ratio: 0.01,
            seed,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// The cluster of each vector (`labels_`).
    pub labels: Vec<usize>,
    /// `cluster_centers_`, one row per cluster.
    pub centres: Array2<f32>,
    /// Mini-batches run (`n_steps_`).
    pub steps: usize,
}

impl MiniBatchKMeans {
    /// Clusters all vectors.
    ///
    /// # Errors
    /// If a value is not finite, there are fewer vectors than clusters, no clusters, or an empty
    /// batch.
    pub fn fit(&self, vectors: ArrayView2<'_, f32>) -> Result<Clusters, LearnError> {
        let positions: Vec<usize> = (0..vectors.nrows()).collect();
        self.fit_rows(vectors, &positions)
    }

    /// Clusters the vectors at `positions`, which may repeat; the labels are in the order of the
    /// positions.
    ///
    /// # Errors
    /// Those of [`Self::fit`]; also if a position is out of range.
    pub fn fit_rows(&self, vectors: ArrayView2<'_, f32>, positions: &[usize]) -> Result<Clusters, LearnError> {
        self.fit_vectors(FiniteMatrix::new("vectors", vectors)?.vectors(), positions)
    }

    /// [`Self::fit_rows`] for vectors that were checked.
    pub(crate) fn fit_vectors(&self, vectors: Vectors<'_>, positions: &[usize]) -> Result<Clusters, LearnError> {
        self.check(vectors, positions)?;
        let n = positions.len();
        let batch_size = self.batch_size.min(n);
        let mut random = NumpyLegacy::new(self.seed);
        let mut init_size = 3 * batch_size;
        if init_size < self.clusters {
            init_size = 3 * self.clusters;
        }
        let init_size = init_size.min(n);
        // scikit-learn draws a validation set, which has no effect with a single initialisation;
        // the draw keeps the random stream equal.
        random.positions(n, init_size);
        let init: Vec<usize> = if init_size < n {
            random
                .positions(n, init_size)
                .into_iter()
                .map(|i| positions[i])
                .collect()
        } else {
            positions.to_vec()
        };
        let mut centres = plus_plus::seeds(vectors, &init, self.clusters, &mut random);
        let mut run = Run {
            settings: self,
            batch_size,
            weights: vec![0.0; self.clusters],
            since_reassignment: 0,
            smoothed: None,
            least: None,
            without_improvement: 0,
            nearest: Nearest::default(),
            labels: Vec::new(),
        };
        let mut steps = 0;
        for step in 0..self.max_iter * n / batch_size {
            let mut batch = random.positions(n, batch_size);
            for at in &mut batch {
                *at = positions[*at];
            }
            let inertia = run.step(vectors, &batch, &mut centres, &mut random);
            steps = step + 1;
            if run.has_converged(step, n, inertia) {
                break;
            }
        }
        Ok(Clusters {
            labels: assign(vectors, positions, &centres),
            centres: Array2::from_shape_fn((self.clusters, vectors.cols()), |(cluster, d)| {
                centres[cluster * vectors.cols() + d]
            }),
            steps,
        })
    }

    fn check(&self, vectors: Vectors<'_>, positions: &[usize]) -> Result<(), LearnError> {
        for (name, value) in [
            ("clusters", self.clusters),
            ("batch_size", self.batch_size),
            ("max_iter", self.max_iter),
        ] {
            if value == 0 {
                return Err(LearnError::Setting {
                    name,
                    value: "0".to_owned(),
                    expected: "at least 1",
                });
            }
        }
        if let Some(at) = positions.iter().position(|p| *p >= vectors.rows()) {
            return Err(LearnError::OutOfRange {
                what: "position",
                at,
                value: positions[at],
                limit: vectors.rows(),
            });
        }
        if positions.len() < self.clusters {
            return Err(LearnError::TooFew {
                what: "clusters",
                needed: self.clusters,
                found: positions.len(),
            });
        }
        Ok(())
    }
}

/// The nearest centre of each position; a repeated position is computed once.
fn assign(vectors: Vectors<'_>, positions: &[usize], centres: &[f32]) -> Vec<usize> {
    let mut distinct: Vec<usize> = positions.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut found = Vec::new();
    Nearest::new(centres, vectors.cols()).of(vectors, &distinct, &mut found);
    let mut nearest = vec![0; vectors.rows()];
    for (row, label) in distinct.iter().zip(found) {
        nearest[*row] = label;
    }
    positions.iter().map(|p| nearest[*p]).collect()
}

/// The state kept from mini-batch to mini-batch.
struct Run<'s> {
    settings: &'s MiniBatchKMeans,
    batch_size: usize,
    /// For each centre, the number of vectors of which it is the mean.
    weights: Vec<f32>,
    since_reassignment: usize,
    smoothed: Option<f64>,
    least: Option<f64>,
    without_improvement: usize,
    /// Buffers of the assignment.
    nearest: Nearest,
    labels: Vec<usize>,
}

impl Run<'_> {
    /// Moves the centres by one mini-batch, given by its rows; returns its inertia before the move.
    fn step(&mut self, vectors: Vectors<'_>, batch: &[usize], centres: &mut [f32], random: &mut NumpyLegacy) -> f32 {
        let reassign = self.is_reassignment_due();
        let cols = vectors.cols();
        self.nearest.set(centres, cols);
        self.nearest.of(vectors, batch, &mut self.labels);
        let inertia = batch
            .iter()
            .zip(&self.labels)
            .map(|(row, label)| squared_distance(vectors.row(*row), &centres[label * cols..(label + 1) * cols]))
            .fold(0.0_f32, |sum, d| sum + d);
        update_centres(vectors, batch, &self.labels, centres, &mut self.weights);
        if reassign {
            self.reassign(vectors, batch, centres, random);
        }
        inertia
    }

    /// True once every ten vectors per cluster, and while a cluster is empty.
    fn is_reassignment_due(&mut self) -> bool {
        self.since_reassignment += self.batch_size;
        let due = self.weights.contains(&0.0) || self.since_reassignment >= 10 * self.settings.clusters;
        if due {
            self.since_reassignment = 0;
        }
        due
    }

    /// Moves light clusters onto vectors of the batch.
    fn reassign(&mut self, vectors: Vectors<'_>, batch: &[usize], centres: &mut [f32], random: &mut NumpyLegacy) {
        let ratio = self.settings.reassignment_ratio;
        if ratio <= 0.0 {
            return;
        }
        let heaviest = self.weights.iter().copied().fold(0.0, f32::max);
        let mut light: Vec<bool> = self.weights.iter().map(|w| *w < ratio * heaviest).collect();
        let (rows, cols) = (batch.len(), vectors.cols());
        let most = rows / 2;
        // scikit-learn compares with half the batch size as a fraction; half of an odd batch lies
        // between two counts.
        if light.iter().filter(|l| **l).count() * 2 > rows {
            // Among equal weights the first clusters move. numpy's sort orders equal values
            // depending on the processor's vector code, so with more clusters than half a
            // mini-batch scikit-learn itself differs from machine to machine.
            let mut order: Vec<usize> = (0..self.weights.len()).collect();
            order.sort_by(|a, b| self.weights[*a].total_cmp(&self.weights[*b]));
            for cluster in &order[most..] {
                light[*cluster] = false;
            }
        }
        let moved: Vec<usize> = (0..light.len()).filter(|c| light[*c]).collect();
        if moved.is_empty() {
            return;
        }
        for (cluster, row) in moved.iter().zip(random.choice_without_replacement(rows, moved.len())) {
            centres[cluster * cols..(cluster + 1) * cols].copy_from_slice(vectors.row(batch[row]));
        }
        let lightest_kept = (0..light.len())
            .filter(|c| !light[*c])
            .map(|c| self.weights[c])
            .fold(f32::INFINITY, f32::min);
        for cluster in moved {
            self.weights[cluster] = lightest_kept;
        }
    }

    /// Whether the smoothed inertia has not improved for too long. `step` counts from 0.
    fn has_converged(&mut self, step: usize, n: usize, inertia: f32) -> bool {
        let inertia = f64::from(inertia) / self.batch_size as f64;
        // The first inertia is that of the initialisation.
        if step == 0 {
            return false;
        }
        let smoothed = match self.smoothed {
            None => inertia,
            Some(before) => {
                let alpha = (self.batch_size as f64 * 2.0 / (n as f64 + 1.0)).min(1.0);
                before * (1.0 - alpha) + inertia * alpha
            }
        };
        self.smoothed = Some(smoothed);
        if self.least.is_none_or(|least| smoothed < least) {
            self.without_improvement = 0;
            self.least = Some(smoothed);
        } else {
            self.without_improvement += 1;
        }
        self.without_improvement >= self.settings.max_no_improvement
    }
}
