//! For any machine: 4 rows × 8 columns in plain Rust, shaped so that the compiler keeps the
//! accumulators in vector registers.

use super::{Kernel, Tile};
use crate::dispatch::for_rows;

const WIDTH: usize = 8;

pub(super) static KERNEL: Kernel = Kernel {
    name: "portable",
    rows: 4,
    width: WIDTH,
    run,
};

/// # Safety
/// The contract of [`Kernel::run_raw`] with whole panels.
unsafe fn run(tile: Tile) {
    // SAFETY: forwarded.
    unsafe { for_rows!(tile, rows []; 4 3 2) }
}

/// # Safety
/// As for [`run`], with `tile.rows == M`.
unsafe fn rows<const M: usize>(tile: Tile) {
    let mut sums = [[0.0f32; WIDTH]; M];
    if tile.accumulate {
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `out` holds M rows of WIDTH elements.
            *sums = unsafe { tile.out.add(r * tile.out_stride).cast::<[f32; WIDTH]>().read() };
        }
    }
    for i in 0..tile.depth {
        // SAFETY: `panel` holds `depth` rows of WIDTH elements.
        let weights = unsafe { tile.panel.add(i * WIDTH).cast::<[f32; WIDTH]>().read() };
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `x` holds M rows of `depth` elements.
            let x = unsafe { *tile.x.add(r * tile.x_stride + i) };
            for (sum, weight) in sums.iter_mut().zip(weights) {
                // Not `mul_add`, which calls the C library if the instruction does not exist.
                *sum += x * weight;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { tile.out.add(r * tile.out_stride).cast::<[f32; WIDTH]>().write(*sums) };
    }
}
