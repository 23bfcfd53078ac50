//! NEON (every 64-bit Arm): 8 rows × 8 columns; sixteen of the thirty-two registers are
//! accumulators.

use std::arch::aarch64::{vdupq_n_f32, vfmaq_n_f32, vld1q_f32, vst1q_f32};

use super::{Kernel, Tile};
use crate::dispatch::for_rows;

const WIDTH: usize = 8;

pub(super) static KERNEL: Kernel = Kernel {
    name: "neon",
    rows: 8,
    width: WIDTH,
    run,
};

/// # Safety
/// The contract of [`Kernel::run_raw`] with whole panels.
unsafe fn run(tile: Tile) {
    // SAFETY: forwarded; NEON is part of every aarch64 target.
    unsafe { for_rows!(tile, rows []; 8 7 6 5 4 3 2) }
}

/// # Safety
/// As for [`run`], with `tile.rows == M`.
#[target_feature(enable = "neon")]
unsafe fn rows<const M: usize>(tile: Tile) {
    let mut left = [vdupq_n_f32(0.0); M];
    let mut right = [vdupq_n_f32(0.0); M];
    if tile.accumulate {
        for r in 0..M {
            // SAFETY: `out` holds M rows of WIDTH elements.
            unsafe {
                let out = tile.out.add(r * tile.out_stride);
                left[r] = vld1q_f32(out);
                right[r] = vld1q_f32(out.add(4));
            }
        }
    }
    let mut panel = tile.panel;
    for i in 0..tile.depth {
        // SAFETY: `panel` holds `depth` rows of WIDTH elements and `x` M rows of `depth`.
        unsafe {
            let w0 = vld1q_f32(panel);
            let w1 = vld1q_f32(panel.add(4));
            panel = panel.wrapping_add(WIDTH);
            for r in 0..M {
                let x = *tile.x.add(r * tile.x_stride + i);
                left[r] = vfmaq_n_f32(left[r], w0, x);
                right[r] = vfmaq_n_f32(right[r], w1, x);
            }
        }
    }
    for r in 0..M {
        // SAFETY: as for the loads.
        unsafe {
            let out = tile.out.add(r * tile.out_stride);
            vst1q_f32(out, left[r]);
            vst1q_f32(out.add(4), right[r]);
        }
    }
}
