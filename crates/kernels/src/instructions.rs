//! The vector instructions of the machine that may be used.

use std::sync::OnceLock;

/// The widest instructions that kernels may use. Instructions that the machine lacks are never
/// used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Instructions {
    /// Only the compiler's own instructions.
    Portable,
    /// AVX2 and FMA; equivalent to `Best` on machines that are not x86-64.
    Avx2,
    /// All vector instructions of the machine.
    #[default]
    Best,
    /// Those, and AMX's tiles.
    Amx,
}

static LIMIT: OnceLock<Instructions> = OnceLock::new();

/// The requested limit differs from the current one, which is set once per process, before the
/// first product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitConflict(
    /// The current limit.
    pub Instructions,
);

/// Limits this process to these instructions, so that it computes the same bits as a machine
/// without the wider ones.
///
/// # Errors
/// If another limit is set, or kernels were used without a limit.
pub fn limit_to(widest: Instructions) -> Result<(), LimitConflict> {
    match *LIMIT.get_or_init(|| widest) {
        holds if holds == widest => Ok(()),
        holds => Err(LimitConflict(holds)),
    }
}

/// Whether these instructions are within the limit.
pub(crate) fn allows(instructions: Instructions) -> bool {
    *LIMIT.get_or_init(Instructions::default) >= instructions
}

/// Whether AVX-512 F can be used, and with it AVX2 and FMA: the machine has them, and they are
/// within the limit.
#[cfg(target_arch = "x86_64")]
pub fn avx512() -> bool {
    allows(Instructions::Best) && std::arch::is_x86_feature_detected!("avx512f") && avx2_and_fma()
}

/// Whether AVX2 can be used.
#[cfg(target_arch = "x86_64")]
pub(crate) fn avx2() -> bool {
    // The standard library caches the CPUID answer.
    allows(Instructions::Avx2) && std::arch::is_x86_feature_detected!("avx2")
}

/// Whether AVX2 and FMA can be used: the machine has them, and they are within the limit.
#[cfg(target_arch = "x86_64")]
pub fn avx2_and_fma() -> bool {
    avx2() && std::arch::is_x86_feature_detected!("fma")
}
