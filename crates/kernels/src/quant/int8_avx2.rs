//! The integer tile on AVX2: 6 rows × 8 outputs.
//!
//! `vpmaddubsw` multiplies 32 unsigned codes with 32 signed inputs and adds pairs into 16 bits. The
//! number of such sums that fit before widening depends on the codes: 2 · 127 · 15 fits eight times
//! into 16 bits, 2 · 127 · 31 four times, 2 · 127 · 63 twice. Signed codes are multiplied as
//! magnitudes, with the sign moved to the input: that fits once.

use std::arch::x86_64::{
    __m256i, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_sign_epi8, _mm256_storeu_ps,
};

use super::{
    format::{QuantType, RUN},
    layout::{GROUP, OCTET, TILE},
    tile::{TileArgs, TileKernel},
};
use crate::dispatch::for_rows;

/// The tile for codes of a kind. Call it only on a machine with AVX2 and FMA.
pub(super) fn tile(kind: QuantType) -> TileKernel {
    TileKernel {
        rows: 6,
        octets: 1,
        run: match kind {
            QuantType::Q4_0 | QuantType::Q4_1 | QuantType::Q4K => run::<8, 1, false>,
            QuantType::Q6K => run::<2, 2, false>,
            QuantType::Q8_0 => run::<1, 1, true>,
            _ => run::<4, 1, false>,
        },
    }
}

/// `FIT` groups are added in 16 bits; a run has `STEPS` scales.
///
/// # Safety
/// As for [`TileKernel::run`], on a machine with AVX2 and FMA.
unsafe fn run<const FIT: usize, const STEPS: usize, const SIGNED: bool>(a: TileArgs) {
    // SAFETY: forwarded.
    unsafe { for_rows!(a, rows [FIT, STEPS, SIGNED]; 6 5 4 3 2) }
}

/// # Safety
/// As for [`run`], with `a.rows == R`.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const R: usize, const FIT: usize, const STEPS: usize, const SIGNED: bool>(a: TileArgs) {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_ps(); R];
    let groups = RUN / GROUP / STEPS;
    for run in 0..a.runs {
        for step in 0..STEPS {
            let mut products = [_mm256_setzero_si256(); R];
            for first in (0..groups).step_by(FIT) {
                let mut narrow = [_mm256_setzero_si256(); R];
                for g in 0..FIT {
                    let group = step * groups + first + g;
                    // SAFETY: a tile is TILE codes; group < 8.
                    let codes = unsafe {
                        _mm256_loadu_si256(a.codes.add(run * TILE + group * GROUP * OCTET).cast::<__m256i>())
                    };
                    let sizes = if SIGNED { _mm256_abs_epi8(codes) } else { codes };
                    for r in 0..R {
                        // SAFETY: row r has `runs · RUN` codes.
                        let x = unsafe {
                            let at = a.x.add((r * a.runs + run) * RUN + group * GROUP);
                            _mm256_set1_epi32(at.cast::<i32>().read_unaligned())
                        };
                        let x = if SIGNED { _mm256_sign_epi8(x, codes) } else { x };
                        let pairs = _mm256_maddubs_epi16(sizes, x);
                        narrow[r] = if g == 0 {
                            pairs
                        } else {
                            _mm256_add_epi16(narrow[r], pairs)
                        };
                    }
                }
                for r in 0..R {
                    let wide = _mm256_madd_epi16(narrow[r], ones);
                    products[r] = if first == 0 {
                        wide
                    } else {
                        _mm256_add_epi32(products[r], wide)
                    };
                }
            }
            let at = run * STEPS + step;
            // SAFETY: step `at` of `runs · STEPS` exists.
            let (scales, minima) = unsafe {
                (
                    _mm256_loadu_ps(a.scales.add(at * OCTET)),
                    _mm256_loadu_ps(a.minima.add(at * OCTET)),
                )
            };
            for r in 0..R {
                // SAFETY: row r has `runs` runs.
                let input = unsafe { &*a.x_runs.add(r * a.runs + run) };
                let scale = _mm256_mul_ps(scales, _mm256_set1_ps(input.scale));
                sums[r] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(products[r]), sums[r]);
                if !SIGNED {
                    sums[r] = _mm256_fmadd_ps(minima, _mm256_set1_ps(input.step_sum::<STEPS>(step)), sums[r]);
                }
            }
        }
    }
    for (r, sum) in sums.iter().enumerate() {
        // SAFETY: row r has room for eight outputs.
        unsafe { _mm256_storeu_ps(a.out.add(r * a.out_stride), *sum) };
    }
}
