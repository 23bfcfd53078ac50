//! AVX2: 6 rows × 16 columns, in two halves of 8.
//!
//! `vpmaddubsw` multiplies 32 unsigned with 32 signed codes and adds neighbours into 16 bits,
//! saturating. The number of its results that can be added before widening depends on the codes'
//! bits; [`Widths::fits`] counts them so that nothing ever saturates. Codes of eight and eight bits
//! do not fit even once: they are widened first, with two instructions for each multiplication.

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16, _mm256_storeu_si256,
};

use super::{
    DEPTH_STEP, GROUP, Widths,
    kernel::{Int8Kernel, RunTile, Tile},
};
use crate::dispatch::for_rows;
use crate::rounded::SPAN;

const ROWS: usize = 6;
const WIDTH: usize = 2 * HALF;
/// Number of columns in a register of sums.
const HALF: usize = 8;
/// How many groups ahead of the arithmetic the panel is prefetched.
const AHEAD: usize = 8;

pub(super) static KERNEL: Int8Kernel = Int8Kernel {
    name: "avx2",
    rows: ROWS,
    width: WIDTH,
    depth_step: DEPTH_STEP,
    tile,
    thread: None,
};

fn tile(widths: Widths) -> RunTile {
    match widths.fits() {
        0 => run::<0>,
        1 => run::<1>,
        _ => run::<2>,
    }
}

/// # Safety
/// The machine has AVX2, and `FIT` groups of the codes fit into 16 bits.
unsafe fn run<const FIT: usize>(tile: Tile<'_>) {
    tile.check(ROWS, WIDTH);
    // SAFETY: checked; forwarded.
    unsafe { for_rows!(tile, rows [FIT]; 6 5 4 3 2) }
}

/// # Safety
/// As for [`run`], with `tile.rows == R` and the tile's shape checked.
#[target_feature(enable = "avx2")]
unsafe fn rows<const R: usize, const FIT: usize>(tile: Tile<'_>) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    let groups = tile.depth / GROUP;
    let panel = tile.panel.as_ptr();
    let weights = |group: usize, half: usize| {
        let codes = panel.wrapping_add((group * WIDTH + half * HALF) * GROUP);
        // SAFETY: group < depth / 4, half < 2, and a group of the panel is 16 columns of 4 codes.
        unsafe { _mm256_loadu_si256(codes.cast::<__m256i>()) }
    };
    let ahead = |group: usize| _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add((group + AHEAD) * WIDTH * GROUP));
    let x = |r: usize, group: usize| {
        // SAFETY: r < rows and group < depth / 4.
        _mm256_set1_epi32(unsafe { tile.word(r, group) })
    };
    if FIT == 0 {
        let low = _mm256_set1_epi16(0xff);
        for group in 0..groups {
            ahead(group);
            for half in 0..2 {
                let weights = weights(group, half);
                let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(weights));
                let odd = _mm256_srai_epi16::<8>(weights);
                for (r, sums) in sums.iter_mut().enumerate() {
                    let x = x(r, group);
                    let x_odd = _mm256_srli_epi16::<8>(x);
                    let sum = _mm256_add_epi32(sums[half], _mm256_madd_epi16(_mm256_and_si256(x, low), even));
                    sums[half] = _mm256_add_epi32(sum, _mm256_madd_epi16(x_odd, odd));
                }
            }
        }
    } else {
        let ones = _mm256_set1_epi16(1);
        // Depth is a multiple of 16, so groups are a multiple of 4 and of FIT.
        for first in (0..groups).step_by(FIT) {
            for group in first..first + FIT {
                ahead(group);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                for (half, sum) in sums.iter_mut().enumerate() {
                    let mut narrow = _mm256_maddubs_epi16(x(r, first), weights(first, half));
                    for group in first + 1..first + FIT {
                        narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(x(r, group), weights(group, half)));
                    }
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(narrow, ones));
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (half, sum) in sums.iter().enumerate() {
            let first = r * SPAN + half * HALF;
            let to = tile.sums[first..first + HALF].as_mut_ptr();
            // SAFETY: row r has room for eight sums.
            unsafe { _mm256_storeu_si256(to.cast::<__m256i>(), *sum) };
        }
    }
}
