//! Rounds inputs row by row, and converts sums back to floats.

use super::Widths;

/// Maps the codes of a row to its values: `x ≈ scale · (code - zero)`.
///
/// The row's smallest value (at most 0) has code 0 and its largest (at least 0) the largest code. 0
/// itself has an exact code, the zero point, so that zeros stay zeros.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowScale {
    pub(super) scale: f32,
    pub(super) zero: i32,
}

/// Rounds one row, ties to even. The scale is NaN if a value is not finite.
pub(super) fn round_row(row: &[f32], codes: &mut [u8], widths: Widths) -> RowScale {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx2")]
        fn widest(row: &[f32], codes: &mut [u8], largest: i32) -> RowScale {
            round_row_body(row, codes, largest)
        }
        #[target_feature(enable = "avx2")]
        fn wide(row: &[f32], codes: &mut [u8], largest: i32) -> RowScale {
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
fn round_row_body(row: &[f32], codes: &mut [u8], largest: i32) -> RowScale {
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
        return RowScale {
            scale: f32::NAN,
            zero: 0,
        };
    }
    // Halved first, because the difference of two finite numbers may be infinite.
    let scale = (high * 0.5 - low * 0.5) / (largest as f32 * 0.5);
    let inverse = 1.0 / scale;
    if inverse == f32::INFINITY {
        // All values are zero, or so small that the inverse of the scale is not a finite float.
        codes.fill(0);
        return RowScale::default();
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
    RowScale { scale, zero }
}

/// Whether the instructions of the widest version can be used.
#[cfg(target_arch = "x86_64")]
fn avx512() -> bool {
    crate::instructions::avx512() && std::arch::is_x86_feature_detected!("avx512bw")
}

/// `out[j] = (sums[j] - zero · totals[j]) · scale · scales[j]`: two roundings after the exact
/// integer, on every machine.
pub(super) fn open(sums: &[i32], row: RowScale, scales: &[f32], totals: &[i32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx2")]
        fn widest(sums: &[i32], row: RowScale, scales: &[f32], totals: &[i32], out: &mut [f32]) {
            open_body(sums, row, scales, totals, out);
        }
        #[target_feature(enable = "avx2")]
        fn wide(sums: &[i32], row: RowScale, scales: &[f32], totals: &[i32], out: &mut [f32]) {
            open_body(sums, row, scales, totals, out);
        }
        if avx512() {
            // SAFETY: the features were just detected.
            return unsafe { widest(sums, row, scales, totals, out) };
        }
        if crate::instructions::avx2() {
            // SAFETY: the feature was just detected.
            return unsafe { wide(sums, row, scales, totals, out) };
        }
    }
    open_body(sums, row, scales, totals, out);
}

#[inline(always)]
#[allow(clippy::cast_precision_loss)]
fn open_body(sums: &[i32], row: RowScale, scales: &[f32], totals: &[i32], out: &mut [f32]) {
    for (((out, sum), own), total) in out.iter_mut().zip(sums).zip(scales).zip(totals) {
        *out = (sum - row.zero * total) as f32 * (row.scale * own);
    }
}
