//! Which of the machine's vector instructions may be used.

use std::sync::OnceLock;

/// The widest instructions that kernels may use. Those that the machine lacks are never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Instructions {
    /// None but the compiler's own.
    Portable,
    /// AVX2 and FMA; on machines that are not x86-64 as `Best`.
    Avx2,
    /// Whatever the machine has.
    #[default]
    Best,
}

static LIMIT: OnceLock<Instructions> = OnceLock::new();

/// Another limit than the one that holds already: it is set once in a process, before the first
/// product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(
    /// The limit that holds.
    pub Instructions,
);

/// Holds this process to these instructions, so that it computes the bits of a machine without the
/// wider ones.
///
/// # Errors
/// If another limit holds, or kernels were used without one.
pub fn limit_to(widest: Instructions) -> Result<(), Fixed> {
    match *LIMIT.get_or_init(|| widest) {
        holds if holds == widest => Ok(()),
        holds => Err(Fixed(holds)),
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
