//! Softmax of rows. The formula is written by hand for AVX-512 F, and as plain loops for everything
//! else; both give the same bits.
//!
//! `exp(scale · (x - max)) = 2^y` with `y = scale · log₂e · (x - max)`, in one multiply-add. The
//! rounding error of the term with `max` is the same for a whole row, so it cancels in the division
//! by the sum. `2^y = 2^n · 2^f` with n whole and |f| ≤ 1/2; `2^f` is a polynomial of degree 6,
//! fitted for this file (relative error 8e-8). If y is below -126 the result is zero.

use super::{LANES, fma, fold};

/// Constants of the polynomial, the highest power first; the last one is 1.
const P: [f32; 5] = [
    0.001_339_887_5,
    0.009_618_437,
    0.055_503_324,
    0.240_226_48,
    std::f32::consts::LN_2,
];
const P_FIRST: f32 = 1.535_336_2e-4;
/// Adding 1.5 · 2^23 rounds to an integer and leaves that integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// The exponent below which a power of two is zero.
const LOWEST: f32 = -126.0;

/// [`super::softmax`].
pub(super) fn softmax(values: &mut [f32], width: usize, scale: f32) {
    softmax_padded(values, width, width, scale);
}

/// [`super::softmax_padded`].
pub(super) fn softmax_padded(values: &mut [f32], stride: usize, width: usize, scale: f32) {
    if stride == 0 || width == 0 {
        return;
    }
    assert!(width <= stride, "rows are wider than their distance");
    #[cfg(target_arch = "x86_64")]
    {
        if crate::instructions::avx512() {
            // SAFETY: the feature was just detected.
            return unsafe { wide::rows(values, stride, width, scale) };
        }
        #[target_feature(enable = "avx2,fma")]
        fn of_eight(values: &mut [f32], stride: usize, width: usize, scale: f32) {
            rows::<true>(values, stride, width, scale);
        }
        if crate::instructions::avx2_and_fma() {
            // SAFETY: both features were just detected.
            return unsafe { of_eight(values, stride, width, scale) };
        }
    }
    // Every other supported 64-bit target has a fused multiply-add instruction.
    rows::<{ cfg!(target_arch = "aarch64") }>(values, stride, width, scale);
}

#[inline(always)]
pub(super) fn rows<const FMA: bool>(values: &mut [f32], stride: usize, width: usize, scale: f32) {
    let scale = scale * std::f32::consts::LOG2_E;
    for row in values.chunks_exact_mut(stride) {
        // Whole runs of lanes are fastest. The power of the padding is zero, which changes no sum.
        row[width..].fill(f32::NEG_INFINITY);
        let larger = |a: f32, b: f32| if a > b { a } else { b };
        let shift = -super::reduce(row, f32::NEG_INFINITY, larger, larger) * scale;
        let mut sums = [0.0; LANES];
        let mut chunks = row.chunks_exact_mut(LANES);
        for chunk in &mut chunks {
            for i in 0..LANES {
                let power = power::<FMA>(fma::<FMA>(chunk[i], scale, shift));
                chunk[i] = power;
                sums[i] += power;
            }
        }
        for (sum, value) in sums.iter_mut().zip(chunks.into_remainder()) {
            *value = power::<FMA>(fma::<FMA>(*value, scale, shift));
            *sum += *value;
        }
        let inverse = 1.0 / fold(sums, |a, b| a + b);
        for value in row.iter_mut() {
            *value *= inverse;
        }
    }
}

/// `2^y` for y up to about 0.
#[inline(always)]
fn power<const FMA: bool>(y: f32) -> f32 {
    let inside = if y < LOWEST { LOWEST } else { y };
    let rounded = inside + ROUND;
    let f = inside - (rounded - ROUND);
    let mut p = P_FIRST;
    for constant in P {
        p = fma::<FMA>(p, f, constant);
    }
    p = fma::<FMA>(p, f, 1.0);
    let of_n = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if y < LOWEST { 0.0 } else { p * of_n }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512, __mmask16, _CMP_NLT_UQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtss_f32, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_mask_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_scalef_ps, _mm512_max_ps,
        _mm512_mul_ps, _mm512_permute_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps,
        _mm512_sub_ps,
    };

    use super::{LANES, LOWEST, P, P_FIRST, ROUND};

    /// Number of vectors whose maxima are computed side by side.
    const CHAINS: usize = 4;

    /// # Safety
    /// The machine has AVX-512 F, and `0 < width <= stride`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn rows(values: &mut [f32], stride: usize, width: usize, scale: f32) {
        let scale = scale * std::f32::consts::LOG2_E;
        for row in values.chunks_exact_mut(stride) {
            let (row, padding) = row.split_at_mut(width);
            // SAFETY: the machine has AVX-512 F.
            unsafe { one(row, scale) };
            padding.fill(0.0);
        }
    }

    /// # Safety
    /// The machine has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn one(row: &mut [f32], scale: f32) {
        let (whole, rest) = row.as_chunks_mut::<LANES>();
        let tail: __mmask16 = (1 << rest.len()) - 1;
        let least = _mm512_set1_ps(f32::NEG_INFINITY);
        // SAFETY: the lanes of the mask are those of `rest`.
        let last = unsafe { _mm512_mask_loadu_ps(least, tail, rest.as_ptr()) };
        let mut chains = [last, least, least, least];
        let (fours, others) = whole.as_chunks::<{ CHAINS }>();
        for four in fours {
            for (chain, lanes) in chains.iter_mut().zip(four) {
                *chain = _mm512_max_ps(load(lanes), *chain);
            }
        }
        let [a, b, c, d] = &mut chains;
        for (chain, lanes) in [&mut *b, &mut *c, &mut *d].into_iter().zip(others) {
            *chain = _mm512_max_ps(load(lanes), *chain);
        }
        let max = _mm512_max_ps(_mm512_max_ps(*a, *b), _mm512_max_ps(*c, *d));
        let max = _mm512_cvtss_f32(folded(max, |a, b| _mm512_max_ps(a, b)));
        let (factor, shift) = (_mm512_set1_ps(scale), _mm512_set1_ps(-max * scale));
        let mut sums = _mm512_setzero_ps();
        for lanes in whole.iter_mut() {
            let power = power(_mm512_fmadd_ps(load(lanes), factor, shift));
            sums = _mm512_add_ps(sums, power);
            store(lanes, power);
        }
        let last = power(_mm512_fmadd_ps(last, factor, shift));
        let sums = _mm512_add_ps(sums, last);
        let sum = _mm512_cvtss_f32(folded(sums, |a, b| _mm512_add_ps(a, b)));
        let inverse = _mm512_set1_ps(1.0 / sum);
        for lanes in whole {
            store(lanes, _mm512_mul_ps(load(lanes), inverse));
        }
        // An empty store would still delay the loads of the data after the row.
        if !rest.is_empty() {
            // SAFETY: as for the load.
            unsafe { _mm512_mask_storeu_ps(rest.as_mut_ptr(), tail, _mm512_mul_ps(last, inverse)) };
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(lanes: &[f32; LANES]) -> __m512 {
        // SAFETY: sixteen floats are readable.
        unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(lanes: &mut [f32; LANES], values: __m512) {
        // SAFETY: sixteen floats are writable.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), values) };
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn power(y: __m512) -> __m512 {
        let round = _mm512_set1_ps(ROUND);
        let n = _mm512_sub_ps(_mm512_add_ps(y, round), round);
        let f = _mm512_sub_ps(y, n);
        let mut p = _mm512_set1_ps(P_FIRST);
        for constant in P {
            p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(constant));
        }
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0));
        // No comparison with NaN is true, so NaN reaches the result.
        let kept = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(y, _mm512_set1_ps(LOWEST));
        _mm512_maskz_scalef_ps(kept, p, n)
    }

    /// Combines lane i with lane i + 8, then with i + 4, i + 2 and i + 1, like `super::fold`.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn folded(v: __m512, combine: impl Fn(__m512, __m512) -> __m512) -> __m512 {
        let v = combine(v, _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v));
        let v = combine(v, _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v));
        let v = combine(v, _mm512_permute_ps::<0b01_00_11_10>(v));
        combine(v, _mm512_permute_ps::<0b10_11_00_01>(v))
    }
}
