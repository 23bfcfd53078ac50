//! Linear layers with eight-bit weights, multiplied as integers.
//!
//! Weights are rounded once, symmetrically, with one scale per output: `w ≈ s · c`. Inputs are
//! rounded row by row as they arrive, with their own scale and zero point: `x ≈ t · (q - z)`. Then
//!
//! `Σ w·x ≈ s·t · (Σ c·q - z · Σ c)`
//!
//! and both sums are integers. They are exact in any order, so every instruction set gives the same
//! bits, and a row's result depends only on that row and the weights.
//!
//! **No sum overflows.** With `|c| ≤ 127`, `0 ≤ q, z ≤ 255`, the bracket and the first sum are at
//! most 255 · 127 · k in size, below 2³¹ for every k ≤ 65 536 = [`MAX_DEPTH`].
//!
//! **Code widths.** AVX2 has no instruction that multiplies eight by eight bits without saturating.
//! With fewer bits it does not saturate, and with still fewer bits more products fit into sixteen
//! bits before they must be widened. The number of bits of the codes is therefore a choice
//! ([`Widths`]) made when weights are rounded, and it affects the result. Machines with wider
//! instructions process narrow codes equally well, so one choice gives the same numbers on all
//! machines.
//!
//! [`crate::quant`] is for weights that a file already stores in blocks; here weights are given as
//! floats.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod inputs;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod weights;

use crate::driver::{Epilogue, Output, SERIAL_BELOW, in_pieces};
use inputs::Rows;
use kernel::{MAX_ROWS, SPAN, Tile};

pub use kernel::Int8Kernel;
pub use weights::{Int8Matrix, Widths};

/// Maximum depth of a product whose sums fit into 32 bits.
pub const MAX_DEPTH: usize = 1 << 16;

/// Number of depths of a column that one multiply-add instruction processes.
const GROUP: usize = 4;

/// Depths are padded to a multiple of this, with codes of zero.
const DEPTH_STEP: usize = 16;

/// Number of rows that are multiplied with a panel before the next one is fetched; their codes stay
/// in a second-level cache.
const ROW_BLOCK: usize = 96;

/// `out = x · Wᵀ` and its epilogue, on the threads of the current pool: `x` is `m × k`, `out` is
/// `m × n`, both row-major. A row with a value that is not finite gives NaN.
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm_int8(x: &[f32], m: usize, weights: &Int8Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    let (out, parallel) = (
        checked(x, m, weights, epilogue, out),
        m * weights.n() * weights.k() >= SERIAL_BELOW,
    );
    if m == 0 || weights.n() == 0 {
        return;
    }
    if !parallel {
        return serial(x, m, weights, &out);
    }
    Rows::with(|rows| {
        rows.fill_on_all_threads(x, m, weights);
        in_pieces(m, weights.panels(), row_block(weights), |row, count, panel, panels| {
            block(rows, weights, &out, row, count, panel, panels);
        });
    });
}

/// [`gemm_int8`] on the calling thread only.
///
/// # Panics
/// As for [`gemm_int8`].
pub fn gemm_int8_serial(x: &[f32], m: usize, weights: &Int8Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    let out = checked(x, m, weights, epilogue, out);
    if m > 0 && weights.n() > 0 {
        serial(x, m, weights, &out);
    }
}

fn checked<'a>(x: &[f32], m: usize, weights: &Int8Matrix, epilogue: Epilogue<'a>, out: &'a mut [f32]) -> Output<'a> {
    assert_eq!(x.len(), m * weights.k(), "x is not m x k");
    Output::new(out, m, weights.n(), epilogue).coarse()
}

/// Rounds a block of rows and multiplies it before rounding the next, so that its codes stay in
/// cache.
fn serial(x: &[f32], m: usize, weights: &Int8Matrix, out: &Output<'_>) {
    Rows::with(|rows| {
        let step = row_block(weights);
        for first in (0..m).step_by(step) {
            let count = step.min(m - first);
            rows.start = first;
            rows.fill(&x[first * weights.k()..(first + count) * weights.k()], count, weights);
            block(rows, weights, out, first, count, 0, weights.panels());
        }
        rows.start = 0;
    });
}

fn row_block(weights: &Int8Matrix) -> usize {
    ROW_BLOCK.next_multiple_of(weights.kernel().rows())
}

/// Computes rows `row .. row + count` of panels `panel .. panel + panels`.
fn block(rows: &Rows, weights: &Int8Matrix, out: &Output<'_>, row: usize, count: usize, panel: usize, panels: usize) {
    let (kernel, depth) = (weights.kernel(), weights.depth());
    let (width, run) = (kernel.width(), kernel.tile(weights.widths()));
    let mut sums = [0i32; MAX_ROWS * SPAN];
    for start in (panel..panel + panels).step_by(SPAN / width) {
        let end = (panel + panels).min(start + SPAN / width);
        let (col, cols) = (start * width, (end * width).min(weights.n()) - start * width);
        let (scales, totals) = weights.columns(col, cols);
        for first in (row..row + count).step_by(kernel.rows()) {
            let tile_rows = kernel.rows().min(row + count - first);
            for panel in start..end {
                let tile = Tile {
                    x: rows.codes(first, tile_rows, depth),
                    rows: tile_rows,
                    panel: weights.panel(panel),
                    depth,
                    sums: &mut sums[(panel - start) * width..],
                };
                // SAFETY: a kernel is only available on a machine that has its instructions.
                unsafe { run(tile) };
            }
            for (r, sums) in sums.chunks_exact(SPAN).enumerate().take(tile_rows) {
                let (scale, zero) = rows.scale(first + r);
                // SAFETY: pieces are disjoint; only this one accesses these columns of this row.
                let out = unsafe { out.part(first + r, col, cols) };
                inputs::open(&sums[..cols], scale, zero, scales, totals, out);
            }
        }
        // SAFETY: as above; the slices taken there have been dropped.
        unsafe { out.finish(row, count, col, cols) };
    }
}
