//! The innermost loop: a few rows of bfloat16 against one panel.
//!
//! A *panel* is 32 columns side by side, in pairs of depths: `panel[(i / 2 · 32 + j) · 2 + i mod
//! 2]` is the weight of column `j` at depth `i`. Every kernel reads this layout.

use std::sync::OnceLock;

use super::{DEPTH_STEP, WIDTH, plain};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx512};
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
    /// The fastest kernel for this machine; looked up once.
    pub fn best() -> &'static Bf16Kernel {
        static BEST: OnceLock<&'static Bf16Kernel> = OnceLock::new();
        BEST.get_or_init(|| Self::available().first().copied().unwrap_or(&plain::PORTABLE))
    }

    /// Every kernel for this machine, fastest first.
    pub fn available() -> Vec<&'static Bf16Kernel> {
        let mut kernels: Vec<&'static Bf16Kernel> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use crate::instructions::{avx2_and_fma, avx512};
            if avx512() && amx::usable() {
                kernels.push(&amx::KERNEL);
            }
            if avx512() && std::arch::is_x86_feature_detected!("avx512bf16") {
                kernels.push(&avx512::KERNEL);
            }
            if avx512() {
                kernels.push(&plain::AVX512);
            }
            if avx2_and_fma() {
                kernels.push(&plain::AVX2);
            }
        }
        kernels.push(&plain::PORTABLE);
        kernels
    }

    /// A reference in plain Rust for every order, on any machine.
    pub fn reference(order: Order) -> &'static Bf16Kernel {
        match order {
            Order::Pairs => &plain::PORTABLE,
            Order::Tiles => &plain::TILES,
        }
    }

    /// Short name for logs, e.g. `avx512-bf16`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The order of its sums. Kernels of one order give the same bits.
    pub fn order(&self) -> Order {
        self.order
    }
}
