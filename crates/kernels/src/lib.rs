//! CPU matrix kernels whose rows do not depend on the rest of the batch.
//!
//! Every function here keeps one guarantee: **the bits of an output row depend on that row's own
//! input and on the weights, never on the number or order of the other rows, or on the number of
//! threads.** A text's vector is therefore the same alone and in a batch. The guarantee holds on
//! one machine; instruction sets may round differently.
//!
//! * [`PackedMatrix`], [`gemm`], [`gemm_with`], [`gemm_serial`]: `x · Wᵀ (+ bias)` with weights
//!   packed once.
//! * [`Kernel`]: the innermost loop, selected at run time; [`PanelSource`]: its input, so that
//!   weights in another format (block-quantised, half precision) only need to unpack one panel.
//! * [`int8`], [`bf16`]: the same product with weights and inputs rounded to integers, or to
//!   bfloat16.
//! * [`rows`]: activations, softmax, normalisations, row by row.
//! * [`attention`]: multi-head attention of one sequence: whole, causal or in a window, with
//!   grouped keys and biases by distance.
//! * [`limit_to`]: limits a process to narrower instructions than the machine has.
//! * [`pairs`]: one row against selected rows: dot products and distances.
//! * [`rotary`]: rotation of queries and keys by their position.

pub mod attention;
pub mod bf16;
mod dispatch;
mod driver;
mod instructions;
pub mod int8;
mod memory;
mod micro;
mod pack;
pub mod pairs;
pub mod quant;
pub mod rotary;
mod rounded;
pub mod rows;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use driver::{Activation, Epilogue, KBLOCK, PanelSource, gemm, gemm_panels, gemm_serial, gemm_with};
pub use instructions::{Instructions, LimitConflict, limit_to};
#[cfg(target_arch = "x86_64")]
pub use instructions::{avx2_and_fma as has_avx2_and_fma, avx512 as has_avx512};
pub use memory::AlignedFloats;
pub use micro::{Kernel, MAX_ROWS, MAX_WIDTH};
pub use pack::PackedMatrix;

/// The class of this machine's arithmetic, e.g. `x86_64 avx2+fma avx2`. Machines of one class run
/// the same kernels, so they compute the same bits. Machines of two classes may differ.
pub fn class() -> String {
    let (floats, integers) = (Kernel::best().name(), int8::Int8Kernel::best().name());
    // The order of sums alone decides the bits of bfloat16.
    let tiles = match bf16::Bf16Kernel::best().order() {
        bf16::Order::Pairs => "",
        bf16::Order::Tiles => " bf16-tiles",
    };
    format!("{} {floats} {integers}{tiles}", std::env::consts::ARCH)
}
