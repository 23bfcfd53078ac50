//! The innermost loop: a few rows of codes against one panel of codes.
//!
//! A *panel* is `width` columns side by side, in groups of four depths: `panel[(i / 4 · width + j)
//! · 4 + i mod 4]` is the code of column `j` at depth `i`. Every kernel reads this layout; only the
//! width differs.

#[cfg(target_arch = "x86_64")]
use super::GROUP;
use super::Widths;
use crate::rounded::{SPAN, ThreadState};

/// The arguments of a kernel:
/// `sums[r · SPAN + j] = Σ_i x[r · depth + i] · column j's code at depth i`. `x` has `rows` rows,
/// the panel has `width` columns, and `depth` is a multiple of 16.
pub(super) struct Tile<'a> {
    pub(super) x: &'a [u8],
    pub(super) rows: usize,
    pub(super) panel: &'a [i8],
    pub(super) depth: usize,
    pub(super) sums: &'a mut [i32],
}

impl Tile<'_> {
    /// Checks the shape against the slices, so that a kernel may read without bounds checks.
    #[inline(always)]
    pub(super) fn check(&self, maximum_rows: usize, width: usize) {
        assert!(self.rows >= 1 && self.rows <= maximum_rows, "too many rows");
        assert!(self.depth.is_multiple_of(super::DEPTH_STEP), "depth is not padded");
        assert!(self.x.len() >= self.rows * self.depth, "x is too short");
        assert!(self.panel.len() >= self.depth * width, "panel is too short");
        assert!(self.sums.len() >= (self.rows - 1) * SPAN + width, "sums are too short");
    }

    /// Four codes of a row as one word, in memory order.
    ///
    /// # Safety
    /// `row < rows` and `group < depth / 4`.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn word(&self, row: usize, group: usize) -> i32 {
        // SAFETY: inside `x`.
        unsafe {
            self.x
                .as_ptr()
                .add(row * self.depth + group * GROUP)
                .cast::<i32>()
                .read_unaligned()
        }
    }
}

/// A function that computes a tile.
///
/// # Safety
/// The machine has the instructions for which the function was compiled.
pub(super) type RunTile = unsafe fn(Tile<'_>);

/// An integer kernel for one instruction set.
#[derive(Debug)]
pub struct Int8Kernel {
    pub(super) name: &'static str,
    pub(super) rows: usize,
    pub(super) width: usize,
    /// Depths are padded to a multiple of this, with codes of zero.
    pub(super) depth_step: usize,
    /// The kernel function for these widths.
    pub(super) tile: fn(Widths) -> RunTile,
    /// State of the thread that calls the kernel function.
    pub(super) thread: Option<ThreadState>,
}

impl Int8Kernel {
    /// Short name for logs, e.g. `avx512-vnni`.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
