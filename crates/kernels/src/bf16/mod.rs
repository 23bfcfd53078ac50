//! Linear layers with weights and inputs in bfloat16, summed in `f32`.
//!
//! A bfloat16 is the upper half of a `f32`: its range, with 8 bits of mantissa. The product of two
//! is exact in `f32`. Weights are rounded once, inputs row by row as they arrive, both to the
//! nearest, ties to even. Numbers below 2⁻⁵⁰ become zero, so that no sum is subnormal: some
//! instructions flush those to zero, others do not.
//!
//! **Order of the sums.** Each output is one chain over pairs of depths. For `i = 0, 2, 4, …` it
//! adds `x[i + 1] · w[i + 1]`, then `x[i] · w[i]`, and rounds after each addition. Intel's
//! `vdpbf16ps` is defined so, and every kernel here gives the same bits, except tiles. `tdpbf16ps`
//! sums 32 depths from zero, even and odd ones apart, and adds their sum to the output. So a
//! machine with tiles has other bits, and [`Bf16Kernel::order`] names the order.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod choice;
mod kernel;
mod plain;
mod round;
mod weights;

pub use kernel::{Bf16Kernel, Order};
pub use weights::Bf16Matrix;

use crate::{Epilogue, rounded};

/// Number of columns of a panel, of every kernel.
const WIDTH: usize = 32;

/// Depths are padded to a multiple of this, with zeros: the depth of a tile.
const DEPTH_STEP: usize = 32;

/// `out = x · Wᵀ` and its epilogue, on the threads of the current pool: `x` is `m × k`, `out` is
/// `m × n`, both row-major.
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm_bf16(x: &[f32], m: usize, weights: &Bf16Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    rounded::gemm(x, m, weights, epilogue, out);
}

/// [`gemm_bf16`] on the calling thread only.
///
/// # Panics
/// As for [`gemm_bf16`].
pub fn gemm_bf16_serial(x: &[f32], m: usize, weights: &Bf16Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    rounded::gemm_serial(x, m, weights, epilogue, out);
}
