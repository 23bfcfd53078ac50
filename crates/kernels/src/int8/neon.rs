//! 64-bit Arm with dot products (Armv8.2 on): 8 rows × 8 columns.
//!
//! `sdot` multiplies signed with signed codes. The rows' codes are unsigned: their top bit is
//! flipped, which subtracts 128, and 128 · Σ of each column's codes is added back, as a second dot
//! product with a constant. So the sums equal those of every other kernel. The standard library's
//! intrinsic for the instruction is not stable yet, so assembly is used.

use std::{
    arch::aarch64::{vaddq_s32, vreinterpretq_s8_u8, vshlq_n_s32, vst1q_s32},
    arch::{
        aarch64::{int8x16_t, int32x4_t, vdupq_n_s8, vdupq_n_s32, vdupq_n_u8, veorq_u8, vld1q_s8, vld1q_u8},
        asm,
    },
};

use super::{
    DEPTH_STEP, GROUP,
    kernel::{Int8Kernel, Tile},
};
use crate::dispatch::for_rows;
use crate::rounded::SPAN;

const ROWS: usize = 8;
const WIDTH: usize = 8;

pub(super) static KERNEL: Int8Kernel = Int8Kernel {
    name: "neon-dotprod",
    rows: ROWS,
    width: WIDTH,
    depth_step: DEPTH_STEP,
    tile: |_| run,
    thread: None,
};

/// # Safety
/// The machine has the dot-product instructions.
unsafe fn run(tile: Tile<'_>) {
    tile.check(ROWS, WIDTH);
    // SAFETY: checked; forwarded.
    unsafe { for_rows!(tile, rows []; 8 7 6 5 4 3 2) }
}

/// `sum[lane] += Σ weights[4 · lane + i] · x[4 · GROUP_OF_X + i]`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot<const GROUP_OF_X: usize>(mut sum: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: accesses registers only.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {weights:v}.16b, {x:v}.4b[{group}]",
            sum = inout(vreg) sum,
            weights = in(vreg) weights,
            x = in(vreg) x,
            group = const GROUP_OF_X,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// # Safety
/// As for [`run`], with `tile.rows == R` and the tile's shape checked.
#[target_feature(enable = "neon,dotprod")]
unsafe fn rows<const R: usize>(tile: Tile<'_>) {
    let zero = vdupq_n_s32(0);
    let mut left = [zero; R];
    let mut right = [zero; R];
    // Σ of each column's codes.
    let mut totals = (zero, zero);
    let ones = vdupq_n_s8(1);
    for first in (0..tile.depth).step_by(DEPTH_STEP) {
        let mut x = [ones; R];
        for (r, x) in x.iter_mut().enumerate() {
            // SAFETY: row r has `depth` codes, a multiple of 16.
            let codes = unsafe { vld1q_u8(tile.x.as_ptr().add(r * tile.depth + first)) };
            *x = vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(0x80)));
        }
        macro_rules! group {
            ($g:literal) => {
                // SAFETY: four groups of 8 columns × 4 codes contain these 16 depths.
                let (w0, w1) = unsafe {
                    let codes = tile.panel.as_ptr().add((first / GROUP + $g) * WIDTH * GROUP);
                    (vld1q_s8(codes), vld1q_s8(codes.add(16)))
                };
                totals = (dot::<0>(totals.0, w0, ones), dot::<0>(totals.1, w1, ones));
                for r in 0..R {
                    left[r] = dot::<$g>(left[r], w0, x[r]);
                    right[r] = dot::<$g>(right[r], w1, x[r]);
                }
            };
        }
        group!(0);
        group!(1);
        group!(2);
        group!(3);
    }
    let back = (vshlq_n_s32::<7>(totals.0), vshlq_n_s32::<7>(totals.1));
    for r in 0..R {
        let to = tile.sums[r * SPAN..r * SPAN + WIDTH].as_mut_ptr();
        // SAFETY: row r has room for eight sums.
        unsafe {
            vst1q_s32(to, vaddq_s32(left[r], back.0));
            vst1q_s32(to.add(4), vaddq_s32(right[r], back.1));
        }
    }
}
