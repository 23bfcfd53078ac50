//! Linear layers whose weights stay block-quantised in memory, in the formats of GGUF files.
//!
//! A block is a run of 32 weights along the depth of one output (16 if the format has finer
//! scales): small integer codes and an affine map, `weight = scale · code + minimum`.
//! [`QuantMatrix::pack`] keeps the codes and only reorders them, eight outputs side by side, so
//! that both ways of multiplying read memory in order:
//!
//! * [`gemm_quant`] unpacks one panel at a time to `f32` and passes it to the `f32` micro-kernel.
//!   Inputs are unchanged.
//! * [`gemm_quant_int8`] rounds every 32 inputs of a row to eight bits with their own scale (called
//!   Q8 in llama.cpp) and multiplies integers. This is two to three times faster on AVX2. The
//!   result differs by about a thousandth of the noise of the weights' own quantisation.
//!
//! Both keep the crate's guarantee: the bits of an output row depend only on that row and the
//! weights.

mod choice;
mod format;
mod int8;
#[cfg(target_arch = "x86_64")]
mod int8_avx2;
mod int8_portable;
#[cfg(target_arch = "x86_64")]
mod int8_vnni;
mod layout;
mod panels;
#[cfg(test)]
mod tests;
mod tile;

use half::f16;

pub use format::{QuantType, dequantize_row};
pub use int8::{Int8Rows, gemm_quant_int8};

use crate::{PackedMatrix, driver::Epilogue, gemm_panels};
use layout::Blocks;

/// A linear layer's weights, `n` outputs × `k` inputs, in the format for multiplication.
#[derive(Debug, Clone)]
pub struct QuantMatrix(Form);

#[derive(Debug, Clone)]
enum Form {
    Blocks(Blocks),
    Floats(PackedMatrix),
}

/// The reason why weights were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantError {
    /// The depth is not a multiple of the format's block.
    Depth {
        /// The format.
        kind: QuantType,
        /// Inputs of the layer.
        k: usize,
    },
    /// The number of bytes does not match the shape.
    Length {
        /// Number of bytes that the shape requires.
        expected: usize,
        /// Number of given bytes.
        found: usize,
    },
}

impl std::fmt::Display for QuantError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth { kind, k } => write!(
                f,
                "{k} inputs are not a multiple of the {} weights of a {} block",
                kind.block_len(),
                kind.name()
            ),
            Self::Length { expected, found } => write!(f, "the shape takes {expected} bytes, {found} are there"),
        }
    }
}

impl std::error::Error for QuantError {}

impl QuantMatrix {
    /// Packs `n` rows of `k` weights in the layout of a GGUF tensor (row after row, little-endian).
    ///
    /// # Errors
    /// If `bytes` does not have the length of `n × k` weights of this kind.
    pub fn pack(kind: QuantType, bytes: &[u8], n: usize, k: usize) -> Result<Self, QuantError> {
        let row = kind.row_bytes(k).ok_or(QuantError::Depth { kind, k })?;
        if bytes.len() != row * n {
            return Err(QuantError::Length {
                expected: row * n,
                found: bytes.len(),
            });
        }
        if kind.is_quantized() {
            return Ok(Self(Form::Blocks(Blocks::pack(kind, bytes, n, k))));
        }
        let mut weights = vec![0.0; n * k];
        dequantize_row(kind, bytes, &mut weights);
        Ok(Self(Form::Floats(PackedMatrix::pack(&weights, n, k))))
    }

    /// Number of outputs.
    pub fn n(&self) -> usize {
        match &self.0 {
            Form::Blocks(blocks) => blocks.n,
            Form::Floats(packed) => packed.n(),
        }
    }

    /// Number of inputs.
    pub fn k(&self) -> usize {
        match &self.0 {
            Form::Blocks(blocks) => blocks.k,
            Form::Floats(packed) => packed.k(),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Blocks(blocks) => blocks.bytes(),
            Form::Floats(packed) => packed.bytes(),
        }
    }
}

/// `out = x · Wᵀ` in `f32`: `x` is `m × k`, `out` is `m × n`, both row-major. Each panel of weights
/// is unpacked once for all rows.
///
/// # Panics
/// If a slice's length does not match its shape.
pub fn gemm_quant(x: &[f32], m: usize, weights: &QuantMatrix, out: &mut [f32]) {
    match &weights.0 {
        Form::Blocks(blocks) => gemm_panels(x, m, blocks, Epilogue::default(), out),
        Form::Floats(packed) => gemm_panels(x, m, packed, Epilogue::default(), out),
    }
}

/// Reads a little-endian half at `at`.
fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
