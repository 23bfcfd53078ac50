//! Weights rounded to bfloat16, in panels.

use std::{cell::Cell, thread::LocalKey};

use rayon::prelude::*;

use super::{
    Bf16Kernel, DEPTH_STEP, WIDTH,
    kernel::Tile,
    round::{round, round_row},
};
use crate::rounded::{RoundedWeights, Rows, ThreadState};

/// Rows a multiple of this number of codes apart compete for the same lines of a first-level cache.
const CONFLICT: usize = 512;

thread_local! {
    static BUFFER: Cell<Rows<u16, ()>> = Cell::default();
}

/// A linear layer's weights in bfloat16, `n` outputs × `k` inputs, packed for one kernel.
#[derive(Clone)]
pub struct Bf16Matrix {
    panels: Vec<Line>,
    n: usize,
    k: usize,
    kernel: &'static Bf16Kernel,
}

/// The pairs of one depth of half a panel: a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u16; WIDTH]);

impl std::fmt::Debug for Bf16Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bf16Matrix({} x {}, {})", self.n, self.k, self.kernel.name())
    }
}

impl Bf16Matrix {
    /// Rounds a row-major `n × k` matrix and packs it for the fastest kernel.
    ///
    /// # Panics
    /// If `weights` is not `n · k` long.
    pub fn pack(weights: &[f32], n: usize, k: usize) -> Self {
        Self::pack_for(Bf16Kernel::best(), weights, n, k)
    }

    /// [`Bf16Matrix::pack`] for a chosen kernel.
    ///
    /// # Panics
    /// If `weights` is not `n · k` long.
    pub fn pack_for(kernel: &'static Bf16Kernel, weights: &[f32], n: usize, k: usize) -> Self {
        assert_eq!(weights.len(), n * k, "weights are not n x k");
        let depth = k.next_multiple_of(DEPTH_STEP);
        let mut panels = vec![Line([0; WIDTH]); n.div_ceil(WIDTH) * depth];
        if k > 0 {
            panels
                .par_chunks_mut(depth)
                .zip(weights.par_chunks(WIDTH * k))
                .for_each(|(panel, rows)| fill_panel(panel, rows, k));
        }
        Self { panels, n, k, kernel }
    }

    /// Number of outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.panels)
    }

    fn depth(&self) -> usize {
        self.k.next_multiple_of(DEPTH_STEP)
    }
}

/// Rounds up to 32 rows of length `k` into one panel.
fn fill_panel(panel: &mut [Line], rows: &[f32], k: usize) {
    for (j, row) in rows.chunks_exact(k).enumerate() {
        for (i, &weight) in row.iter().enumerate() {
            // Two lines hold the pairs of one depth, 16 columns each.
            panel[i / 2 * 2 + j / 16].0[j % 16 * 2 + i % 2] = round(weight);
        }
    }
}

impl RoundedWeights for Bf16Matrix {
    type Code = u16;
    type Sum = f32;
    type Scale = ();

    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    fn stride(&self) -> usize {
        let depth = self.depth();
        depth + if depth.is_multiple_of(CONFLICT) { DEPTH_STEP } else { 0 }
    }

    fn rows(&self) -> usize {
        self.kernel.rows
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn buffer() -> &'static LocalKey<Cell<Rows<u16, ()>>> {
        &BUFFER
    }

    fn round(&self, row: &[f32], codes: &mut [u16]) {
        round_row(row, codes);
    }

    fn thread(&self) -> Option<&ThreadState> {
        self.kernel.thread.as_ref()
    }

    fn multiply(&self, x: &[u16], rows: usize, panel: usize, sums: &mut [f32]) {
        let depth = self.depth();
        let lines = &self.panels[panel * depth..(panel + 1) * depth];
        // SAFETY: a line is 32 numbers without padding.
        let panel = unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<u16>(), lines.len() * WIDTH) };
        let tile = Tile {
            x,
            stride: self.stride(),
            rows,
            panel,
            depth,
            sums,
        };
        // SAFETY: a kernel is only available on a machine that has its instructions; the
        // loops prepare the thread.
        unsafe { (self.kernel.run)(tile) };
    }

    fn open(&self, _col: usize, sums: &[f32], (): (), out: &mut [f32]) {
        out.copy_from_slice(sums);
    }
}
