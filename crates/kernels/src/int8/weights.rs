//! Weights rounded to integers.

use std::{cell::Cell, thread::LocalKey};

use rayon::prelude::*;

use super::{
    GROUP, Int8Kernel, MAX_DEPTH, Widths,
    inputs::{self, RowScale, round_row},
    kernel::Tile,
};
use crate::rounded::{RoundedWeights, Rows, ThreadState};

thread_local! {
    static BUFFER: Cell<Rows<u8, RowScale>> = Cell::default();
}

/// A linear layer's weights as integers, `n` outputs × `k` inputs, packed for one kernel.
#[derive(Clone)]
pub struct Int8Matrix {
    panels: Vec<i8>,
    /// One scale per output.
    scales: Vec<f32>,
    /// Σ of each output's codes.
    totals: Vec<i32>,
    n: usize,
    k: usize,
    widths: Widths,
    kernel: &'static Int8Kernel,
}

impl std::fmt::Debug for Int8Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (n, k, kernel) = (self.n, self.k, self.kernel.name());
        write!(f, "Int8Matrix({n} x {k}, {kernel})")
    }
}

impl Int8Matrix {
    /// Rounds a row-major `n × k` matrix and packs it for the fastest kernel.
    ///
    /// Each row gets the scale with the smallest squared error, out of nine between 70 % and 100 %
    /// of the scale that its largest weight requires. In rows with a few large weights, clipping
    /// those costs less than rounding all others more coarsely. A row with a weight that is not
    /// finite gives NaN, as in `f32`.
    ///
    /// # Panics
    /// If `weights` is not `n · k` long, or `k` is more than [`MAX_DEPTH`].
    pub fn quantise(weights: &[f32], n: usize, k: usize, widths: Widths) -> Self {
        Self::quantise_for(Int8Kernel::best(), weights, n, k, widths)
    }

    /// [`Int8Matrix::quantise`] for a chosen kernel.
    ///
    /// # Panics
    /// Those of [`Int8Matrix::quantise`].
    pub fn quantise_for(kernel: &'static Int8Kernel, weights: &[f32], n: usize, k: usize, widths: Widths) -> Self {
        assert_eq!(weights.len(), n * k, "weights are not n x k");
        assert!(k <= MAX_DEPTH, "deeper than the sums can hold");
        let (width, depth) = (kernel.width, k.next_multiple_of(kernel.depth_step));
        let mut panels = vec![0i8; n.div_ceil(width) * width * depth];
        let (mut scales, mut totals) = (vec![0.0; n], vec![0; n]);
        if k > 0 {
            panels
                .par_chunks_mut(width * depth)
                .zip(weights.par_chunks(width * k))
                .zip(scales.par_chunks_mut(width))
                .zip(totals.par_chunks_mut(width))
                .for_each(|(((panel, rows), scales), totals)| {
                    for (j, row) in rows.chunks_exact(k).enumerate() {
                        scales[j] = best_scale(row, widths.largest_weight());
                        totals[j] = put(panel, width, j, row, scales[j], widths.largest_weight());
                    }
                });
        }
        Self {
            panels,
            scales,
            totals,
            n,
            k,
            widths,
            kernel,
        }
    }

    /// Number of outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Bits of the codes.
    pub fn widths(&self) -> Widths {
        self.widths
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.panels.len() + (size_of::<f32>() + size_of::<i32>()) * self.n
    }

    /// `k`, padded.
    fn depth(&self) -> usize {
        self.k.next_multiple_of(self.kernel.depth_step)
    }
}

impl RoundedWeights for Int8Matrix {
    type Code = u8;
    type Sum = i32;
    type Scale = RowScale;

    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn stride(&self) -> usize {
        self.depth()
    }

    fn rows(&self) -> usize {
        self.kernel.rows
    }

    fn width(&self) -> usize {
        self.kernel.width
    }

    fn buffer() -> &'static LocalKey<Cell<Rows<u8, RowScale>>> {
        &BUFFER
    }

    fn round(&self, row: &[f32], codes: &mut [u8]) -> RowScale {
        round_row(row, codes, self.widths)
    }

    fn thread(&self) -> Option<&ThreadState> {
        self.kernel.thread.as_ref()
    }

    fn multiply(&self, x: &[u8], rows: usize, panel: usize, sums: &mut [i32]) {
        let (depth, len) = (self.depth(), self.kernel.width * self.depth());
        let tile = Tile {
            x,
            rows,
            panel: &self.panels[panel * len..(panel + 1) * len],
            depth,
            sums,
        };
        // SAFETY: a kernel is only available on a machine that has its instructions; the loops
        // prepare the thread.
        unsafe { (self.kernel.tile)(self.widths)(tile) };
    }

    fn open(&self, col: usize, sums: &[i32], row: RowScale, out: &mut [f32]) {
        let columns = col..col + sums.len();
        inputs::open(sums, row, &self.scales[columns.clone()], &self.totals[columns], out);
    }
}

/// Rounds one row into column `j` of a panel; returns the sum of its codes.
fn put(panel: &mut [i8], width: usize, j: usize, row: &[f32], scale: f32, largest: i32) -> i32 {
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let mut total = 0;
    for (i, weight) in row.iter().enumerate() {
        let code = round(weight * inverse, largest);
        total += code;
        // |code| ≤ 127.
        panel[(i / GROUP * width + j) * GROUP + i % GROUP] = i8::try_from(code).unwrap_or_default();
    }
    total
}

/// The nearest whole number within ± `largest`, ties to even; NaN becomes 0.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn round(value: f32, largest: i32) -> i32 {
    (value.round_ties_even() as i32).clamp(-largest, largest)
}

/// The scale, of nine candidates, with the smallest Σ (w - s · code)²; NaN if a weight is not
/// finite.
fn best_scale(row: &[f32], largest: i32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide(row: &[f32], largest: i32) -> f32 {
            best_scale_body(row, largest)
        }
        if crate::instructions::avx2() {
            // SAFETY: the feature was just detected.
            return unsafe { wide(row, largest) };
        }
    }
    best_scale_body(row, largest)
}

#[inline(always)]
#[allow(clippy::cast_precision_loss)]
fn best_scale_body(row: &[f32], largest: i32) -> f32 {
    /// Adding and subtracting 1.5 · 2²³ rounds to a whole number, ties to even.
    const ROUND: f32 = 12_582_912.0;
    if row.iter().any(|weight| !weight.is_finite()) {
        return f32::NAN;
    }
    let top = row.iter().fold(0.0f32, |top, weight| top.max(weight.abs())) / largest as f32;
    let bound = largest as f32;
    if 1.0 / top == f32::INFINITY {
        // Zero, or too small as a divisor.
        return 0.0;
    }
    let mut best = (f32::INFINITY, top);
    for step in 0..9u8 {
        let scale = top * (1.0 - 0.0375 * f32::from(step));
        let inverse = 1.0 / scale;
        let mut lanes = [0.0f32; 8];
        for weights in row.chunks(8) {
            for (lane, weight) in lanes.iter_mut().zip(weights) {
                let scaled = weight * inverse;
                let low = if scaled < -bound { -bound } else { scaled };
                let inside = if low > bound { bound } else { low };
                let error = scaled - ((inside + ROUND) - ROUND);
                *lane += error * error;
            }
        }
        let error = lanes.iter().sum::<f32>() * scale * scale;
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}
