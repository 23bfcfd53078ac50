//! Intel AMX: 32 rows × 32 columns in tiles.

use super::{
    DEPTH_STEP, WIDTH,
    kernel::{Bf16Kernel, Order, Tile},
    plain,
};
use crate::{
    rounded::SPAN,
    tiles::{self, Block},
};

pub(super) static KERNEL: Bf16Kernel = Bf16Kernel {
    name: "amx-bf16",
    order: Order::Tiles,
    rows: tiles::ROWS,
    run,
    thread: Some(tiles::STATE),
};

/// Whether the machine has tiles of bfloat16, and they give the bits of the reference.
pub(super) fn usable() -> bool {
    tiles::usable(tiles::Product::Bf16) && agrees_with_the_reference()
}

/// # Safety
/// [`usable`] returned true, and this thread is prepared.
unsafe fn run(tile: Tile<'_>) {
    tile.check(if tile.rows > 16 { 32 } else { 16 });
    let block = Block {
        x: tile.x.as_ptr().cast(),
        x_stride: tile.stride * size_of::<u16>(),
        rows: tile.rows,
        panel: tile.panel.as_ptr().cast(),
        depth: tile.depth * size_of::<u16>(),
        sums: tile.sums.as_mut_ptr().cast(),
        sums_stride: SPAN * size_of::<f32>(),
    };
    // SAFETY: checked; the caller's guarantee.
    unsafe { tiles::bf16(&block) };
}

/// Compares one product with the reference. A processor or an emulator whose tiles round otherwise
/// would give vectors of another space.
///
/// Only called where [`tiles::usable`] returned true.
fn agrees_with_the_reference() -> bool {
    const DEPTH: usize = 2 * DEPTH_STEP;
    // Numbers between 1 and 2 with all bits of the mantissa in use, of both signs.
    let code = |i: usize| 0x3f80 | ((i * 37 % 128) | ((i * 11 % 2) << 15)) as u16;
    let x: Vec<u16> = (0..tiles::ROWS * DEPTH).map(code).collect();
    let panel: Vec<u16> = (0..DEPTH * WIDTH).map(|i| code(i + 5)).collect();
    let sums = |kernel: &Bf16Kernel| {
        let mut sums = vec![0.0f32; tiles::ROWS * SPAN];
        for first in (0..tiles::ROWS).step_by(kernel.rows) {
            let tile = Tile {
                x: &x[first * DEPTH..],
                stride: DEPTH,
                rows: kernel.rows,
                panel: &panel,
                depth: DEPTH,
                sums: &mut sums[first * SPAN..],
            };
            // SAFETY: the caller has detected the instructions and prepares this thread.
            unsafe { (kernel.run)(tile) };
        }
        sums
    };
    // SAFETY: the caller has detected the instructions.
    unsafe { tiles::prepare() };
    let by_tiles = sums(&KERNEL);
    // SAFETY: as above.
    unsafe { tiles::release() };
    by_tiles == sums(&plain::TILES)
}
