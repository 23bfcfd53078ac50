//! Transposes distant rows into a panel, sixteen by sixteen values at a time.

/// Rows and columns of a tile.
#[cfg(target_arch = "x86_64")]
const TILE: usize = 16;

/// `panel[i · width + j]` = element `i` of row `j`, where row `j` is `rows[j · stride..]`; zero
/// from row `count` on. `panel` is `depth × width`.
///
/// # Panics
/// If `rows` or `panel` is too short.
pub(super) fn transpose(rows: &[f32], stride: usize, count: usize, panel: &mut [f32], width: usize, depth: usize) {
    #[cfg(target_arch = "x86_64")]
    if width.is_multiple_of(TILE) && depth.is_multiple_of(TILE) && crate::instructions::avx512() {
        // SAFETY: the feature was just detected.
        return unsafe { wide::transpose(rows, stride, count, panel, width, depth) };
    }
    for j in 0..width {
        let column = panel[j..].iter_mut().step_by(width).take(depth);
        if j < count {
            let row = &rows[j * stride..j * stride + depth];
            column.zip(row).for_each(|(to, from)| *to = *from);
        } else {
            column.for_each(|to| *to = 0.0);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4,
        _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };

    use super::TILE;

    /// `width` and `depth` are multiples of [`TILE`].
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(rows: &[f32], stride: usize, count: usize, panel: &mut [f32], width: usize, depth: usize) {
        for first in (0..width).step_by(TILE) {
            for start in (0..depth).step_by(TILE) {
                let mut tile = [_mm512_setzero_ps(); TILE];
                for (row, j) in tile.iter_mut().zip(first..count) {
                    let from = &rows[j * stride + start..][..TILE];
                    // SAFETY: sixteen floats are readable.
                    *row = unsafe { _mm512_loadu_ps(from.as_ptr()) };
                }
                for (i, column) in turned(tile).into_iter().enumerate() {
                    let to = &mut panel[(start + i) * width + first..][..TILE];
                    // SAFETY: sixteen floats are writable.
                    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), column) };
                }
            }
        }
    }

    /// Converts columns to rows. Pairs of rows are interleaved, then pairs of those, so that a
    /// quarter of a vector contains four rows of one column. Then quarters are gathered.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn turned(rows: [__m512; TILE]) -> [__m512; TILE] {
        let mut pairs = rows;
        for i in (0..TILE).step_by(2) {
            pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
        }
        let mut fours = pairs;
        for i in (0..TILE).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm512_castps_pd(pairs[i + j]));
            fours[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
            fours[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
            fours[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
            fours[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
        }
        // Quarters 0 and 2 of both, and 1 and 3.
        let even = |a, b| _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
        let odd = |a, b| _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
        let mut columns = fours;
        for c in 0..4 {
            let [p, q, r, s] = [0, 4, 8, 12].map(|i| fours[i + c]);
            columns[c] = even(even(p, q), even(r, s));
            columns[4 + c] = even(odd(p, q), odd(r, s));
            columns[8 + c] = odd(even(p, q), even(r, s));
            columns[12 + c] = odd(odd(p, q), odd(r, s));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn every_value_comes_to_its_place_and_the_rest_is_zero() {
        for (width, depth) in [(32, 32), (32, 64), (16, 16), (16, 24), (8, 5), (32, 40)] {
            for count in [0, 1, 7, width - 1, width, width + 9] {
                let stride = depth + 3;
                let rows: Vec<f32> = (1..=(width + 9) * stride).map(|i| i as f32).collect();
                let mut panel = vec![f32::NAN; depth * width];
                transpose(&rows, stride, count, &mut panel, width, depth);
                for (at, value) in panel.into_iter().enumerate() {
                    let (i, j) = (at / width, at % width);
                    let expected = if j < count { rows[j * stride + i] } else { 0.0 };
                    assert!(value == expected, "{width} x {depth}, {count} rows: ({i}, {j})");
                }
            }
        }
    }
}
