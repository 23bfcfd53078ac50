//! The last steps and gradient changes, from which a quasi-Newton direction is computed without a
//! matrix.
//!
//! The compact form of Byrd, Nocedal and Schnabel (Mathematical Programming 63, 1994). One pass
//! over the history computes all inner products of an iteration, and a second computes the
//! direction.

use rayon::prelude::*;

use crate::linalg::{CHUNK, axpy, dot};

/// At most `capacity` pairs of vectors.
pub(super) struct History {
    capacity: usize,
    /// Steps, the oldest first.
    steps: Vec<Vec<f64>>,
    /// Changes of the gradient.
    changes: Vec<Vec<f64>>,
    /// `steps[i] · changes[j]` for i ≤ j.
    step_change: Vec<Vec<f64>>,
    /// `changes[i] · changes[j]`.
    change_change: Vec<Vec<f64>>,
    /// Inner product of step and change of the newest pair, from the line search.
    curvature: f64,
    scale: f64,
}

impl History {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            steps: Vec::new(),
            changes: Vec::new(),
            step_change: vec![vec![0.0; capacity]; capacity],
            change_change: vec![vec![0.0; capacity]; capacity],
            curvature: 0.0,
            scale: 1.0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.changes.clear();
        self.scale = 1.0;
    }

    /// Adds a pair; at capacity the oldest pair is dropped. `curvature` is `step · change`.
    pub(super) fn push(&mut self, step: &[f64], change: &[f64], curvature: f64) {
        // The memory of the dropped pair is reused.
        let (mut new_step, mut new_change) = if self.steps.len() == self.capacity {
            for i in 1..self.capacity {
                for j in 1..self.capacity {
                    self.step_change[i - 1][j - 1] = self.step_change[i][j];
                    self.change_change[i - 1][j - 1] = self.change_change[i][j];
                }
            }
            (self.steps.remove(0), self.changes.remove(0))
        } else {
            (Vec::new(), Vec::new())
        };
        new_step.clear();
        new_step.extend_from_slice(step);
        new_change.clear();
        new_change.extend_from_slice(change);
        self.steps.push(new_step);
        self.changes.push(new_change);
        self.curvature = curvature;
    }

    /// For every pair: the inner products of its step and of its change with the newest change and
    /// with the gradient. They are summed chunk by chunk, in order.
    fn products(&self, gradient: &[f64]) -> Vec<[f64; 4]> {
        let newest = self.changes.last().map_or(&[][..], Vec::as_slice);
        let parts: Vec<Vec<[f64; 4]>> = newest
            .par_chunks(CHUNK)
            .zip(gradient.par_chunks(CHUNK))
            .enumerate()
            .map(|(c, (newest, gradient))| {
                let chunk = c * CHUNK..c * CHUNK + newest.len();
                let pairs = self.steps.iter().zip(&self.changes);
                pairs
                    .map(|(step, change)| {
                        let (step, change) = (&step[chunk.clone()], &change[chunk.clone()]);
                        [
                            dot(step, newest),
                            dot(change, newest),
                            dot(step, gradient),
                            dot(change, gradient),
                        ]
                    })
                    .collect()
            })
            .collect();
        let mut sums = vec![[0.0; 4]; self.steps.len()];
        for part in parts {
            for (sum, values) in sums.iter_mut().zip(part) {
                for (sum, value) in sum.iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
        sums
    }

    /// Stores the inner products of the newest pair with the others.
    fn place(&mut self, products: &[[f64; 4]]) {
        let last = products.len() - 1;
        for (i, &[step, change, ..]) in products.iter().enumerate() {
            self.step_change[i][last] = step;
            self.change_change[i][last] = change;
            self.change_change[last][i] = change;
        }
        self.step_change[last][last] = self.curvature;
        self.scale = self.curvature / self.change_change[last][last];
    }

    /// Writes minus the inverse Hessian's estimate times the gradient into `out`. The history must
    /// not be empty.
    pub(super) fn direction(&mut self, gradient: &[f64], out: &mut [f64]) {
        let n = self.steps.len();
        let products = self.products(gradient);
        self.place(&products);
        // With R the upper triangle of step · change: a = R⁻¹ Sᵀg, b = R⁻ᵀ (D a + γ YᵀY a − γ Yᵀg).
        let mut a: Vec<f64> = products.iter().map(|p| p[2]).collect();
        for i in (0..n).rev() {
            for j in i + 1..n {
                a[i] -= self.step_change[i][j] * a[j];
            }
            a[i] /= self.step_change[i][i];
        }
        let mut b: Vec<f64> = (0..n)
            .map(|i| {
                let squares: f64 = (0..n).map(|j| self.change_change[i][j] * a[j]).sum();
                self.step_change[i][i] * a[i] + self.scale * (squares - products[i][3])
            })
            .collect();
        for i in 0..n {
            for j in 0..i {
                b[i] -= self.step_change[j][i] * b[j];
            }
            b[i] /= self.step_change[i][i];
        }
        let scale = self.scale;
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(c, out)| {
            let chunk = c * CHUNK..c * CHUNK + out.len();
            for (to, g) in out.iter_mut().zip(&gradient[chunk.clone()]) {
                *to = -scale * g;
            }
            for i in 0..n {
                axpy(-b[i], &self.steps[i][chunk.clone()], out);
                axpy(scale * a[i], &self.changes[i][chunk.clone()], out);
            }
        });
    }
}
