//! Products whose inputs are rounded row by row, then multiplied with packed weights: the loops
//! around the kernels, for codes of any type.

use std::{cell::Cell, ops::Range, thread::LocalKey};

use rayon::prelude::*;

use crate::driver::{Epilogue, Output, SERIAL_BELOW, in_pieces};

/// Number of columns whose sums are kept before they are converted to floats, a multiple of every
/// kernel's width. Longer runs make that step cheaper; shorter ones keep their panels in a closer
/// cache.
pub(crate) const SPAN: usize = 128;

/// Maximum number of rows that any kernel processes at once.
pub(crate) const MAX_ROWS: usize = 32;

/// Number of rows that are multiplied with a panel before the next one is fetched; their codes stay
/// in a second-level cache.
const ROW_BLOCK: usize = 96;

/// Number of rows that one task rounds.
const PIECE: usize = 32;

/// Weights of a linear layer, packed in panels, whose inputs are rounded to codes.
pub(crate) trait RoundedWeights: Sync {
    type Code: Copy + Default + Send + Sync + 'static;
    /// A sum of products of codes.
    type Sum: Copy + Default;
    /// The data of a row that its sums are converted with.
    type Scale: Copy + Default + Send + Sync + 'static;

    /// Number of outputs.
    fn n(&self) -> usize;
    /// Number of inputs.
    fn k(&self) -> usize;
    /// Number of codes from one row to the next, padding included.
    fn stride(&self) -> usize;
    /// Number of rows that the kernel processes at once, at most [`MAX_ROWS`].
    fn rows(&self) -> usize;
    /// Number of columns of a panel, a divisor of [`SPAN`].
    fn width(&self) -> usize;
    /// This thread's free buffer.
    fn buffer() -> &'static LocalKey<Cell<Rows<Self::Code, Self::Scale>>>;
    /// Rounds one row; sets the padding to zero.
    fn round(&self, row: &[f32], codes: &mut [Self::Code]) -> Self::Scale;
    /// State of a thread that multiplies panels.
    fn thread(&self) -> Option<&ThreadState>;
    /// Sums of `rows` rows of codes with one panel: those of row `r` start at `r · SPAN`. `x` has
    /// [`RoundedWeights::rows`] readable rows.
    fn multiply(&self, x: &[Self::Code], rows: usize, panel: usize, sums: &mut [Self::Sum]);
    /// Converts the sums of one row, for the columns from `col`.
    fn open(&self, col: usize, sums: &[Self::Sum], scale: Self::Scale, out: &mut [f32]);
}

/// Functions that a thread calls before its first product and after its last.
#[derive(Debug)]
pub(crate) struct ThreadState {
    /// # Safety
    /// The machine has the instructions of the kernel.
    pub(crate) prepare: unsafe fn(),
    /// # Safety
    /// As for `prepare`.
    pub(crate) release: unsafe fn(),
}

/// Calls `work`, which multiplies panels on this thread.
fn prepared<W: RoundedWeights>(weights: &W, work: impl FnOnce()) {
    let Some(thread) = weights.thread() else {
        return work();
    };
    // SAFETY: a kernel is only available on a machine that has its instructions.
    unsafe { (thread.prepare)() };
    work();
    // SAFETY: as above.
    unsafe { (thread.release)() };
}

/// Rows of codes.
#[derive(Debug, Default)]
pub(crate) struct Rows<C, S> {
    /// Number of the first row in the buffer.
    start: usize,
    codes: Vec<C>,
    scales: Vec<S>,
}

impl<C: Copy + Default + Send + Sync + 'static, S: Copy + Default + Send + Sync + 'static> Rows<C, S> {
    /// Makes room for `m` rows, and for a kernel that reads whole blocks of rows.
    fn size(&mut self, m: usize, stride: usize) {
        let codes = m.next_multiple_of(MAX_ROWS) * stride;
        if self.codes.len() < codes {
            self.codes.resize(codes, C::default());
        }
        if self.scales.len() < m {
            self.scales.resize(m, S::default());
        }
    }

    /// Rounds `m` rows, the first of which has the number `start`.
    fn fill<W: RoundedWeights<Code = C, Scale = S>>(&mut self, x: &[f32], start: usize, m: usize, weights: &W) {
        let (k, stride) = (weights.k(), weights.stride());
        self.start = start;
        self.size(m, stride);
        for (r, codes) in self.codes.chunks_exact_mut(stride.max(1)).enumerate().take(m) {
            self.scales[r] = weights.round(&x[r * k..(r + 1) * k], codes);
        }
    }

    /// [`Rows::fill`] on the threads of the current pool.
    fn fill_on_all_threads<W: RoundedWeights<Code = C, Scale = S>>(&mut self, x: &[f32], m: usize, weights: &W) {
        let (k, stride) = (weights.k(), weights.stride());
        if k == 0 {
            return self.fill(x, 0, m, weights);
        }
        self.start = 0;
        self.size(m, stride);
        x.par_chunks(PIECE * k)
            .zip(self.codes.par_chunks_mut(PIECE * stride))
            .zip(self.scales[..m].par_chunks_mut(PIECE))
            .for_each(|((x, codes), scales)| {
                let rows = x.chunks_exact(k).zip(codes.chunks_exact_mut(stride));
                for ((row, codes), scale) in rows.zip(scales) {
                    *scale = weights.round(row, codes);
                }
            });
    }
}

/// Lends this thread's buffer to `work`. The buffer is taken out meanwhile, because a thread that
/// waits for others may be given another product to compute.
fn with_buffer<W: RoundedWeights>(work: impl FnOnce(&mut Rows<W::Code, W::Scale>)) {
    let mut rows = W::buffer().take();
    work(&mut rows);
    W::buffer().set(rows);
}

/// `out = x · Wᵀ` and its epilogue, on the threads of the current pool: `x` is `m × k`, `out` is
/// `m × n`, both row-major.
///
/// # Panics
/// If a slice's length does not match its shape.
pub(crate) fn gemm<W: RoundedWeights>(x: &[f32], m: usize, weights: &W, epilogue: Epilogue<'_>, out: &mut [f32]) {
    let out = checked(x, m, weights, epilogue, out);
    if m == 0 || weights.n() == 0 {
        return;
    }
    if m * weights.n() * weights.k() < SERIAL_BELOW {
        return serial(x, m, weights, &out);
    }
    with_buffer::<W>(|rows| {
        rows.fill_on_all_threads(x, m, weights);
        let rows = &*rows;
        in_pieces(m, panels(weights), row_block(weights), |row, count, panel, panels| {
            prepared(weights, || {
                block(rows, weights, &out, row..row + count, panel..panel + panels)
            });
        });
    });
}

/// [`gemm`] on the calling thread only.
///
/// # Panics
/// As for [`gemm`].
pub(crate) fn gemm_serial<W: RoundedWeights>(
    x: &[f32],
    m: usize,
    weights: &W,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
) {
    let out = checked(x, m, weights, epilogue, out);
    if m > 0 && weights.n() > 0 {
        serial(x, m, weights, &out);
    }
}

fn checked<'a, W: RoundedWeights>(
    x: &[f32],
    m: usize,
    weights: &W,
    epilogue: Epilogue<'a>,
    out: &'a mut [f32],
) -> Output<'a> {
    assert_eq!(x.len(), m * weights.k(), "x is not m x k");
    Output::new(out, m, weights.n(), epilogue).coarse()
}

/// Rounds a block of rows and multiplies it before rounding the next, so that its codes stay in
/// cache.
fn serial<W: RoundedWeights>(x: &[f32], m: usize, weights: &W, out: &Output<'_>) {
    with_buffer::<W>(|rows| {
        let step = row_block(weights);
        prepared(weights, || {
            for first in (0..m).step_by(step) {
                let count = step.min(m - first);
                rows.fill(
                    &x[first * weights.k()..(first + count) * weights.k()],
                    first,
                    count,
                    weights,
                );
                block(rows, weights, out, first..first + count, 0..panels(weights));
            }
        });
    });
}

fn panels<W: RoundedWeights>(weights: &W) -> usize {
    weights.n().div_ceil(weights.width())
}

fn row_block<W: RoundedWeights>(weights: &W) -> usize {
    ROW_BLOCK.next_multiple_of(weights.rows())
}

fn block<W: RoundedWeights>(
    rows: &Rows<W::Code, W::Scale>,
    weights: &W,
    out: &Output<'_>,
    lines: Range<usize>,
    panels: Range<usize>,
) {
    let (width, stride) = (weights.width(), weights.stride());
    let mut sums = [W::Sum::default(); MAX_ROWS * SPAN];
    for start in panels.clone().step_by(SPAN / width) {
        let end = panels.end.min(start + SPAN / width);
        let (col, cols) = (start * width, (end * width).min(weights.n()) - start * width);
        for first in lines.clone().step_by(weights.rows()) {
            let tile_rows = weights.rows().min(lines.end - first);
            let x = &rows.codes[(first - rows.start) * stride..];
            for panel in start..end {
                weights.multiply(x, tile_rows, panel, &mut sums[(panel - start) * width..]);
            }
            for (r, sums) in sums.chunks_exact(SPAN).enumerate().take(tile_rows) {
                // SAFETY: pieces are disjoint; only this one accesses these columns of this row.
                let out = unsafe { out.part(first + r, col, cols) };
                weights.open(col, &sums[..cols], rows.scales[first + r - rows.start], out);
            }
        }
        // SAFETY: as above; the slices taken there have been dropped.
        unsafe { out.finish(lines.start, lines.len(), col, cols) };
    }
}
