//! The integer tile on AVX-512 VNNI: 12 rows × 16 outputs, two octets side by side.
//!
//! `vpdpbusd` multiplies four unsigned with four signed codes per lane and adds to 32 bits. Signed
//! codes of weights are shifted by 128, and the sum begins with `-128 · Σ x`. Sums of integers are
//! exact, and the floats are combined in the order of the AVX2 tile, so both give the same bits.

use std::arch::x86_64::{
    __m512, __m512i, _mm256_loadu_pd, _mm256_loadu_si256, _mm512_castpd_ps, _mm512_castpd256_pd512,
    _mm512_castsi256_si512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_insertf64x4,
    _mm512_inserti64x4, _mm512_mask_storeu_ps, _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_xor_si512,
};

use super::{
    format::{QuantType, RUN},
    layout::{GROUP, OCTET, TILE},
    tile::{TileArgs, TileKernel},
};
use crate::dispatch::for_rows;

/// Rows of a tile.
const ROWS: usize = 12;

/// The tile for codes of a kind. Call it only on a machine with AVX-512 F and VNNI.
pub(super) fn tile(kind: QuantType) -> TileKernel {
    TileKernel {
        rows: ROWS,
        octets: 2,
        run: match kind {
            QuantType::Q6K => run::<2, false>,
            QuantType::Q8_0 => run::<1, true>,
            _ => run::<1, false>,
        },
    }
}

/// A run has `STEPS` scales.
///
/// # Safety
/// As for [`TileKernel::run`], on a machine with AVX-512 F and VNNI.
unsafe fn run<const STEPS: usize, const SIGNED: bool>(a: TileArgs) {
    // SAFETY: forwarded.
    unsafe { for_rows!(a, rows [STEPS, SIGNED]; 12 11 10 9 8 7 6 5 4 3 2) }
}

/// 32 codes of each octet.
///
/// # Safety
/// 32 bytes are readable at both places.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn codes(first: *const u8, second: *const u8) -> __m512i {
    // SAFETY: the caller's guarantee.
    unsafe {
        let low = _mm512_castsi256_si512(_mm256_loadu_si256(first.cast()));
        _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(second.cast()))
    }
}

/// Eight floats of each octet.
///
/// # Safety
/// Eight floats are readable at both places.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn floats(first: *const f32, second: *const f32) -> __m512 {
    // SAFETY: the caller's guarantee.
    unsafe {
        let low = _mm512_castpd256_pd512(_mm256_loadu_pd(first.cast()));
        _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_loadu_pd(second.cast())))
    }
}

/// # Safety
/// As for [`run`], with `a.rows == R`.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn rows<const R: usize, const STEPS: usize, const SIGNED: bool>(a: TileArgs) {
    // With one octet, both halves compute it.
    let (next_codes, next_scales) = match a.octets {
        2 => (a.runs * TILE, a.runs * STEPS * OCTET),
        _ => (0, 0),
    };
    let shift = _mm512_set1_epi8(i8::MIN);
    let mut sums = [_mm512_setzero_ps(); R];
    let groups = RUN / GROUP / STEPS;
    for run in 0..a.runs {
        for step in 0..STEPS {
            let mut products = [_mm512_set1_epi32(0); R];
            if SIGNED {
                for (r, product) in products.iter_mut().enumerate() {
                    // SAFETY: row r has `runs` runs.
                    let input = unsafe { &*a.x_runs.add(r * a.runs + run) };
                    *product = _mm512_set1_epi32(-128 * input.total);
                }
            }
            for group in step * groups..(step + 1) * groups {
                // SAFETY: a tile is TILE codes; group < 8.
                let weights = unsafe {
                    let at = a.codes.add(run * TILE + group * GROUP * OCTET);
                    codes(at, at.add(next_codes))
                };
                let weights = if SIGNED {
                    _mm512_xor_si512(weights, shift)
                } else {
                    weights
                };
                for (r, product) in products.iter_mut().enumerate() {
                    // SAFETY: row r has `runs · RUN` codes.
                    let x = unsafe {
                        let at = a.x.add((r * a.runs + run) * RUN + group * GROUP);
                        _mm512_set1_epi32(at.cast::<i32>().read_unaligned())
                    };
                    *product = _mm512_dpbusd_epi32(*product, weights, x);
                }
            }
            let at = run * STEPS + step;
            // SAFETY: step `at` of `runs · STEPS` exists in both octets.
            let (scales, minima) = unsafe {
                let (scales, minima) = (a.scales.add(at * OCTET), a.minima.add(at * OCTET));
                (
                    floats(scales, scales.add(next_scales)),
                    floats(minima, minima.add(next_scales)),
                )
            };
            for r in 0..R {
                // SAFETY: row r has `runs` runs.
                let input = unsafe { &*a.x_runs.add(r * a.runs + run) };
                let scale = _mm512_mul_ps(scales, _mm512_set1_ps(input.scale));
                sums[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(products[r]), sums[r]);
                if !SIGNED {
                    sums[r] = _mm512_fmadd_ps(minima, _mm512_set1_ps(input.step_sum::<STEPS>(step)), sums[r]);
                }
            }
        }
    }
    let stored = if a.octets == 2 { u16::MAX } else { 0xff };
    for (r, sum) in sums.iter().enumerate() {
        // SAFETY: row r has room for eight outputs of each octet.
        unsafe { _mm512_mask_storeu_ps(a.out.add(r * a.out_stride), stored, *sum) };
    }
}
