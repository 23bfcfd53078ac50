//! The two products of a block of rows: `rows · weights` and `rowsᵀ · slopes`, four by twelve at a time.
//!
//! Weights stand in panels of [`PANEL`] columns: `[panel][dimension][column]`. Per output element the products are added
//! in the order of the dimension (or of the row), one after the other.

use super::BLOCK;

/// Columns of a panel.
pub(crate) const PANEL: usize = 12;
/// Dimensions, and rows, of a tile.
pub(crate) const GROUP: usize = 4;

/// `scores[row][panel] = intercept + block · weights` for every row of a block. `panel` holds `groups · GROUP` rows of weights
/// and then the intercepts; `scores` has `stride` columns and the panel's begin at its start.
pub(crate) fn forward(block: &[f64], groups: usize, panel: &[f64], scores: &mut [f64], stride: usize) {
    assert!(block.len() >= groups * GROUP * BLOCK && panel.len() >= (groups * GROUP + 1) * PANEL);
    assert!(stride >= PANEL && scores.len() >= (BLOCK - 1) * stride + PANEL);
    #[cfg(target_arch = "x86_64")]
    if super::dispatch_has_avx2() {
        // SAFETY: the processor has AVX2 and FMA, and the sizes were checked.
        unsafe { avx2::forward(block.as_ptr(), groups, panel.as_ptr(), scores.as_mut_ptr(), stride) };
        return;
    }
    portable::forward(block, groups, panel, scores, stride);
}

/// `sums[dimension] += blockᵀ · slopes` for every dimension of a block. `slopes` is laid out as the scores are; `panel` holds
/// `groups · GROUP` rows.
pub(crate) fn backward(block: &[f64], groups: usize, slopes: &[f64], stride: usize, panel: &mut [f64]) {
    assert!(block.len() >= groups * GROUP * BLOCK && panel.len() >= groups * GROUP * PANEL);
    assert!(stride >= PANEL && slopes.len() >= (BLOCK - 1) * stride + PANEL);
    #[cfg(target_arch = "x86_64")]
    if super::dispatch_has_avx2() {
        // SAFETY: the processor has AVX2 and FMA, and the sizes were checked.
        unsafe { avx2::backward(block.as_ptr(), groups, slopes.as_ptr(), stride, panel.as_mut_ptr()) };
        return;
    }
    portable::backward(block, groups, slopes, stride, panel);
}

#[cfg(any(test, not(target_arch = "x86_64")))]
const FUSED: bool = cfg!(target_arch = "aarch64");
#[cfg(all(not(test), target_arch = "x86_64"))]
const FUSED: bool = false;

mod portable {
    use super::{BLOCK, FUSED, GROUP, PANEL};
    use crate::linalg::fma;

    pub(super) fn forward(block: &[f64], groups: usize, panel: &[f64], scores: &mut [f64], stride: usize) {
        let (weights, intercepts) = panel.split_at(groups * GROUP * PANEL);
        for row in (0..BLOCK).step_by(GROUP) {
            let mut sums = [[0.0_f64; PANEL]; GROUP];
            for sum in &mut sums {
                sum.copy_from_slice(&intercepts[..PANEL]);
            }
            for group in 0..groups {
                let rows = &block[(group * BLOCK + row) * GROUP..][..GROUP * GROUP];
                for d in 0..GROUP {
                    let w = &weights[(group * GROUP + d) * PANEL..][..PANEL];
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let x = rows[r * GROUP + d];
                        for c in 0..PANEL {
                            sum[c] = fma::<FUSED>(x, w[c], sum[c]);
                        }
                    }
                }
            }
            for (r, sum) in sums.iter().enumerate() {
                scores[(row + r) * stride..][..PANEL].copy_from_slice(sum);
            }
        }
    }

    pub(super) fn backward(block: &[f64], groups: usize, slopes: &[f64], stride: usize, panel: &mut [f64]) {
        for group in 0..groups {
            let out = &mut panel[group * GROUP * PANEL..][..GROUP * PANEL];
            let mut sums = [[0.0_f64; PANEL]; GROUP];
            for row in 0..BLOCK {
                let x = &block[(group * BLOCK + row) * GROUP..][..GROUP];
                let slope = &slopes[row * stride..][..PANEL];
                for d in 0..GROUP {
                    for c in 0..PANEL {
                        sums[d][c] = fma::<FUSED>(x[d], slope[c], sums[d][c]);
                    }
                }
            }
            for (to, from) in out.iter_mut().zip(sums.as_flattened()) {
                *to += from;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256d, _mm256_add_pd, _mm256_broadcast_sd, _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_setzero_pd,
        _mm256_storeu_pd,
    };

    use super::{BLOCK, GROUP, PANEL};

    const VECTORS: usize = PANEL / 4;

    /// One step of a tile: four numbers at `x` against a row of twelve at `w`. `spacing` is between the four.
    ///
    /// # Safety
    /// The numbers can be read.
    #[inline(always)]
    unsafe fn step(sums: &mut [[__m256d; VECTORS]; GROUP], x: *const f64, spacing: usize, w: *const f64) {
        // SAFETY: the caller's.
        unsafe {
            let w = [_mm256_loadu_pd(w), _mm256_loadu_pd(w.add(4)), _mm256_loadu_pd(w.add(8))];
            for r in 0..GROUP {
                let x = _mm256_broadcast_sd(&*x.add(r * spacing));
                for v in 0..VECTORS {
                    sums[r][v] = _mm256_fmadd_pd(x, w[v], sums[r][v]);
                }
            }
        }
    }

    /// # Safety
    /// The sizes [`super::forward`] checks; AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn forward(block: *const f64, groups: usize, panel: *const f64, scores: *mut f64, stride: usize) {
        // SAFETY: every offset is below the sizes checked.
        unsafe {
            let intercepts = panel.add(groups * GROUP * PANEL);
            for row in (0..BLOCK).step_by(GROUP) {
                let mut sums = [[_mm256_setzero_pd(); VECTORS]; GROUP];
                for sum in &mut sums {
                    for (v, lane) in sum.iter_mut().enumerate() {
                        *lane = _mm256_loadu_pd(intercepts.add(v * 4));
                    }
                }
                let mut x = block.add(row * GROUP);
                let mut w = panel;
                for _ in 0..groups {
                    for d in 0..GROUP {
                        step(&mut sums, x.add(d), GROUP, w.add(d * PANEL));
                    }
                    x = x.wrapping_add(BLOCK * GROUP);
                    w = w.add(GROUP * PANEL);
                }
                for (r, sum) in sums.iter().enumerate() {
                    for (v, lane) in sum.iter().enumerate() {
                        _mm256_storeu_pd(scores.add((row + r) * stride + v * 4), *lane);
                    }
                }
            }
        }
    }

    /// # Safety
    /// The sizes [`super::backward`] checks; AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn backward(
        block: *const f64,
        groups: usize,
        slopes: *const f64,
        stride: usize,
        panel: *mut f64,
    ) {
        // SAFETY: every offset is below the sizes checked.
        unsafe {
            for group in 0..groups {
                let mut sums = [[_mm256_setzero_pd(); VECTORS]; GROUP];
                let x = block.add(group * BLOCK * GROUP);
                for row in 0..BLOCK {
                    step(&mut sums, x.add(row * GROUP), 1, slopes.add(row * stride));
                }
                let out = panel.add(group * GROUP * PANEL);
                for (d, sum) in sums.iter().enumerate() {
                    for (v, lane) in sum.iter().enumerate() {
                        let at = out.add(d * PANEL + v * 4);
                        _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), *lane));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        let mut random = crate::random::NumpyGenerator::new(seed);
        (0..n).map(|_| random.random() - 0.5).collect()
    }

    #[test]
    fn both_products_are_those_of_the_definition() {
        let (groups, stride) = (5, 17);
        let block = numbers(groups * GROUP * BLOCK, 1);
        let panel = numbers((groups * GROUP + 1) * PANEL, 2);
        let at = |row: usize, d: usize| block[(d / GROUP * BLOCK + row) * GROUP + d % GROUP];
        let mut scores = vec![0.0; BLOCK * stride];
        forward(&block, groups, &panel, &mut scores, stride);
        let mut plain = vec![0.0; BLOCK * stride];
        portable::forward(&block, groups, &panel, &mut plain, stride);
        for row in 0..BLOCK {
            for c in 0..PANEL {
                let expected: f64 = panel[groups * GROUP * PANEL + c]
                    + (0..groups * GROUP)
                        .map(|d| at(row, d) * panel[d * PANEL + c])
                        .sum::<f64>();
                assert!((scores[row * stride + c] - expected).abs() < 1e-14);
                assert!((plain[row * stride + c] - expected).abs() < 1e-14);
            }
        }
        let slopes = numbers(BLOCK * stride, 3);
        let start = numbers(groups * GROUP * PANEL, 4);
        let (mut sums, mut plain) = (start.clone(), start.clone());
        backward(&block, groups, &slopes, stride, &mut sums);
        portable::backward(&block, groups, &slopes, stride, &mut plain);
        for d in 0..groups * GROUP {
            for c in 0..PANEL {
                let expected: f64 =
                    start[d * PANEL + c] + (0..BLOCK).map(|row| at(row, d) * slopes[row * stride + c]).sum::<f64>();
                assert!((sums[d * PANEL + c] - expected).abs() < 1e-13);
                assert!((plain[d * PANEL + c] - expected).abs() < 1e-13);
            }
        }
    }
}
