//! The interface of integer tiles.

/// Maximum number of rows that a tile processes at once.
pub(super) const ROWS: usize = 12;
/// Maximum number of octets that a tile processes at once.
pub(super) const OCTETS: usize = 2;

/// The scale and the sums of 32 inputs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InputRun {
    pub(super) scale: f32,
    /// `Σ codes`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) total: i32,
    /// `scale · Σ codes`.
    pub(super) sum: f32,
    /// The same for each half, for formats with steps of 16.
    pub(super) half_sums: [f32; 2],
}

impl InputRun {
    /// `scale · Σ codes` of a step, of which the run has `STEPS`.
    #[inline(always)]
    pub(super) fn step_sum<const STEPS: usize>(&self, step: usize) -> f32 {
        if STEPS == 1 { self.sum } else { self.half_sums[step] }
    }
}

/// The arguments of a tile: `rows` rows times one or two octets of outputs over the whole depth.
#[derive(Clone, Copy)]
pub(super) struct TileArgs {
    /// Rows are `32 · runs` apart.
    pub(super) x: *const i8,
    /// Rows are `runs` apart.
    pub(super) x_runs: *const InputRun,
    pub(super) rows: usize,
    pub(super) runs: usize,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) octets: usize,
    /// Tiles one after another, octet after octet.
    pub(super) codes: *const u8,
    /// Eight scales per step, octet after octet.
    pub(super) scales: *const f32,
    pub(super) minima: *const f32,
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
}

/// A function that computes tiles, for one instruction set.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileKernel {
    /// Number of rows that it processes at full speed, at most [`ROWS`].
    pub(super) rows: usize,
    /// Maximum number of octets, at most [`OCTETS`].
    pub(super) octets: usize,
    /// Writes eight outputs per row and octet.
    ///
    /// # Safety
    /// The pointers of [`TileArgs`] are valid for the sizes that `rows`, `runs` and `octets` give,
    /// and the machine has the instructions for which the function was compiled.
    pub(super) run: unsafe fn(TileArgs),
}
