//! Distances to centres and their means, in f32 and in the order that numpy, OpenBLAS (on AVX2) and scikit-learn add.

use isomer_kernels::{PackedMatrix, gemm};

use crate::linalg::dispatched;

/// Centres laid out for finding the nearest.
pub(super) struct Assigner {
    packed: PackedMatrix,
    norms: Vec<f32>,
}

impl Assigner {
    pub(super) fn new(centres: &[f32], cols: usize) -> Self {
        Self {
            packed: PackedMatrix::pack(centres, centres.len() / cols, cols),
            norms: centres.chunks_exact(cols).map(squared_norm).collect(),
        }
    }

    /// The nearest centre of every row, the first of equally near ones.
    pub(super) fn nearest(&self, rows: &[f32]) -> Vec<usize> {
        let (n, clusters) = (rows.len() / self.packed.k(), self.norms.len());
        let mut products = vec![0.0; n * clusters];
        gemm(rows, n, &self.packed, None, &mut products);
        products
            .chunks_exact(clusters)
            .map(|products| {
                // ‖x‖² is the same for all centres and left out.
                let mut best = 0;
                let mut least = self.norms[0] - 2.0 * products[0];
                for cluster in 1..clusters {
                    let distance = self.norms[cluster] - 2.0 * products[cluster];
                    if distance < least {
                        least = distance;
                        best = cluster;
                    }
                }
                best
            })
            .collect()
    }
}

/// ‖v‖² in four lanes of four, as numpy's `einsum("ij,ij->i")` adds with SSE.
fn squared_norm(v: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 4];
    let (sixteens, rest) = v.as_chunks::<16>();
    for x in sixteens {
        for group in (0..4).rev() {
            for (lane, x) in lanes.iter_mut().zip(&x[group * 4..]) {
                *lane += x * x;
            }
        }
    }
    for x in rest.chunks(4) {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane += x * x;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

dispatched! {
    /// ‖a − b‖² in sixteen lanes.
    pub(super) fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0.0_f32; 16];
        let ((a16, a_rest), (b16, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
        for (x, y) in a16.iter().zip(b16) {
            for i in 0..16 {
                let d = x[i] - y[i];
                lanes[i] += d * d;
            }
        }
        for (i, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
            let d = x - y;
            lanes[i] += d * d;
        }
        lanes.iter().sum()
    }
}

/// Moves every centre to the mean of all vectors it ever got, weights counting those before this batch.
pub(super) fn update_centres(batch: &[f32], labels: &[usize], centres: &mut [f32], weights: &mut [f32], cols: usize) {
    let mut counts = vec![0.0_f32; weights.len()];
    for &label in labels {
        counts[label] += 1.0;
    }
    for ((centre, weight), count) in centres.chunks_exact_mut(cols).zip(&*weights).zip(&counts) {
        if *count > 0.0 {
            for value in centre {
                *value *= weight;
            }
        }
    }
    for (row, &label) in batch.chunks_exact(cols).zip(labels) {
        for (sum, value) in centres[label * cols..(label + 1) * cols].iter_mut().zip(row) {
            *sum += value;
        }
    }
    for ((centre, weight), count) in centres.chunks_exact_mut(cols).zip(weights).zip(counts) {
        if count > 0.0 {
            *weight += count;
            let share = 1.0 / *weight;
            for value in centre {
                *value *= share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_and_distances_are_those_of_the_definition_for_every_length() {
        for n in 0..70_usize {
            let a: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
            let b: Vec<f32> = (0..n).map(|i| (i as f32 * 0.21).cos()).collect();
            let norm: f64 = a.iter().map(|x| f64::from(*x).powi(2)).sum();
            let apart: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(x - y).powi(2)).sum();
            assert!((f64::from(squared_norm(&a)) - norm).abs() < 1e-5);
            assert!((f64::from(squared_distance(&a, &b)) - apart).abs() < 1e-5);
        }
    }

    #[test]
    fn a_centre_is_the_mean_of_all_it_got_and_stays_where_it_got_nothing() {
        let mut centres = vec![1.0, 1.0, 5.0, 5.0];
        let mut weights = vec![2.0, 7.0];
        update_centres(&[4.0, 1.0, 1.0, 7.0], &[0, 0], &mut centres, &mut weights, 2);
        assert_eq!(centres, [1.75, 2.5, 5.0, 5.0]);
        assert_eq!(weights, [4.0, 7.0]);
    }
}
