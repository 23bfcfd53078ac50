//! The two products of a block of rows: `rows · weights` and `rowsᵀ · slopes`, in tiles of six by
//! eight. Twelve sums, two vectors of weights and one number leave one of AVX2's sixteen registers
//! free; without a free register, compilers put sums on the stack.
//!
//! Weights are stored in panels of [`PANEL`] columns, `[panel][dimension][column]`; scores and
//! slopes as `[row][column of all panels]`. For each output element the products are added in the
//! order of the dimension (or of the row). The loops around only choose what stays in the
//! first-level cache.

use super::BLOCK;

/// Columns of a panel.
pub(crate) const PANEL: usize = 8;
/// Dimensions, and rows, of a tile.
pub(crate) const GROUP: usize = 6;
/// Groups of dimensions that scores are summed over at a time: 6 kB of a panel.
const GROUPS_AT_ONCE: usize = 16;
/// Rows that pass all panels before the next rows do: 18 kB of that many groups.
const ROWS_AT_ONCE: usize = 24;
/// Groups of dimensions whose sums are computed for all panels before the next groups: 18 kB of a
/// block.
const SUMS_AT_ONCE: usize = 4;

/// `scores = intercepts + block · weights` for the first `rows` rows of a block; the values written
/// into the rows after them are undefined. A panel holds `groups · GROUP` rows of weights and then
/// the intercepts.
pub(crate) fn forward(block: &[f64], rows: usize, groups: usize, panels: &[f64], scores: &mut [f64]) {
    let panel_len = (groups * GROUP + 1) * PANEL;
    let width = panels.len() / panel_len * PANEL;
    assert!(block.len() >= groups * GROUP * BLOCK && scores.len() >= BLOCK * width && rows <= BLOCK);
    for row in scores.chunks_exact_mut(width.max(1)).take(rows.next_multiple_of(GROUP)) {
        for (to, panel) in row.chunks_exact_mut(PANEL).zip(panels.chunks_exact(panel_len)) {
            to.copy_from_slice(&panel[groups * GROUP * PANEL..]);
        }
    }
    for first in (0..groups).step_by(GROUPS_AT_ONCE) {
        let count = GROUPS_AT_ONCE.min(groups - first);
        for from in (0..rows).step_by(ROWS_AT_ONCE) {
            for (p, panel) in panels.chunks_exact(panel_len).enumerate() {
                let weights = &panel[first * GROUP * PANEL..][..count * GROUP * PANEL];
                for row in (from..rows.min(from + ROWS_AT_ONCE)).step_by(GROUP) {
                    let x = &block[(first * BLOCK + row) * GROUP..];
                    let out = &mut scores[row * width + p * PANEL..];
                    add_scores(x, count, weights, out, width);
                }
            }
        }
    }
}

/// `sums += blockᵀ · slopes` over the first `rows` rows of a block, for every dimension. Panels are
/// laid out as weights are; intercepts are left alone.
pub(crate) fn backward(block: &[f64], rows: usize, groups: usize, slopes: &[f64], panels: &mut [f64]) {
    let panel_len = (groups * GROUP + 1) * PANEL;
    let width = panels.len() / panel_len * PANEL;
    assert!(block.len() >= groups * GROUP * BLOCK && slopes.len() >= rows * width && rows <= BLOCK);
    for first in (0..groups).step_by(SUMS_AT_ONCE) {
        for (p, panel) in panels.chunks_exact_mut(panel_len).enumerate() {
            for group in first..groups.min(first + SUMS_AT_ONCE) {
                let x = &block[group * BLOCK * GROUP..][..BLOCK * GROUP];
                let out = &mut panel[group * GROUP * PANEL..][..GROUP * PANEL];
                add_sums(x, rows, &slopes[p * PANEL..], width, out);
            }
        }
    }
}

/// A tile of scores: [`GROUP`] rows at the start of `x`, `groups` groups of dimensions, added to as
/// many rows of `out`.
#[inline]
fn add_scores(x: &[f64], groups: usize, weights: &[f64], out: &mut [f64], width: usize) {
    assert!(groups > 0 && x.len() >= ((groups - 1) * BLOCK + GROUP) * GROUP && weights.len() >= groups * GROUP * PANEL);
    assert!(width >= PANEL && out.len() >= (GROUP - 1) * width + PANEL);
    #[cfg(target_arch = "x86_64")]
    if super::dispatch_has_avx2() {
        // SAFETY: the processor has AVX2 and FMA, and the sizes were checked.
        unsafe { avx2::add_scores(x.as_ptr(), groups, weights.as_ptr(), out.as_mut_ptr(), width) };
        return;
    }
    portable::add_scores(x, groups, weights, out, width);
}

/// A tile of sums: one group of dimensions over `rows` rows.
#[inline]
fn add_sums(x: &[f64], rows: usize, slopes: &[f64], width: usize, out: &mut [f64]) {
    assert!(rows > 0 && x.len() >= rows * GROUP && out.len() >= GROUP * PANEL);
    assert!(width >= PANEL && slopes.len() >= (rows - 1) * width + PANEL);
    #[cfg(target_arch = "x86_64")]
    if super::dispatch_has_avx2() {
        // SAFETY: the processor has AVX2 and FMA, and the sizes were checked.
        unsafe { avx2::add_sums(x.as_ptr(), rows, slopes.as_ptr(), width, out.as_mut_ptr()) };
        return;
    }
    portable::add_sums(x, rows, slopes, width, out);
}

#[cfg(any(test, not(target_arch = "x86_64")))]
const FUSED: bool = cfg!(target_arch = "aarch64");
#[cfg(all(not(test), target_arch = "x86_64"))]
const FUSED: bool = false;

mod portable {
    use super::{BLOCK, FUSED, GROUP, PANEL};
    use crate::linalg::fma;

    pub(super) fn add_scores(x: &[f64], groups: usize, weights: &[f64], out: &mut [f64], width: usize) {
        let mut sums = [[0.0_f64; PANEL]; GROUP];
        for (r, sum) in sums.iter_mut().enumerate() {
            sum.copy_from_slice(&out[r * width..][..PANEL]);
        }
        for group in 0..groups {
            let rows = &x[group * BLOCK * GROUP..][..GROUP * GROUP];
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
            out[r * width..][..PANEL].copy_from_slice(sum);
        }
    }

    pub(super) fn add_sums(x: &[f64], rows: usize, slopes: &[f64], width: usize, out: &mut [f64]) {
        let mut sums = [[0.0_f64; PANEL]; GROUP];
        for row in 0..rows {
            let x = &x[row * GROUP..][..GROUP];
            let slope = &slopes[row * width..][..PANEL];
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

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256d, _mm256_add_pd, _mm256_broadcast_sd, _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_setzero_pd,
        _mm256_storeu_pd,
    };

    use super::{BLOCK, GROUP, PANEL};

    const VECTORS: usize = PANEL / 4;

    /// One step of a tile: six numbers at `x`, `spacing` apart, times a row of eight at `w`.
    ///
    /// # Safety
    /// The numbers must be readable.
    #[inline(always)]
    unsafe fn step(sums: &mut [[__m256d; VECTORS]; GROUP], x: *const f64, spacing: usize, w: *const f64) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = [_mm256_loadu_pd(w), _mm256_loadu_pd(w.add(4))];
            for r in 0..GROUP {
                let x = _mm256_broadcast_sd(&*x.add(r * spacing));
                for v in 0..VECTORS {
                    sums[r][v] = _mm256_fmadd_pd(x, w[v], sums[r][v]);
                }
            }
        }
    }

    /// # Safety
    /// The sizes that [`super::add_scores`] checks must hold, on a machine with AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn add_scores(x: *const f64, groups: usize, weights: *const f64, out: *mut f64, width: usize) {
        // SAFETY: every offset is below the sizes checked.
        unsafe {
            let mut sums = [[_mm256_setzero_pd(); VECTORS]; GROUP];
            for (r, sum) in sums.iter_mut().enumerate() {
                for (v, lane) in sum.iter_mut().enumerate() {
                    *lane = _mm256_loadu_pd(out.add(r * width + v * 4));
                }
            }
            for group in 0..groups {
                let (x, w) = (x.add(group * BLOCK * GROUP), weights.add(group * GROUP * PANEL));
                for d in 0..GROUP {
                    step(&mut sums, x.add(d), GROUP, w.add(d * PANEL));
                }
            }
            for (r, sum) in sums.iter().enumerate() {
                for (v, lane) in sum.iter().enumerate() {
                    _mm256_storeu_pd(out.add(r * width + v * 4), *lane);
                }
            }
        }
    }

    /// # Safety
    /// The sizes that [`super::add_sums`] checks must hold, on a machine with AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn add_sums(x: *const f64, rows: usize, slopes: *const f64, width: usize, out: *mut f64) {
        // SAFETY: every offset is below the sizes checked.
        unsafe {
            let mut sums = [[_mm256_setzero_pd(); VECTORS]; GROUP];
            for row in 0..rows {
                step(&mut sums, x.add(row * GROUP), 1, slopes.add(row * width));
            }
            for (d, sum) in sums.iter().enumerate() {
                for (v, lane) in sum.iter().enumerate() {
                    let at = out.add(d * PANEL + v * 4);
                    _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), *lane));
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
        let (groups, count) = (GROUPS_AT_ONCE + 5, 3);
        let (width, panel_len) = (count * PANEL, (groups * GROUP + 1) * PANEL);
        let block = numbers(groups * GROUP * BLOCK, 1);
        let panels = numbers(count * panel_len, 2);
        let at = |row: usize, d: usize| block[(d / GROUP * BLOCK + row) * GROUP + d % GROUP];
        let weight = |d: usize, column: usize| panels[column / PANEL * panel_len + d * PANEL + column % PANEL];
        let mut scores = vec![f64::NAN; BLOCK * width];
        let rows = BLOCK - 5;
        forward(&block, rows, groups, &panels, &mut scores);
        let slopes = numbers(BLOCK * width, 3);
        let start = numbers(count * panel_len, 4);
        let mut sums = start.clone();
        backward(&block, rows, groups, &slopes, &mut sums);
        for column in 0..width {
            for row in 0..rows {
                let products = (0..groups * GROUP).map(|d| at(row, d) * weight(d, column));
                let expected = weight(groups * GROUP, column) + products.sum::<f64>();
                assert!((scores[row * width + column] - expected).abs() < 1e-13);
            }
            for d in 0..groups * GROUP {
                let place = column / PANEL * panel_len + d * PANEL + column % PANEL;
                let products = (0..rows).map(|row| at(row, d) * slopes[row * width + column]);
                assert!((sums[place] - start[place] - products.sum::<f64>()).abs() < 1e-13);
            }
            let intercept = column / PANEL * panel_len + groups * GROUP * PANEL + column % PANEL;
            assert_eq!(sums[intercept], start[intercept]);
        }
    }

    #[test]
    fn tiles_are_the_same_without_vector_code() {
        let (groups, width) = (5, 17);
        let (x, weights) = (numbers(groups * BLOCK * GROUP, 1), numbers(groups * GROUP * PANEL, 2));
        let (slopes, start) = (numbers(BLOCK * width, 3), numbers(GROUP * width, 4));
        let (mut fast, mut plain) = (start.clone(), start.clone());
        add_scores(&x, groups, &weights, &mut fast, width);
        portable::add_scores(&x, groups, &weights, &mut plain, width);
        assert!(fast.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-14));
        let (mut fast, mut plain) = (start.clone(), start);
        add_sums(&x, BLOCK - 1, &slopes, width, &mut fast[..GROUP * PANEL]);
        portable::add_sums(&x, BLOCK - 1, &slopes, width, &mut plain[..GROUP * PANEL]);
        assert!(fast.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-13));
    }
}
