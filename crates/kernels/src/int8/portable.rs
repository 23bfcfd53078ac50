//! For any machine: 4 rows × 8 columns in plain Rust. It is the reference for the other kernels.

use super::{
    DEPTH_STEP, GROUP,
    kernel::{Int8Kernel, Tile},
};
use crate::rounded::SPAN;

const ROWS: usize = 4;
const WIDTH: usize = 8;

pub(super) static KERNEL: Int8Kernel = Int8Kernel {
    name: "portable",
    rows: ROWS,
    width: WIDTH,
    depth_step: DEPTH_STEP,
    tile: |_| run,
    thread: None,
};

fn run(tile: Tile<'_>) {
    tile.check(ROWS, WIDTH);
    for r in 0..tile.rows {
        let row = &tile.x[r * tile.depth..(r + 1) * tile.depth];
        let mut sums = [0i32; WIDTH];
        let groups = row.as_chunks::<GROUP>().0.iter();
        for (x, columns) in groups.zip(tile.panel.as_chunks::<GROUP>().0.as_chunks::<WIDTH>().0) {
            for (sum, column) in sums.iter_mut().zip(columns) {
                for (&x, &code) in x.iter().zip(column) {
                    *sum += i32::from(x) * i32::from(code);
                }
            }
        }
        tile.sums[r * SPAN..r * SPAN + WIDTH].copy_from_slice(&sums);
    }
}
