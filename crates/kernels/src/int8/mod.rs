//! Linear layers with eight-bit weights, multiplied as integers.
//!
//! Weights are rounded once, symmetrically, with one scale per output: `w ≈ s · c`. Inputs are
//! rounded row by row as they arrive, with their own scale and zero point: `x ≈ t · (q - z)`. Then
//!
//! `Σ w·x ≈ s·t · (Σ c·q - z · Σ c)`
//!
//! and both sums are integers. They are exact in any order, so every instruction set gives the same
//! bits, and a row's result depends only on that row and the weights.
//!
//! **No sum overflows.** With `|c| ≤ 127`, `0 ≤ q, z ≤ 255`, the bracket and the first sum are at
//! most 255 · 127 · k in size, below 2³¹ for every k ≤ 65 536 = [`MAX_DEPTH`].
//!
//! **Code widths.** AVX2 has no instruction that multiplies eight by eight bits without saturating.
//! With fewer bits it does not saturate, and with still fewer bits more products fit into sixteen
//! bits before they must be widened. The number of bits of the codes is therefore a choice
//! ([`Widths`]) made when weights are rounded, and it affects the result. Machines with wider
//! instructions process narrow codes equally well, so one choice gives the same numbers on all
//! machines.
//!
//! [`crate::quant`] is for weights that a file already stores in blocks; here weights are given as
//! floats.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod choice;
mod inputs;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod weights;
mod widths;

use crate::{driver::Epilogue, rounded};

pub use kernel::Int8Kernel;
pub use weights::Int8Matrix;
pub use widths::Widths;

/// Maximum depth of a product whose sums fit into 32 bits.
pub const MAX_DEPTH: usize = 1 << 16;

/// Number of depths of a column that one multiply-add instruction processes.
const GROUP: usize = 4;

/// Depths are padded to a multiple of this, with codes of zero.
const DEPTH_STEP: usize = 16;

/// `out = x · Wᵀ` and its epilogue, on the threads of the current pool: `x` is `m × k`, `out` is
/// `m × n`, both row-major. A row with a value that is not finite gives NaN.
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm_int8(x: &[f32], m: usize, weights: &Int8Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    rounded::gemm(x, m, weights, epilogue, out);
}

/// [`gemm_int8`] on the calling thread only.
///
/// # Panics
/// As for [`gemm_int8`].
pub fn gemm_int8_serial(x: &[f32], m: usize, weights: &Int8Matrix, epilogue: Epilogue<'_>, out: &mut [f32]) {
    rounded::gemm_serial(x, m, weights, epilogue, out);
}
