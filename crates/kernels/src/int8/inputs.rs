//! Rounds inputs row by row, and converts sums back to floats.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{Int8Matrix, Widths};

/// Number of rows that one task rounds.
const PIECE: usize = 32;

thread_local! {
    static FREE: RefCell<Option<Rows>> = const { RefCell::new(None) };
}

/// Rows of codes.
///
/// A row is mapped so that its smallest value (at most 0) has code 0 and its largest (at least 0)
/// the largest code. 0 itself has an exact code, the zero point, so that zeros stay zeros.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Number of the first row in the buffer.
    pub(super) start: usize,
    codes: Vec<u8>,
    scales: Vec<f32>,
    zeros: Vec<i32>,
}

impl Rows {
    /// Lends this thread's buffer to `work`. The buffer is taken out meanwhile, because a thread
    /// that waits for others may be given another product to compute.
    pub(super) fn with(work: impl FnOnce(&mut Rows)) {
        let mut rows = FREE.take().unwrap_or_default();
        work(&mut rows);
        FREE.set(Some(rows));
    }

    fn size(&mut self, m: usize, depth: usize) {
        if self.codes.len() < m * depth {
            self.codes.resize(m * depth, 0);
        }
        if self.scales.len() < m {
            self.scales.resize(m, 0.0);
            self.zeros.resize(m, 0);
        }
    }

    /// Rounds `m` rows.
    pub(super) fn fill(&mut self, x: &[f32], m: usize, weights: &Int8Matrix) {
        let (k, depth, widths) = (weights.k(), weights.depth(), weights.widths());
        self.size(m, depth);
        for r in 0..m {
            let row = &x[r * k..(r + 1) * k];
            let codes = &mut self.codes[r * depth..(r + 1) * depth];
            (self.scales[r], self.zeros[r]) = round_row(row, codes, widths);
        }
    }

    /// [`Rows::fill`] on the threads of the current pool.
    pub(super) fn fill_on_all_threads(&mut self, x: &[f32], m: usize, weights: &Int8Matrix) {
        let (k, depth, widths) = (weights.k(), weights.depth(), weights.widths());
        if k == 0 {
            return self.fill(x, m, weights);
        }
        self.size(m, depth);
        x.par_chunks(PIECE * k)
            .zip(self.codes.par_chunks_mut(PIECE * depth))
            .zip(self.scales[..m].par_chunks_mut(PIECE))
            .zip(self.zeros[..m].par_chunks_mut(PIECE))
            .for_each(|(((x, codes), scales), zeros)| {
                let rows = x.chunks_exact(k).zip(codes.chunks_exact_mut(depth));
                for ((row, codes), (scale, zero)) in rows.zip(scales.iter_mut().zip(zeros)) {
                    (*scale, *zero) = round_row(row, codes, widths);
                }
            });
    }

    /// Codes of `count` rows starting at `row`.
    pub(super) fn codes(&self, row: usize, count: usize, depth: usize) -> &[u8] {
        let first = row - self.start;
        &self.codes[first * depth..(first + count) * depth]
    }

    /// Scale and zero point of a row.
    pub(super) fn scale(&self, row: usize) -> (f32, i32) {
        (self.scales[row - self.start], self.zeros[row - self.start])
    }
}

/// Rounds one row, ties to even; returns its scale and its zero point. The scale is NaN if a value
/// is not finite.
fn round_row(row: &[f32], codes: &mut [u8], widths: Widths) -> (f32, i32) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx2")]
        fn widest(row: &[f32], codes: &mut [u8], largest: i32) -> (f32, i32) {
            round_row_body(row, codes, largest)
        }
        #[target_feature(enable = "avx2")]
        fn wide(row: &[f32], codes: &mut [u8], largest: i32) -> (f32, i32) {
            round_row_body(row, codes, largest)
        }
        if avx512() {
            // SAFETY: the features were just detected.
            return unsafe { widest(row, codes, widths.largest_input()) };
        }
        if crate::instructions::avx2() {
            // SAFETY: the feature was just detected.
            return unsafe { wide(row, codes, widths.largest_input()) };
        }
    }
    round_row_body(row, codes, widths.largest_input())
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
fn round_row_body(row: &[f32], codes: &mut [u8], largest: i32) -> (f32, i32) {
    const LANES: usize = 16;
    /// Adding it to a small number leaves that number, rounded to even, in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// The exponent bits of values that are not finite.
    const NOT_FINITE: u32 = 0x7f80_0000;
    let (mut low, mut high, mut bad) = ([0.0f32; LANES], [0.0f32; LANES], [0u32; LANES]);
    let mut look = |i: usize, value: f32| {
        low[i] = if value < low[i] { value } else { low[i] };
        high[i] = if value > high[i] { value } else { high[i] };
        bad[i] |= u32::from(value.to_bits() & NOT_FINITE == NOT_FINITE);
    };
    // Whole runs of lanes have a separate loop, because only such loops are vectorised.
    let whole = row.chunks_exact(LANES);
    let rest = whole.remainder();
    for values in whole {
        for i in 0..LANES {
            look(i, values[i]);
        }
    }
    for (i, &value) in rest.iter().enumerate() {
        look(i, value);
    }
    let low = low.iter().fold(0.0f32, |a, &b| if b < a { b } else { a });
    let high = high.iter().fold(0.0f32, |a, &b| if b > a { b } else { a });
    if bad.iter().any(|&bad| bad != 0) {
        codes.fill(0);
        return (f32::NAN, 0);
    }
    // Halved first, because the difference of two finite numbers may be infinite.
    let scale = (high * 0.5 - low * 0.5) / (largest as f32 * 0.5);
    let inverse = 1.0 / scale;
    if inverse == f32::INFINITY {
        // All values are zero, or so small that the inverse of the scale is not a finite float.
        codes.fill(0);
        return (0.0, 0);
    }
    let zero = ((-low * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32).clamp(0, largest);
    let shift = ROUND.to_bits() as i32 - zero;
    let (inside, padding) = codes.split_at_mut(row.len());
    for (code, value) in inside.iter_mut().zip(row) {
        let rounded = (value * inverse + ROUND).to_bits() as i32 - shift;
        let from_below = if rounded < 0 { 0 } else { rounded };
        *code = (if from_below > largest { largest } else { from_below }) as u8;
    }
    padding.fill(0);
    (scale, zero)
}

/// Whether the instructions of the widest version can be used.
#[cfg(target_arch = "x86_64")]
fn avx512() -> bool {
    crate::instructions::avx512() && std::arch::is_x86_feature_detected!("avx512bw")
}

/// `out[j] = (sums[j] - zero · totals[j]) · scale · scales[j]`: two roundings after the exact
/// integer, on every machine.
pub(super) fn open(sums: &[i32], scale: f32, zero: i32, scales: &[f32], totals: &[i32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx2")]
        fn widest(sums: &[i32], scale: f32, zero: i32, scales: &[f32], totals: &[i32], out: &mut [f32]) {
            open_body(sums, scale, zero, scales, totals, out);
        }
        #[target_feature(enable = "avx2")]
        fn wide(sums: &[i32], scale: f32, zero: i32, scales: &[f32], totals: &[i32], out: &mut [f32]) {
            open_body(sums, scale, zero, scales, totals, out);
        }
        if avx512() {
            // SAFETY: the features were just detected.
            return unsafe { widest(sums, scale, zero, scales, totals, out) };
        }
        if crate::instructions::avx2() {
            // SAFETY: the feature was just detected.
            return unsafe { wide(sums, scale, zero, scales, totals, out) };
        }
    }
    open_body(sums, scale, zero, scales, totals, out);
}

#[inline(always)]
#[allow(clippy::cast_precision_loss)]
fn open_body(sums: &[i32], scale: f32, zero: i32, scales: &[f32], totals: &[i32], out: &mut [f32]) {
    for (((out, sum), own), total) in out.iter_mut().zip(sums).zip(scales).zip(totals) {
        *out = (sum - zero * total) as f32 * (scale * own);
    }
}
