//! Greedy k-means++: each new seed is the best of several draws.

use crate::{linalg::dot_f32_by_four, random::NumpyLegacy, vectors::Vectors};

/// Candidates whose distances are computed together for each row.
const TOGETHER: usize = 4;

/// Chooses `clusters` of the vectors at `positions` as first centres, row by row.
pub(super) fn seeds(vectors: Vectors<'_>, positions: &[usize], clusters: usize, random: &mut NumpyLegacy) -> Vec<f32> {
    let trials = 2 + (clusters as f64).ln() as usize;
    let n = positions.len();
    let distances = Distances::new(vectors, positions);
    let mut centres = Vec::with_capacity(clusters * vectors.cols());
    // scikit-learn passes f32 weights to numpy and divides them before numpy widens them.
    let first = random.choice_weighted(&vec![f64::from(1.0 / n as f32); n], 1)[0];
    centres.extend_from_slice(vectors.row(positions[first]));
    let mut closest = distances.to(&[first]).remove(0);
    let mut potential = sum(&closest);
    for _ in 1..clusters {
        let cumulated: Vec<f32> = closest
            .iter()
            .scan(0.0_f32, |sum, d| {
                *sum += d;
                Some(*sum)
            })
            .collect();
        let candidates: Vec<usize> = (0..trials)
            .map(|_| random.random_sample() * f64::from(potential))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|at| cumulated.partition_point(|c| f64::from(*c) < at).min(n - 1))
            .collect();
        let mut best: Option<(f32, usize, Vec<f32>)> = None;
        for (candidate, mut apart) in candidates.iter().zip(distances.to(&candidates)) {
            for (d, closest) in apart.iter_mut().zip(&closest) {
                *d = d.min(*closest);
            }
            let total = sum(&apart);
            if best.as_ref().is_none_or(|(least, _, _)| total < *least) {
                best = Some((total, *candidate, apart));
            }
        }
        if let Some((total, candidate, apart)) = best {
            potential = total;
            closest = apart;
            centres.extend_from_slice(vectors.row(positions[candidate]));
        }
    }
    centres
}

/// The sum, rounded once.
fn sum(values: &[f32]) -> f32 {
    values.iter().map(|v| f64::from(*v)).sum::<f64>() as f32
}

/// Squared distances within a set of vectors, computed in f64 and kept in f32.
struct Distances<'a> {
    vectors: Vectors<'a>,
    positions: &'a [usize],
    norms: Vec<f64>,
}

impl<'a> Distances<'a> {
    fn new(vectors: Vectors<'a>, positions: &'a [usize]) -> Self {
        let norm = |at: &usize| vectors.row(*at).iter().map(|v| f64::from(*v).powi(2)).sum();
        Self {
            vectors,
            positions,
            norms: positions.iter().map(norm).collect(),
        }
    }

    /// From each of `from` to every vector.
    fn to(&self, from: &[usize]) -> Vec<Vec<f32>> {
        let mut out = Vec::with_capacity(from.len());
        for some in from.chunks(TOGETHER) {
            let wide: Vec<Vec<f64>> = some
                .iter()
                .map(|at| {
                    self.vectors
                        .row(self.positions[*at])
                        .iter()
                        .map(|v| f64::from(*v))
                        .collect()
                })
                .collect();
            // Groups of fewer than four are filled with the last row.
            let four: [&[f64]; TOGETHER] = std::array::from_fn(|i| wide[i.min(wide.len() - 1)].as_slice());
            let start = out.len();
            out.resize_with(start + some.len(), || Vec::with_capacity(self.positions.len()));
            for (position, norm) in self.positions.iter().zip(&self.norms) {
                let products = dot_f32_by_four(self.vectors.row(*position), four);
                for ((column, at), product) in out[start..].iter_mut().zip(some).zip(products) {
                    let apart = -2.0 * product + self.norms[*at] + norm;
                    column.push((apart as f32).max(0.0));
                }
            }
        }
        out
    }
}
