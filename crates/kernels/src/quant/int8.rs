//! Integer products: eight-bit inputs against block-quantised weights.
//!
//! With inputs `x ≈ d · q` and weights `w = s · c + z` of one step, `Σ w·x = s·d·Σ c·q + z·d·Σ q`:
//! the first sum is an integer, exact in any order, and the second does not depend on the weights.
//! Steps are then added in `f32`, from first to last.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{
    Form, QuantMatrix,
    choice::tiles,
    format::RUN,
    layout::{Blocks, OCTET, TILE, split_nibbles},
    tile::{InputRun, OCTETS, ROWS, TileArgs, TileKernel},
};
use crate::{driver::Epilogue, gemm_panels};

/// Bytes of codes of a group of octets that stay in a second-level cache while all rows are
/// multiplied with them.
const GROUP_BYTES: usize = 128 << 10;

/// A product with fewer multiply-adds stays on the calling thread.
const SERIAL_BELOW: usize = 1 << 21;

/// Rows of eight-bit inputs: a buffer that calls of [`gemm_quant_int8`] reuse.
#[derive(Debug, Default)]
pub struct Int8Rows {
    codes: Vec<i8>,
    runs: Vec<InputRun>,
}

impl Int8Rows {
    /// Rounds every run of 32 to `d · q`, where `d` is its largest magnitude / 127, ties away from
    /// zero.
    fn fill(&mut self, x: &[f32], k: usize) {
        self.codes.resize(x.len(), 0);
        self.runs.resize(x.len() / RUN, InputRun::default());
        // Pieces of whole rows, large enough to justify a thread.
        let piece = k * (1usize << 15).div_ceil(k);
        if x.len() <= piece || rayon::current_num_threads() == 1 {
            return round_runs(x, &mut self.codes, &mut self.runs);
        }
        x.par_chunks(piece)
            .zip(self.codes.par_chunks_mut(piece))
            .zip(self.runs.par_chunks_mut(piece / RUN))
            .for_each(|((x, codes), runs)| round_runs(x, codes, runs));
    }
}

fn round_runs(x: &[f32], codes: &mut [i8], runs: &mut [InputRun]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide(x: &[f32], codes: &mut [i8], runs: &mut [InputRun]) {
            round_body(x, codes, runs);
        }
        if crate::instructions::avx2_and_fma() {
            // SAFETY: both features were just detected.
            return unsafe { wide(x, codes, runs) };
        }
    }
    round_body(x, codes, runs);
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn round_body(x: &[f32], codes: &mut [i8], runs: &mut [InputRun]) {
    let inputs = x.as_chunks::<RUN>().0.iter().zip(codes.as_chunks_mut::<RUN>().0);
    for ((x, codes), run) in inputs.zip(runs) {
        let mut largest = [0.0f32; 8];
        for part in x.as_chunks::<8>().0 {
            for (largest, x) in largest.iter_mut().zip(part) {
                let size = x.abs();
                *largest = if size > *largest { size } else { *largest };
            }
        }
        let largest = largest.iter().fold(0.0f32, |a, &b| if b > a { b } else { a });
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let mut rounded = [0i32; RUN];
        for (rounded, x) in rounded.iter_mut().zip(x) {
            let scaled = x * inverse;
            *rounded = (scaled + 0.5f32.copysign(scaled)) as i32;
        }
        for (code, &rounded) in codes.iter_mut().zip(&rounded) {
            *code = rounded as i8;
        }
        let first: i32 = rounded[..RUN / 2].iter().sum();
        let second: i32 = rounded[RUN / 2..].iter().sum();
        let scale = largest / 127.0;
        *run = InputRun {
            scale,
            total: first + second,
            sum: scale * (first + second) as f32,
            half_sums: [scale * first as f32, scale * second as f32],
        };
    }
}

/// `out = x · Wᵀ` with the rows of `x` rounded to eight bits, 32 at a time: `x` is `m × k`, `out`
/// is `m × n`, both row-major. Weights that are not quantised are multiplied in `f32`, as in
/// [`super::gemm_quant`].
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm_quant_int8(x: &[f32], m: usize, weights: &QuantMatrix, scratch: &mut Int8Rows, out: &mut [f32]) {
    match &weights.0 {
        Form::Floats(packed) => gemm_panels(x, m, packed, Epilogue::default(), out),
        Form::Blocks(blocks) => {
            assert_eq!(x.len(), m * blocks.k, "x is not m x k");
            assert_eq!(out.len(), m * blocks.n, "out is not m x n");
            if m == 0 || blocks.n == 0 {
                return;
            }
            if blocks.k == 0 {
                return out.fill(0.0);
            }
            scratch.fill(x, blocks.k);
            multiply(scratch, m, blocks, tiles(blocks.kind)[0], out);
        }
    }
}

struct SharedOut(*mut f32);

// SAFETY: threads write disjoint columns, and the exclusive borrow outlives them.
unsafe impl Sync for SharedOut {}

/// Unpacked weights of a group of octets; kept per thread, so that its pages are touched only once.
#[derive(Default)]
struct UnpackedWeights {
    codes: Vec<u8>,
    scales: Vec<f32>,
    minima: Vec<f32>,
}

thread_local! {
    static OPENED: RefCell<UnpackedWeights> = RefCell::default();
}

pub(super) fn multiply(x: &Int8Rows, m: usize, weights: &Blocks, tile: TileKernel, out: &mut [f32]) {
    let shared = SharedOut(out.as_mut_ptr());
    let octets = weights.octets();
    let threads = rayon::current_num_threads();
    let serial = threads == 1 || m * weights.n * weights.k < SERIAL_BELOW;
    let pieces = if serial { 1 } else { 4 * threads };
    let group = (GROUP_BYTES / (OCTET * weights.k)).clamp(1, octets.div_ceil(pieces));
    let group = group.next_multiple_of(tile.octets);
    let run_group = |index: usize| {
        let first = index * group;
        OPENED.with_borrow_mut(|unpacked| {
            // SAFETY: groups are disjoint columns of `out`, which is m × n.
            unsafe { multiply_group(x, m, weights, tile, first..octets.min(first + group), unpacked, &shared) };
        });
    };
    let groups = octets.div_ceil(group);
    if serial {
        (0..groups).for_each(run_group);
    } else {
        (0..groups).into_par_iter().for_each(run_group);
    }
}

/// # Safety
/// `out` is `m × n`, and no other code accesses the columns of these octets. `tile` can run on this
/// machine.
unsafe fn multiply_group(
    x: &Int8Rows,
    m: usize,
    weights: &Blocks,
    tile: TileKernel,
    octets: std::ops::Range<usize>,
    unpacked: &mut UnpackedWeights,
    out: &SharedOut,
) {
    let (n, k, runs) = (weights.n, weights.k, weights.runs());
    let steps = k / weights.kind.step();
    open(weights, octets.clone(), unpacked);
    let first = octets.start;
    for row in (0..m).step_by(tile.rows) {
        let rows = tile.rows.min(m - row);
        for octet in octets.clone().step_by(tile.octets) {
            let count = tile.octets.min(octets.end - octet);
            let codes = if weights.is_nibbles() {
                &unpacked.codes[(octet - first) * runs * TILE..][..count * runs * TILE]
            } else {
                weights.stored(octet..octet + count)
            };
            let at = (octet - first) * steps * OCTET..(octet - first + count) * steps * OCTET;
            let mut edge = [0.0f32; ROWS * OCTETS * OCTET];
            let width = count * OCTET;
            let cols = width.min(n - octet * OCTET);
            // SAFETY: row < m and octet · 8 < n.
            let target = unsafe { out.0.add(row * n + octet * OCTET) };
            let (to, to_stride) = if cols == width {
                (target, n)
            } else {
                (edge.as_mut_ptr(), width)
            };
            let args = TileArgs {
                x: x.codes[row * k..(row + rows) * k].as_ptr(),
                x_runs: x.runs[row * runs..(row + rows) * runs].as_ptr(),
                rows,
                runs,
                octets: count,
                codes: codes.as_ptr(),
                scales: unpacked.scales[at.clone()].as_ptr(),
                minima: unpacked.minima[at].as_ptr(),
                out: to,
                out_stride: to_stride,
            };
            // SAFETY: the slices above have the lengths that `rows`, `runs` and `count` give; `to`
            // is whole octets of `out`, or `edge`.
            unsafe { (tile.run)(args) };
            if cols < width {
                for r in 0..rows {
                    for j in 0..cols {
                        // SAFETY: row + r < m, and column octet · 8 + j < n.
                        unsafe { *target.add(r * n + j) = edge[r * width + j] };
                    }
                }
            }
        }
    }
}

/// Multiplies out scales and unpacks nibbles.
fn open(weights: &Blocks, octets: std::ops::Range<usize>, unpacked: &mut UnpackedWeights) {
    let (runs, steps) = (weights.runs(), weights.k / weights.kind.step());
    let count = octets.len();
    unpacked.scales.resize(count * steps * OCTET, 0.0);
    unpacked.minima.resize(count * steps * OCTET, 0.0);
    if weights.is_nibbles() {
        unpacked.codes.resize(count * runs * TILE, 0);
    }
    for (index, octet) in octets.enumerate() {
        let at = index * steps * OCTET;
        open_scales(
            weights,
            octet,
            &mut unpacked.scales[at..at + steps * OCTET],
            &mut unpacked.minima[at..at + steps * OCTET],
        );
        if weights.is_nibbles() {
            open_codes(
                weights.stored(octet..octet + 1),
                &mut unpacked.codes[index * runs * TILE..][..runs * TILE],
            );
        }
    }
}

fn open_scales(weights: &Blocks, octet: usize, scales: &mut [f32], minima: &mut [f32]) {
    for (step, (scales, minima)) in scales
        .as_chunks_mut::<OCTET>()
        .0
        .iter_mut()
        .zip(minima.as_chunks_mut::<OCTET>().0)
        .enumerate()
    {
        (*scales, *minima) = weights.scales(octet, step);
    }
}

fn open_codes(stored: &[u8], tiles: &mut [u8]) {
    for (stored, tile) in stored.chunks_exact(TILE / 2).zip(tiles.chunks_exact_mut(TILE)) {
        split_nibbles(stored, tile);
    }
}
