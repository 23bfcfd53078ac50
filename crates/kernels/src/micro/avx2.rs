//! AVX2 + FMA: 6 rows × 16 columns; twelve of the sixteen registers are accumulators.

use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::{Kernel, Tile};
use crate::dispatch::for_rows;

const WIDTH: usize = 16;
/// How many depths ahead of the arithmetic the panel is prefetched.
const AHEAD: usize = 8;

pub(super) static KERNEL: Kernel = Kernel {
    name: "avx2+fma",
    rows: 6,
    width: WIDTH,
    run,
};

/// # Safety
/// The contract of [`Kernel::run_raw`] with whole panels, on a machine with AVX2 and FMA.
unsafe fn run(tile: Tile) {
    // SAFETY: forwarded.
    unsafe { for_rows!(tile, rows []; 6 5 4 3 2) }
}

/// # Safety
/// As for [`run`], with `tile.rows == M`.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const M: usize>(tile: Tile) {
    let mut left = [_mm256_setzero_ps(); M];
    let mut right = [_mm256_setzero_ps(); M];
    if tile.accumulate {
        for r in 0..M {
            // SAFETY: `out` holds M rows of WIDTH elements.
            unsafe {
                let out = tile.out.add(r * tile.out_stride);
                left[r] = _mm256_loadu_ps(out);
                right[r] = _mm256_loadu_ps(out.add(8));
            }
        }
    }
    let mut panel = tile.panel;
    for i in 0..tile.depth {
        // SAFETY: `panel` holds `depth` rows of WIDTH elements and `x` M rows of `depth`; a
        // prefetch may name any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add(AHEAD * WIDTH).cast());
            let w0 = _mm256_loadu_ps(panel);
            let w1 = _mm256_loadu_ps(panel.add(8));
            panel = panel.wrapping_add(WIDTH);
            for r in 0..M {
                let x = _mm256_set1_ps(*tile.x.add(r * tile.x_stride + i));
                left[r] = _mm256_fmadd_ps(x, w0, left[r]);
                right[r] = _mm256_fmadd_ps(x, w1, right[r]);
            }
        }
    }
    for r in 0..M {
        // SAFETY: as for the loads.
        unsafe {
            let out = tile.out.add(r * tile.out_stride);
            _mm256_storeu_ps(out, left[r]);
            _mm256_storeu_ps(out.add(8), right[r]);
        }
    }
}
