//! The innermost loop: a few rows of bfloat16 against one panel.
//!
//! A *panel* is 32 columns side by side, in pairs of depths: `panel[(i / 2 · 32 + j) · 2 + i mod
//! 2]` is the weight of column `j` at depth `i`. Every kernel reads this layout.

use super::{DEPTH_STEP, WIDTH};
use crate::rounded::{MAX_ROWS, SPAN, ThreadState};

/// The arguments of a kernel: `sums[r · SPAN + j] = Σ_i x[r · stride + i] · weight (i, j)`, in the
/// kernel's order.
pub(super) struct Tile<'a> {
    pub(super) x: &'a [u16],
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) panel: &'a [u16],
    pub(super) depth: usize,
    pub(super) sums: &'a mut [f32],
}

impl Tile<'_> {
    /// Checks the shape against the slices, so that a kernel may read `readable` rows without
    /// bounds checks.
    #[inline(always)]
    pub(super) fn check(&self, readable: usize) {
        assert!(self.rows >= 1 && self.rows <= readable.min(MAX_ROWS), "too many rows");
        assert!(
            self.depth.is_multiple_of(DEPTH_STEP) && self.depth <= self.stride,
            "depth is not padded"
        );
        assert!(self.x.len() >= readable * self.stride, "x is too short");
        assert!(self.panel.len() >= self.depth * WIDTH, "panel is too short");
        assert!(self.sums.len() >= (readable - 1) * SPAN + WIDTH, "sums are too short");
    }
}

/// The order in which a kernel adds products; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One chain over pairs of depths.
    Pairs,
    /// Blocks of 32 depths, even and odd ones apart.
    Tiles,
}

/// A kernel for one instruction set.
#[derive(Debug)]
pub struct Bf16Kernel {
    pub(super) name: &'static str,
    pub(super) order: Order,
    pub(super) rows: usize,
    /// # Safety
    /// The machine has the instructions for which the function was compiled, and the thread is
    /// prepared.
    pub(super) run: unsafe fn(Tile<'_>),
    /// State of the thread that calls `run`.
    pub(super) thread: Option<ThreadState>,
}

impl Bf16Kernel {
    /// Short name for logs, e.g. `avx512-bf16`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The order of its sums. Kernels of one order give the same bits.
    pub fn order(&self) -> Order {
        self.order
    }
}
