//! In plain Rust: the references of both orders, and the pairs' order for machines whose vectors
//! have no instruction for it.

use super::{
    DEPTH_STEP, WIDTH,
    kernel::{Bf16Kernel, Order, Tile},
};
use crate::rounded::SPAN;

/// Rows of the kernels of this file.
const ROWS: usize = 4;

pub(super) static PORTABLE: Bf16Kernel = Bf16Kernel {
    name: "portable",
    order: Order::Pairs,
    rows: ROWS,
    run: portable,
    thread: None,
};

pub(super) static TILES: Bf16Kernel = Bf16Kernel {
    name: "portable-tiles",
    order: Order::Tiles,
    rows: ROWS,
    run: tiles,
    thread: None,
};

#[cfg(target_arch = "x86_64")]
pub(super) static AVX512: Bf16Kernel = Bf16Kernel {
    name: "avx512f",
    order: Order::Pairs,
    rows: ROWS,
    run: avx512,
    thread: None,
};

#[cfg(target_arch = "x86_64")]
pub(super) static AVX2: Bf16Kernel = Bf16Kernel {
    name: "avx2+fma",
    order: Order::Pairs,
    rows: ROWS,
    run: avx2,
    thread: None,
};

/// The lower and the upper number of a pair.
#[inline(always)]
fn pair(word: &[u16; 2]) -> [f32; 2] {
    word.map(|half| f32::from_bits(u32::from(half) << 16))
}

fn portable(tile: Tile<'_>) {
    pairs::<8, false>(tile);
}

/// # Safety
/// The machine has AVX-512 F and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
unsafe fn avx512(tile: Tile<'_>) {
    pairs::<32, true>(tile);
}

/// # Safety
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(tile: Tile<'_>) {
    pairs::<16, true>(tile);
}

/// Computes `COLUMNS` columns at a time. A product is exact, so it may be fused with the addition.
#[inline(always)]
fn pairs<const COLUMNS: usize, const FUSED: bool>(tile: Tile<'_>) {
    tile.check(tile.rows);
    let add = |sum: &mut f32, x: f32, weight: f32| {
        *sum = if FUSED {
            x.mul_add(weight, *sum)
        } else {
            *sum + x * weight
        };
    };
    for first in (0..WIDTH).step_by(COLUMNS) {
        let mut sums = [[0.0f32; COLUMNS]; ROWS];
        for (i, line) in tile
            .panel
            .as_chunks::<2>()
            .0
            .chunks_exact(WIDTH)
            .take(tile.depth / 2)
            .enumerate()
        {
            let columns = &line[first..first + COLUMNS];
            for (r, sums) in sums.iter_mut().enumerate().take(tile.rows) {
                let at = r * tile.stride + 2 * i;
                let [even, odd] = pair(&[tile.x[at], tile.x[at + 1]]);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    let weights = pair(column);
                    add(sum, odd, weights[1]);
                    add(sum, even, weights[0]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate().take(tile.rows) {
            let to = r * SPAN + first;
            tile.sums[to..to + COLUMNS].copy_from_slice(sums);
        }
    }
}

fn tiles(tile: Tile<'_>) {
    tile.check(tile.rows);
    for r in 0..tile.rows {
        for j in 0..WIDTH {
            let mut sum = 0.0f32;
            for block in (0..tile.depth).step_by(DEPTH_STEP) {
                let mut halves = [0.0f32; 2];
                for i in block..block + DEPTH_STEP {
                    let weight = tile.panel[(i / 2 * WIDTH + j) * 2 + i % 2];
                    let [x, weight] = pair(&[tile.x[r * tile.stride + i], weight]);
                    halves[i % 2] += x * weight;
                }
                sum += halves[0] + halves[1];
            }
            tile.sums[r * SPAN + j] = sum;
        }
    }
}
