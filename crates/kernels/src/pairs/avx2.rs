//! AVX2 + FMA: two registers per chain.

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_ps, _mm256_andnot_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps,
    _mm256_sub_ps,
};

use super::{BLOCK, CHAINS, LANES, portable};

/// Lanes of a register.
const HALF: usize = LANES / 2;
const REGISTERS: usize = 2 * CHAINS;

macro_rules! of_two {
    ($name:ident, $add:expr) => {
        #[target_feature(enable = "avx2,fma")]
        pub(super) fn $name(x: &[f32], y: &[f32]) -> f32 {
            let add = $add;
            let mut sums = [_mm256_setzero_ps(); REGISTERS];
            let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<BLOCK>(), y.as_chunks::<BLOCK>());
            for (x, y) in xs.iter().zip(ys) {
                let (x, y) = (x.as_chunks::<HALF>().0, y.as_chunks::<HALF>().0);
                for i in 0..REGISTERS {
                    sums[i] = add(sums[i], load(&x[i]), load(&y[i]));
                }
            }
            let ((xs, x_rest), (ys, y_rest)) = (x_rest.as_chunks::<LANES>(), y_rest.as_chunks::<LANES>());
            for (x, y) in xs.iter().zip(ys) {
                let (x, y) = (x.as_chunks::<HALF>().0, y.as_chunks::<HALF>().0);
                for i in 0..2 {
                    sums[i] = add(sums[i], load(&x[i]), load(&y[i]));
                }
            }
            total(sums) + portable::$name(x_rest, y_rest)
        }
    };
}

of_two!(dot, |sum, a, b| _mm256_fmadd_ps(a, b, sum));
of_two!(squared, |sum, a, b| {
    let gap = _mm256_sub_ps(a, b);
    _mm256_fmadd_ps(gap, gap, sum)
});
of_two!(absolute, |sum, a, b| {
    let gap = _mm256_andnot_ps(_mm256_set1_ps(-0.0), _mm256_sub_ps(a, b));
    _mm256_add_ps(sum, gap)
});

#[target_feature(enable = "avx2")]
fn load(lanes: &[f32; HALF]) -> __m256 {
    // SAFETY: eight elements are readable.
    unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
}

#[target_feature(enable = "avx2,fma")]
fn total([a, a2, b, b2, c, c2, d, d2]: [__m256; REGISTERS]) -> f32 {
    let lower = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
    let upper = _mm256_add_ps(_mm256_add_ps(a2, b2), _mm256_add_ps(c2, d2));
    halved(_mm256_add_ps(lower, upper))
}

/// The sum of eight lanes: the upper half is added to the lower half until one lane is left.
#[target_feature(enable = "avx2")]
pub(super) fn halved(sum: __m256) -> f32 {
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)))
}
