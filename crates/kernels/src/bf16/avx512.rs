//! AVX-512 BF16: `vdpbf16ps` multiplies the pairs of 16 columns; 14 rows × 32 columns.

use std::arch::x86_64::{
    __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::{
    WIDTH,
    kernel::{Bf16Kernel, Order, Tile},
};
use crate::dispatch::for_rows;
use crate::rounded::SPAN;

const ROWS: usize = 14;

pub(super) static KERNEL: Bf16Kernel = Bf16Kernel {
    name: "avx512-bf16",
    order: Order::Pairs,
    rows: ROWS,
    run,
    thread: None,
};

/// # Safety
/// The machine has AVX-512 F and BF16.
unsafe fn run(tile: Tile<'_>) {
    tile.check(tile.rows);
    // SAFETY: checked; forwarded.
    unsafe { for_rows!(tile, rows []; 14 13 12 11 10 9 8 7 6 5 4 3 2) }
}

/// # Safety
/// As for [`run`], with `tile.rows == M` and the tile's shape checked.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<const M: usize>(tile: Tile<'_>) {
    let mut left = [_mm512_setzero_ps(); M];
    let mut right = [_mm512_setzero_ps(); M];
    let pairs = |bits: __m512i| -> __m512bh {
        // SAFETY: both types are 64 bytes in which every bit pattern is valid.
        unsafe { std::mem::transmute(bits) }
    };
    for i in 0..tile.depth / 2 {
        // SAFETY: i < depth / 2; a depth of the panel is 32 pairs, two lines; r < rows.
        unsafe {
            let line = tile.panel.as_ptr().add(i * 2 * WIDTH);
            let w0 = pairs(_mm512_loadu_si512(line.cast()));
            let w1 = pairs(_mm512_loadu_si512(line.add(WIDTH).cast()));
            for r in 0..M {
                let word = tile
                    .x
                    .as_ptr()
                    .add(r * tile.stride + 2 * i)
                    .cast::<i32>()
                    .read_unaligned();
                let x = pairs(_mm512_set1_epi32(word));
                left[r] = _mm512_dpbf16_ps(left[r], x, w0);
                right[r] = _mm512_dpbf16_ps(right[r], x, w1);
            }
        }
    }
    for r in 0..M {
        let to = tile.sums[r * SPAN..r * SPAN + WIDTH].as_mut_ptr();
        // SAFETY: row r has room for 32 sums.
        unsafe {
            _mm512_storeu_ps(to, left[r]);
            _mm512_storeu_ps(to.add(16), right[r]);
        }
    }
}
