//! The innermost loop: a few rows of `x` against one panel of weights.
//!
//! A *panel* is `width` columns of the output side by side, stored `k`-major:
//! `panel[i * width + j]` is weight `j` at depth `i`. A kernel holds `rows × width` accumulators in
//! registers and traverses the depth once, so each output element is one chain of multiply-adds in
//! order of `k`. If the depth is traversed in several blocks, the same chain continues from the
//! stored value, so blocking never changes a bit.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use std::sync::OnceLock;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::instructions;

/// Maximum number of rows that any kernel processes at once.
pub const MAX_ROWS: usize = 16;
/// Maximum width of a panel of any kernel.
pub const MAX_WIDTH: usize = 32;

/// A micro-kernel for one instruction set.
#[derive(Debug)]
pub struct Kernel {
    name: &'static str,
    rows: usize,
    width: usize,
    run: unsafe fn(Tile),
}

/// The arguments of a micro-kernel. Invariants are those of [`Kernel::run_raw`].
#[derive(Clone, Copy)]
struct Tile {
    x: *const f32,
    x_stride: usize,
    rows: usize,
    panel: *const f32,
    depth: usize,
    out: *mut f32,
    out_stride: usize,
    accumulate: bool,
}

impl Kernel {
    /// The fastest kernel for this machine; looked up once.
    pub fn best() -> &'static Kernel {
        static BEST: OnceLock<&'static Kernel> = OnceLock::new();
        BEST.get_or_init(|| Self::available().first().copied().unwrap_or(&portable::KERNEL))
    }

    /// Every kernel for this machine, fastest first.
    pub fn available() -> Vec<&'static Kernel> {
        let mut kernels: Vec<&'static Kernel> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if instructions::avx512() {
            kernels.push(&avx512::KERNEL);
        }
        #[cfg(target_arch = "x86_64")]
        if instructions::avx2_and_fma() {
            kernels.push(&avx2::KERNEL);
        }
        #[cfg(target_arch = "aarch64")]
        if instructions::allows(instructions::Instructions::Avx2) {
            kernels.push(&neon::KERNEL);
        }
        kernels.push(&portable::KERNEL);
        kernels
    }

    /// Short name for logs, e.g. `avx2+fma`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of rows processed at once at full speed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns in a panel.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Multiplies `rows` rows of `x` with a panel: `out[r][j] (+)= Σ_i x[r][i] · panel[i][j]` for
    /// `j < cols`.
    ///
    /// `x` contains rows `x_stride` apart, each at least `depth` long; `panel` is `depth × width`;
    /// `out` rows are `out_stride` apart. With `accumulate` the sums continue from the content of
    /// `out`; otherwise it is overwritten.
    ///
    /// # Panics
    /// If a slice is shorter than the shape requires, or `cols > width`.
    #[allow(clippy::too_many_arguments)]
    pub fn run(
        &self,
        x: &[f32],
        x_stride: usize,
        rows: usize,
        panel: &[f32],
        depth: usize,
        out: &mut [f32],
        out_stride: usize,
        cols: usize,
        accumulate: bool,
    ) {
        if rows == 0 || cols == 0 {
            return;
        }
        assert!(depth <= x_stride || rows == 1, "rows of x overlap");
        assert!(x.len() >= (rows - 1) * x_stride + depth, "x is too short");
        assert!(panel.len() >= depth * self.width, "panel is too short");
        assert!(
            cols <= self.width && (cols <= out_stride || rows == 1),
            "too many columns"
        );
        assert!(out.len() >= (rows - 1) * out_stride + cols, "out is too short");
        // SAFETY: the assertions above are exactly the contract; `out` is borrowed exclusively.
        unsafe {
            self.run_raw(
                x.as_ptr(),
                x_stride,
                rows,
                panel.as_ptr(),
                depth,
                out.as_mut_ptr(),
                out_stride,
                cols,
                accumulate,
                &[],
            )
        }
    }

    /// [`Kernel::run`] on raw pointers, for drivers that give disjoint column ranges of one matrix
    /// to several threads. `next` is the data needed next; it is prefetched piece by piece while
    /// the rows are processed.
    ///
    /// # Safety
    /// `x` is readable for `rows` rows of `depth` elements `x_stride` apart, `panel` for
    /// `depth × width` elements, and `out` is writable for `rows` rows of `cols ≤ width` elements
    /// `out_stride` apart, which no other code accesses.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn run_raw(
        &self,
        x: *const f32,
        x_stride: usize,
        rows: usize,
        panel: *const f32,
        depth: usize,
        out: *mut f32,
        out_stride: usize,
        cols: usize,
        accumulate: bool,
        next: &[f32],
    ) {
        let share = next.len().div_ceil(rows.div_ceil(self.rows).max(FETCH_OVER));
        let mut fetched = next.chunks(share.max(1));
        let mut first = 0;
        while first < rows {
            let count = self.rows.min(rows - first);
            fetched.next().into_iter().for_each(fetch);
            // SAFETY: `first < rows`, so both stay inside their matrices.
            let (x, out) = unsafe { (x.add(first * x_stride), out.add(first * out_stride)) };
            if cols == self.width {
                // SAFETY: the caller's contract, restricted to `count` rows; a constructor of
                // `Kernel` was only reachable after the instruction set was detected.
                unsafe {
                    (self.run)(Tile {
                        x,
                        x_stride,
                        rows: count,
                        panel,
                        depth,
                        out,
                        out_stride,
                        accumulate,
                    })
                };
            } else {
                // For a narrower last panel, the kernel writes a whole panel into a buffer.
                let mut edge = [0.0f32; MAX_ROWS * MAX_WIDTH];
                for r in 0..count * usize::from(accumulate) {
                    for j in 0..cols {
                        // SAFETY: row r < count, column j < cols of `out`.
                        edge[r * self.width + j] = unsafe { *out.add(r * out_stride + j) };
                    }
                }
                // SAFETY: `edge` has room for MAX_ROWS × MAX_WIDTH, which no kernel exceeds.
                unsafe {
                    (self.run)(Tile {
                        x,
                        x_stride,
                        rows: count,
                        panel,
                        depth,
                        out: edge.as_mut_ptr(),
                        out_stride: self.width,
                        accumulate,
                    })
                };
                for r in 0..count {
                    for j in 0..cols {
                        // SAFETY: as above.
                        unsafe { *out.add(r * out_stride + j) = edge[r * self.width + j] };
                    }
                }
            }
            first += count;
        }
    }
}

/// Minimum number of tiles over which the prefetches of a panel are spread, so that they do not
/// obstruct each other.
const FETCH_OVER: usize = 8;

/// Prefetches memory into the second-level cache.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(crate) fn fetch(values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(16) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
}
