//! The nearest centre of each row. Rows are read in place. Centres are stored in panels of eight,
//! one column per centre, so that a step of the inner loop multiplies one number of each of eight
//! rows with eight centres.

use rayon::prelude::*;

use crate::{linalg::dispatched, vectors::Vectors};

/// Rows processed together. Eight sums, the panel's row and eight addresses stay in registers.
const GROUP: usize = 8;
/// Centres of a panel.
const LANES: usize = 8;
/// Minimum number of products for which other cores are used.
const TOGETHER: usize = 1 << 23;
/// Rows that a core processes at a time.
const ROWS: usize = 8 * GROUP;

/// Centres in the layout of the search.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    /// `[panel][dimension][centre]`.
    panels: Vec<f32>,
    /// ‖c‖²; infinite for columns without a centre.
    norms: Vec<f32>,
    cols: usize,
}

impl Nearest {
    pub(super) fn new(centres: &[f32], cols: usize) -> Self {
        let mut nearest = Self::default();
        nearest.set(centres, cols);
        nearest
    }

    /// Replaces the centres, in the same memory.
    pub(super) fn set(&mut self, centres: &[f32], cols: usize) {
        let columns = (centres.len() / cols).next_multiple_of(LANES);
        self.cols = cols;
        self.panels.clear();
        self.panels.resize(columns * cols, 0.0);
        self.norms.clear();
        self.norms.resize(columns, f32::INFINITY);
        for (number, centre) in centres.chunks_exact(cols).enumerate() {
            let panel = &mut self.panels[number / LANES * LANES * cols..];
            for (to, value) in panel.iter_mut().skip(number % LANES).step_by(LANES).zip(centre) {
                *to = *value;
            }
            self.norms[number] = squared_norm(centre);
        }
    }

    /// The nearest centre of every given row; the first one among equally near centres.
    pub(super) fn of(&self, vectors: Vectors<'_>, rows: &[usize], labels: &mut Vec<usize>) {
        labels.clear();
        labels.resize(rows.len(), 0);
        let some = |labels: &mut [usize], rows: &[usize]| {
            for (labels, rows) in labels.chunks_mut(GROUP).zip(rows.chunks(GROUP)) {
                self.group(vectors, rows, labels);
            }
        };
        if rows.len() * self.panels.len() < TOGETHER {
            return some(labels, rows);
        }
        labels
            .par_chunks_mut(ROWS)
            .zip(rows.par_chunks(ROWS))
            .for_each(|(labels, rows)| some(labels, rows));
    }

    /// Handles up to [`GROUP`] rows.
    fn group(&self, vectors: Vectors<'_>, rows: &[usize], labels: &mut [usize]) {
        // An incomplete group repeats its last row.
        let group: [&[f32]; GROUP] = std::array::from_fn(|i| vectors.row(rows[i.min(rows.len() - 1)]));
        let mut least = [f32::INFINITY; GROUP];
        let panels = self.panels.chunks_exact(LANES * self.cols);
        for (number, (panel, norms)) in panels.zip(self.norms.chunks_exact(LANES)).enumerate() {
            let products = products(&group, panel);
            for ((label, least), products) in labels.iter_mut().zip(&mut least).zip(&products) {
                for (lane, (norm, product)) in norms.iter().zip(products).enumerate() {
                    // ‖x‖² is the same for all centres, so it is omitted.
                    let distance = norm - 2.0 * product;
                    if distance < *least {
                        *least = distance;
                        *label = number * LANES + lane;
                    }
                }
            }
        }
    }
}

/// Every row of a group times every centre of a panel; products are added in the order of the
/// dimensions.
fn products(rows: &[&[f32]; GROUP], panel: &[f32]) -> [[f32; LANES]; GROUP] {
    let cols = panel.len() / LANES;
    assert!(rows.iter().all(|row| row.len() == cols));
    #[cfg(target_arch = "x86_64")]
    if isomer_kernels::has_avx2_and_fma() {
        // SAFETY: the processor has AVX2 and FMA, and the sizes were checked.
        return unsafe { avx2::products(rows.map(<[f32]>::as_ptr), panel.as_ptr(), cols) };
    }
    portable(rows, panel)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));
#[cfg(all(not(test), target_arch = "x86_64"))]
const FUSED: bool = false;

fn portable(rows: &[&[f32]; GROUP], panel: &[f32]) -> [[f32; LANES]; GROUP] {
    let mut sums = [[0.0_f32; LANES]; GROUP];
    for (d, centres) in panel.as_chunks::<LANES>().0.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            for (sum, centre) in sums.iter_mut().zip(centres) {
                *sum = if FUSED {
                    row[d].mul_add(*centre, *sum)
                } else {
                    *sum + row[d] * centre
                };
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };

    use super::{GROUP, LANES};

    /// # Safety
    /// The caller guarantees that `cols` numbers can be read from every row and `cols` rows of
    /// [`LANES`] from the panel, and that AVX2 and FMA exist.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn products(rows: [*const f32; GROUP], panel: *const f32, cols: usize) -> [[f32; LANES]; GROUP] {
        let mut out = [[0.0; LANES]; GROUP];
        // SAFETY: every offset is below the sizes that the caller guarantees.
        unsafe {
            let mut sums = [_mm256_setzero_ps(); GROUP];
            for d in 0..cols {
                let centres = _mm256_loadu_ps(panel.add(d * LANES));
                for r in 0..GROUP {
                    sums[r] = _mm256_fmadd_ps(_mm256_broadcast_ss(&*rows[r].add(d)), centres, sums[r]);
                }
            }
            for (to, sum) in out.iter_mut().zip(sums) {
                _mm256_storeu_ps(to.as_mut_ptr(), sum);
            }
        }
        out
    }
}

/// ‖v‖² in four lanes, added in the order of numpy's `einsum("ij,ij->i")` with SSE.
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
        // If the compiler saw the lanes together with the sum below, it would shuffle them in the
        // loop above.
        let mut lanes = std::hint::black_box(lanes);
        for (i, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
            let d = x - y;
            lanes[i] += d * d;
        }
        lanes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn numbers(n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|i| (i as f32 * scale).sin()).collect()
    }

    #[test]
    fn norms_and_distances_are_those_of_the_definition_for_every_length() {
        for n in 0..70_usize {
            let a = numbers(n, 0.37);
            let b: Vec<f32> = (0..n).map(|i| (i as f32 * 0.21).cos()).collect();
            let norm: f64 = a.iter().map(|x| f64::from(*x).powi(2)).sum();
            let apart: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(x - y).powi(2)).sum();
            assert!((f64::from(squared_norm(&a)) - norm).abs() < 1e-5);
            assert!((f64::from(squared_distance(&a, &b)) - apart).abs() < 1e-5);
        }
    }

    #[test]
    fn the_nearest_is_that_of_the_definition_for_any_number_of_rows_and_centres() {
        let (count, cols) = (37, 21);
        let data = numbers(count * cols, 0.731);
        let vectors = Vectors::new(&data, cols);
        for clusters in [1, 2, 7, 8, 9, 16, 23] {
            let centres = numbers(clusters * cols, 0.417);
            let nearest = Nearest::new(&centres, cols);
            for taken in [1, 7, 8, 9, 37] {
                let rows: Vec<usize> = (0..taken).map(|i| (i * 5) % count).collect();
                let mut labels = Vec::new();
                nearest.of(vectors, &rows, &mut labels);
                for (row, label) in rows.iter().zip(labels) {
                    let apart = |c: usize| squared_distance(vectors.row(*row), &centres[c * cols..(c + 1) * cols]);
                    let least = (0..clusters).map(apart).fold(f32::INFINITY, f32::min);
                    assert!(apart(label) <= least + 1e-4, "{clusters} {taken} {row}");
                }
            }
        }
    }

    #[test]
    fn the_first_of_equally_near_centres_is_taken_and_tiles_are_the_same_without_vector_code() {
        let cols = 33;
        let centre = numbers(cols, 0.3);
        let centres = [&centre[..], &centre, &centre].concat();
        let vectors = Vectors::new(&centre, cols);
        let mut labels = Vec::new();
        Nearest::new(&centres, cols).of(vectors, &[0, 0], &mut labels);
        assert_eq!(labels, [0, 0]);

        let (rows, panel) = (numbers(GROUP * cols, 0.11), numbers(LANES * cols, 0.77));
        let group: [&[f32]; GROUP] = std::array::from_fn(|i| &rows[i * cols..(i + 1) * cols]);
        for (fast, plain) in products(&group, &panel)
            .iter()
            .flatten()
            .zip(portable(&group, &panel).iter().flatten())
        {
            assert!((fast - plain).abs() < 1e-5);
        }
    }
}
