//! Intel AMX: `tdpbusd` multiplies tiles of unsigned and signed codes; 32 rows × 32 columns.

use super::{
    GROUP,
    kernel::{Int8Kernel, Tile},
};
use crate::{
    rounded::SPAN,
    tiles::{self, Block},
};

/// Number of columns of a panel.
const WIDTH: usize = 32;
/// Number of depths of a tile.
const DEPTH: usize = 64;

pub(super) static KERNEL: Int8Kernel = Int8Kernel {
    name: "amx-int8",
    rows: tiles::ROWS,
    width: WIDTH,
    depth_step: DEPTH,
    tile: |_| run,
    thread: Some(tiles::STATE),
};

/// Whether the machine has tiles of codes, and their sums are exact.
pub(super) fn usable() -> bool {
    tiles::usable(tiles::Product::Int8) && sums_are_exact()
}

/// # Safety
/// [`usable`] returned true, and this thread is prepared.
unsafe fn run(tile: Tile<'_>) {
    tile.check(KERNEL.rows, WIDTH);
    let readable = if tile.rows > 16 { 32 } else { 16 };
    assert!(tile.depth.is_multiple_of(DEPTH), "depth is not padded");
    assert!(tile.x.len() >= readable * tile.depth, "x is too short");
    assert!(tile.sums.len() >= (readable - 1) * SPAN + WIDTH, "sums are too short");
    let block = Block {
        x: tile.x.as_ptr(),
        x_stride: tile.depth,
        rows: tile.rows,
        panel: tile.panel.as_ptr().cast(),
        depth: tile.depth,
        sums: tile.sums.as_mut_ptr().cast(),
        sums_stride: SPAN * size_of::<i32>(),
    };
    // SAFETY: checked; the caller's guarantee.
    unsafe { tiles::int8(&block) };
}

/// Compares one product with sums of integers.
///
/// Only called where [`tiles::usable`] returned true.
fn sums_are_exact() -> bool {
    let code = |i: usize| (i * 37 % 256) as u8;
    let x: Vec<u8> = (0..tiles::ROWS * DEPTH).map(code).collect();
    let panel: Vec<i8> = (0..WIDTH * DEPTH).map(|i| code(i + 5).cast_signed()).collect();
    let mut sums = vec![0i32; tiles::ROWS * SPAN];
    let tile = Tile {
        x: &x,
        rows: tiles::ROWS,
        panel: &panel,
        depth: DEPTH,
        sums: &mut sums,
    };
    // SAFETY: the caller has detected the instructions.
    unsafe {
        tiles::prepare();
        run(tile);
        tiles::release();
    }
    (0..tiles::ROWS * WIDTH).all(|at| {
        let (r, j) = (at / WIDTH, at % WIDTH);
        let term =
            |i: usize| i32::from(x[r * DEPTH + i]) * i32::from(panel[(i / GROUP * WIDTH + j) * GROUP + i % GROUP]);
        sums[r * SPAN + j] == (0..DEPTH).map(term).sum::<i32>()
    })
}
