//! For processors with dot products of bytes: `vpdpbusd` multiplies four unsigned with four signed
//! codes per lane and adds the products to a 32-bit sum, without saturating. In AVX-512 registers
//! 14 rows × 32 columns, in AVX registers 6 rows × 16 columns.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_storeu_si512,
};

use super::{
    DEPTH_STEP, GROUP,
    kernel::{Int8Kernel, Tile},
};
use crate::dispatch::for_rows;
use crate::rounded::SPAN;

pub(super) static AVX512: Int8Kernel = Int8Kernel {
    name: "avx512-vnni",
    rows: 14,
    width: 32,
    depth_step: DEPTH_STEP,
    tile: |_| run_avx512,
    thread: None,
};

pub(super) static AVX: Int8Kernel = Int8Kernel {
    name: "avx-vnni",
    rows: 6,
    width: 16,
    depth_step: DEPTH_STEP,
    tile: |_| run_avx,
    thread: None,
};

/// # Safety
/// The machine has AVX-512 F and VNNI.
unsafe fn run_avx512(tile: Tile<'_>) {
    tile.check(AVX512.rows, AVX512.width);
    // SAFETY: checked; forwarded.
    unsafe { for_rows!(tile, avx512 []; 14 13 12 11 10 9 8 7 6 5 4 3 2) }
}

/// # Safety
/// As for [`run_avx512`], with `tile.rows == R` and the tile's shape checked.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn avx512<const R: usize>(tile: Tile<'_>) {
    const WIDTH: usize = 32;
    let mut left = [_mm512_setzero_si512(); R];
    let mut right = [_mm512_setzero_si512(); R];
    for group in 0..tile.depth / GROUP {
        // SAFETY: group < depth / 4; a group is 32 columns of 4 codes, 128 bytes; r < rows.
        unsafe {
            let codes = tile.panel.as_ptr().add(group * WIDTH * GROUP);
            let w0 = _mm512_loadu_si512(codes.cast::<__m512i>());
            let w1 = _mm512_loadu_si512(codes.add(64).cast::<__m512i>());
            for r in 0..R {
                let x = _mm512_set1_epi32(tile.word(r, group));
                left[r] = _mm512_dpbusd_epi32(left[r], x, w0);
                right[r] = _mm512_dpbusd_epi32(right[r], x, w1);
            }
        }
    }
    for r in 0..R {
        let to = tile.sums[r * SPAN..r * SPAN + WIDTH].as_mut_ptr();
        // SAFETY: row r has room for 32 sums.
        unsafe {
            _mm512_storeu_si512(to.cast::<__m512i>(), left[r]);
            _mm512_storeu_si512(to.add(16).cast::<__m512i>(), right[r]);
        }
    }
}

/// # Safety
/// The machine has AVX2 and AVX-VNNI.
unsafe fn run_avx(tile: Tile<'_>) {
    tile.check(AVX.rows, AVX.width);
    // SAFETY: checked; forwarded.
    unsafe { for_rows!(tile, avx []; 6 5 4 3 2) }
}

/// # Safety
/// As for [`run_avx`], with `tile.rows == R` and the tile's shape checked.
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn avx<const R: usize>(tile: Tile<'_>) {
    const WIDTH: usize = 16;
    let mut left = [_mm256_setzero_si256(); R];
    let mut right = [_mm256_setzero_si256(); R];
    for group in 0..tile.depth / GROUP {
        // SAFETY: group < depth / 4; a group is 16 columns of 4 codes, 64 bytes; r < rows.
        unsafe {
            let codes = tile.panel.as_ptr().add(group * WIDTH * GROUP);
            let w0 = _mm256_loadu_si256(codes.cast::<__m256i>());
            let w1 = _mm256_loadu_si256(codes.add(32).cast::<__m256i>());
            for r in 0..R {
                let x = _mm256_set1_epi32(tile.word(r, group));
                left[r] = _mm256_dpbusd_avx_epi32(left[r], x, w0);
                right[r] = _mm256_dpbusd_avx_epi32(right[r], x, w1);
            }
        }
    }
    for r in 0..R {
        let to = tile.sums[r * SPAN..r * SPAN + WIDTH].as_mut_ptr();
        // SAFETY: row r has room for 16 sums.
        unsafe {
            _mm256_storeu_si256(to.cast::<__m256i>(), left[r]);
            _mm256_storeu_si256(to.add(8).cast::<__m256i>(), right[r]);
        }
    }
}
