//! AVX-512 F: one register per chain.

use std::arch::x86_64::{
    __m512, _mm256_add_ps, _mm512_abs_ps, _mm512_add_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_castps512_ps256,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_shuffle_f64x2, _mm512_sub_ps,
};

use super::{BLOCK, CHAINS, LANES, avx2::halved, portable};

macro_rules! of_two {
    ($name:ident, $add:expr) => {
        #[target_feature(enable = "avx512f,avx2,fma")]
        pub(super) fn $name(x: &[f32], y: &[f32]) -> f32 {
            let add = $add;
            let mut sums = [_mm512_setzero_ps(); CHAINS];
            let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<BLOCK>(), y.as_chunks::<BLOCK>());
            for (x, y) in xs.iter().zip(ys) {
                let (x, y) = (x.as_chunks::<LANES>().0, y.as_chunks::<LANES>().0);
                for chain in 0..CHAINS {
                    sums[chain] = add(sums[chain], load(&x[chain]), load(&y[chain]));
                }
            }
            let ((xs, x_rest), (ys, y_rest)) = (x_rest.as_chunks::<LANES>(), y_rest.as_chunks::<LANES>());
            for (x, y) in xs.iter().zip(ys) {
                sums[0] = add(sums[0], load(x), load(y));
            }
            total(sums) + portable::$name(x_rest, y_rest)
        }
    };
}

of_two!(dot, |sum, a, b| _mm512_fmadd_ps(a, b, sum));
of_two!(squared, |sum, a, b| {
    let gap = _mm512_sub_ps(a, b);
    _mm512_fmadd_ps(gap, gap, sum)
});
of_two!(absolute, |sum, a, b| _mm512_add_ps(
    sum,
    _mm512_abs_ps(_mm512_sub_ps(a, b))
));

#[target_feature(enable = "avx512f")]
fn load(lanes: &[f32; LANES]) -> __m512 {
    // SAFETY: sixteen elements are readable.
    unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
}

#[target_feature(enable = "avx512f,avx2,fma")]
fn total([a, b, c, d]: [__m512; CHAINS]) -> f32 {
    let sum = _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d));
    let upper = _mm512_castps_pd(sum);
    let upper = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0b11_10_11_10>(upper, upper));
    halved(_mm256_add_ps(
        _mm512_castps512_ps256(sum),
        _mm512_castps512_ps256(upper),
    ))
}
