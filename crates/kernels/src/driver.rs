//! The loops around the micro-kernel: blocking for the caches, division among threads, and the
//! epilogue that runs while a result is still in cache.

use std::cell::Cell;

use rayon::prelude::*;

use crate::{AlignedFloats, PackedMatrix, micro::Kernel, rows};

/// Default depth of a block: 256 × 16 floats of a panel stay in a first-level cache while all rows
/// are multiplied with them. A multiple of the block sizes of all GGUF quantisations.
pub const KBLOCK: usize = 256;

/// A product with fewer multiply-adds stays on the calling thread, because waking others costs more
/// than it saves.
pub(crate) const SERIAL_BELOW: usize = 1 << 20;

/// Number of rows that are multiplied with a panel before the next one is fetched; their slice of
/// `x` stays in a second-level cache.
const ROW_BLOCK: usize = 192;

/// Number of columns whose epilogue (bias, activation and so on) runs together; a multiple of every
/// kernel's width. Long rows make the epilogue cheap, and the rows of a block are still in a
/// second-level cache.
const FINISHED_TOGETHER: usize = 128;

/// Minimum number of panels for which copying a block of `x` first pays off.
const COPIED_FOR: usize = 8;
/// Padding between the rows of the copy: a cache line, so that the starts of rows map to different
/// cache sets.
const COPY_PADDING: usize = 16;

thread_local! {
    static COPY: Cell<AlignedFloats> = Cell::default();
}

/// Weights that can be unpacked one panel at a time.
pub trait PanelSource: Sync {
    /// Number of outputs.
    fn n(&self) -> usize;
    /// Number of inputs.
    fn k(&self) -> usize;
    /// The kernel whose panel layout [`PanelSource::panel`] returns.
    fn kernel(&self) -> &'static Kernel {
        Kernel::best()
    }
    /// Panel number `panel` (columns `panel · width ..`), depths `first .. first + depth`, as
    /// `depth × width` floats with zeros in columns beyond `n`. `first` is a multiple of
    /// [`PanelSource::block`]. `scratch` is memory for unpacking.
    fn panel<'a>(&'a self, panel: usize, first: usize, depth: usize, scratch: &'a mut Vec<f32>) -> &'a [f32];
    /// Depth of a block; see [`KBLOCK`].
    fn block(&self) -> usize {
        KBLOCK
    }
    /// The same panel, if it is stored in memory in this form, so that it can be prefetched; else
    /// `None`.
    fn stored(&self, _panel: usize, _first: usize, _depth: usize) -> &[f32] {
        &[]
    }
    /// Whether unpacking is costly. If so, panels are unpacked once for all rows instead of once
    /// for each block of rows.
    fn is_costly(&self) -> bool {
        false
    }
}

/// Element-wise function applied to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// No activation.
    #[default]
    Identity,
    /// Exact GELU, `x · Φ(x)`.
    Gelu,
    /// GELU with the hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Applies it in place to values that are then rounded to bfloat16 or to eight bits.
    pub(crate) fn apply_coarse(self, values: &mut [f32]) {
        match self {
            Self::Gelu => rows::gelu_coarse(values),
            other => other.apply(values),
        }
    }

    /// Applies it in place.
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Self::Identity => {}
            Self::Gelu => rows::gelu(values),
            Self::GeluTanh => rows::gelu_tanh(values),
            Self::Relu => rows::relu(values),
            Self::Silu => rows::silu(values),
            // Only small heads use it, so the standard library's function is exact and fast enough.
            Self::Tanh => values.iter_mut().for_each(|value| *value = value.tanh()),
        }
    }
}

/// The steps applied to `x · Wᵀ` before it is returned: `+ bias`, then the activation, then `·
/// factor`, then `+ residual`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// One value per output.
    pub bias: Option<&'a [f32]>,
    /// Applied after the bias.
    pub activation: Activation,
    /// `m × n`, multiplied with the activation's result: the gate of a gated feed-forward.
    pub factor: Option<&'a [f32]>,
    /// `m × n`, added last.
    pub residual: Option<&'a [f32]>,
}

/// `out = x · Wᵀ (+ bias)`: `x` is `m × k`, `out` is `m × n`, both row-major.
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm(x: &[f32], m: usize, weights: &PackedMatrix, bias: Option<&[f32]>, out: &mut [f32]) {
    gemm_panels(
        x,
        m,
        weights,
        Epilogue {
            bias,
            ..Epilogue::default()
        },
        out,
    );
}

/// [`gemm`] with an activation and a residual in the same pass.
///
/// # Panics
/// As for [`gemm`].
pub fn gemm_with(x: &[f32], m: usize, weights: &PackedMatrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    gemm_panels(x, m, weights, epilogue, out);
}

/// [`gemm_with`] on the calling thread only, for callers that already divide their batches among
/// threads.
///
/// # Panics
/// As for [`gemm`].
pub fn gemm_serial(x: &[f32], m: usize, weights: &PackedMatrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    if let Some(product) = Product::new(x, m, weights, epilogue, out) {
        product.on_this_thread(m);
    }
}

/// [`gemm_with`] for weights in any format.
///
/// # Panics
/// As for [`gemm`].
pub fn gemm_panels<W: PanelSource + ?Sized>(x: &[f32], m: usize, weights: &W, epilogue: Epilogue<'_>, out: &mut [f32]) {
    let Some(product) = Product::new(x, m, weights, epilogue, out) else {
        return;
    };
    if m * weights.n() * weights.k() < SERIAL_BELOW {
        return product.on_this_thread(m);
    }
    in_pieces(m, product.panels(), product.row_block(m), |row, rows, panel, panels| {
        product.block(row, rows, panel, panels);
    });
}

/// Divides `m` rows × `panels` panels among the threads of the current pool and runs
/// `piece(row, rows, panel, panels)` on each part. Rows are divided in multiples of `row_block`.
pub(crate) fn in_pieces(m: usize, panels: usize, row_block: usize, piece: impl Fn(usize, usize, usize, usize) + Sync) {
    let threads = rayon::current_num_threads();
    let row_blocks = m.div_ceil(row_block);
    if threads == 1 {
        return (0..row_blocks).for_each(|block| {
            let row = block * row_block;
            piece(row, row_block.min(m - row), 0, panels);
        });
    }
    // About four pieces per thread even out their speeds. Rows are divided first, and columns if
    // that is not enough.
    let group = panels.div_ceil((4 * threads).div_ceil(row_blocks).clamp(1, panels));
    let groups = panels.div_ceil(group);
    (0..row_blocks * groups).into_par_iter().for_each(|index| {
        let (row, panel) = ((index / groups) * row_block, (index % groups) * group);
        piece(row, row_block.min(m - row), panel, group.min(panels - panel));
    });
}

/// An output matrix whose disjoint parts are written by several threads, with the epilogue of
/// finished parts.
pub(crate) struct Output<'a> {
    values: *mut f32,
    m: usize,
    n: usize,
    epilogue: Epilogue<'a>,
    coarse: bool,
}

// SAFETY: callers of the unsafe methods guarantee that pieces are disjoint in rows or in columns;
// the exclusive borrow of `new` outlives them.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Checks the shapes.
    pub(crate) fn new(out: &'a mut [f32], m: usize, n: usize, epilogue: Epilogue<'a>) -> Self {
        assert_eq!(out.len(), m * n, "out is not m x n");
        assert!(epilogue.bias.is_none_or(|b| b.len() == n), "bias is not n long");
        assert!(epilogue.factor.is_none_or(|f| f.len() == m * n), "factor is not m x n");
        assert!(
            epilogue.residual.is_none_or(|r| r.len() == m * n),
            "residual is not m x n"
        );
        Self {
            values: out.as_mut_ptr(),
            m,
            n,
            epilogue,
            coarse: false,
        }
    }

    /// Uses an activation whose precision suffices where the next product rounds its inputs.
    pub(crate) fn coarse(self) -> Self {
        Self { coarse: true, ..self }
    }

    /// Columns `col .. col + cols` of a row.
    ///
    /// # Safety
    /// No other code accesses these elements in the meantime.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, row: usize, col: usize, cols: usize) -> &mut [f32] {
        assert!(row < self.m && col + cols <= self.n, "outside the matrix");
        // SAFETY: inside the matrix; only the caller accesses it.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(row * self.n + col), cols) }
    }

    /// Applies bias, activation, factor and residual to a part whose sums are complete.
    ///
    /// # Safety
    /// No other code accesses these elements in the meantime.
    pub(crate) unsafe fn finish(&self, row: usize, rows: usize, col: usize, cols: usize) {
        let Epilogue {
            bias,
            activation,
            factor,
            residual,
        } = self.epilogue;
        if bias.is_none() && factor.is_none() && residual.is_none() && activation == Activation::Identity {
            return;
        }
        for r in row..row + rows {
            // SAFETY: the caller's guarantee.
            let out = unsafe { self.part(r, col, cols) };
            let at = r * self.n + col..r * self.n + col + cols;
            if let Some(bias) = bias {
                rows::add(out, &bias[col..col + cols]);
            }
            if self.coarse {
                activation.apply_coarse(out);
            } else {
                activation.apply(out);
            }
            if let Some(factor) = factor {
                rows::multiply(out, &factor[at.clone()]);
            }
            if let Some(residual) = residual {
                rows::add(out, &residual[at]);
            }
        }
    }
}

struct Product<'a, W: ?Sized> {
    x: &'a [f32],
    weights: &'a W,
    out: Output<'a>,
}

impl<'a, W: PanelSource + ?Sized> Product<'a, W> {
    /// Checks the shapes; `None` if there is nothing to compute.
    fn new(x: &'a [f32], m: usize, weights: &'a W, epilogue: Epilogue<'a>, out: &'a mut [f32]) -> Option<Self> {
        let (n, k) = (weights.n(), weights.k());
        assert_eq!(x.len(), m * k, "x is not m x k");
        let out = Output::new(out, m, n, epilogue);
        (m > 0 && n > 0).then_some(Product { x, weights, out })
    }

    fn panels(&self) -> usize {
        self.weights.n().div_ceil(self.weights.kernel().width())
    }

    fn on_this_thread(&self, m: usize) {
        let row_block = self.row_block(m);
        for row in (0..m).step_by(row_block) {
            self.block(row, row_block.min(m - row), 0, self.panels());
        }
    }

    fn row_block(&self, m: usize) -> usize {
        let rows = self.weights.kernel().rows();
        if self.weights.is_costly() {
            m
        } else {
            ROW_BLOCK.div_ceil(rows) * rows
        }
    }

    /// Rows `row..row + rows` of panels `panel..panel + panels`.
    fn block(&self, row: usize, rows: usize, panel: usize, panels: usize) {
        let (n, k, kernel) = (self.weights.n(), self.weights.k(), self.weights.kernel());
        let (width, end) = (kernel.width(), panel + panels);
        let step = self.weights.block();
        // Rows a power of two apart compete for the same lines of a first-level cache. If the whole
        // depth is not processed at once, the slices are copied side by side, provided that there
        // are enough panels to make that worthwhile.
        let beside = k > step && rows > kernel.rows() && panels >= COPIED_FOR;
        let mut copy = if beside { COPY.take() } else { AlignedFloats::default() };
        let mut scratch = Vec::new();
        let mut first = 0;
        loop {
            let depth = step.min(k - first);
            let (x, stride) = if beside {
                let stride = depth + COPY_PADDING;
                copy.grow(rows * stride);
                for (to, from) in copy
                    .chunks_exact_mut(stride)
                    .zip(self.x[row * k..].chunks_exact(k))
                    .take(rows)
                {
                    to[..depth].copy_from_slice(&from[first..first + depth]);
                }
                (copy.as_ptr(), stride)
            } else {
                (self.x[row * k + first..].as_ptr(), k)
            };
            for start in (panel..end).step_by(FINISHED_TOGETHER / width) {
                let stop = end.min(start + FINISHED_TOGETHER / width);
                for p in start..stop {
                    let weights = if depth == 0 {
                        &[]
                    } else {
                        self.weights.panel(p, first, depth, &mut scratch)
                    };
                    assert!(weights.len() >= depth * width, "a panel source returned too little");
                    let next = if p + 1 < end {
                        self.weights.stored(p + 1, first, depth)
                    } else {
                        self.weights.stored(panel, first + depth, step.min(k - first - depth))
                    };
                    let cols = width.min(n - p * width);
                    // SAFETY: rows `row..row + rows` exist in out (m × n), and of x either in x
                    // itself (m × k) or in the copy; depth ≤ k - first; only this piece accesses
                    // columns p·width .. p·width + cols of these rows.
                    unsafe {
                        let out = self.out.values.add(row * n + p * width);
                        kernel.run_raw(x, stride, rows, weights.as_ptr(), depth, out, n, cols, first > 0, next);
                    }
                }
                if first + depth == k {
                    let col = start * width;
                    // SAFETY: as above, for columns of the panels start..stop.
                    unsafe { self.out.finish(row, rows, col, n.min(stop * width) - col) };
                }
            }
            first += depth;
            if first == k {
                break;
            }
        }
        if beside {
            COPY.set(copy);
        }
    }
}
