//! The choice of a kernel for a machine.

use std::sync::OnceLock;

use super::{Bf16Kernel, Order, plain};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx512};

impl Bf16Kernel {
    /// The fastest kernel for this machine; looked up once.
    pub fn best() -> &'static Bf16Kernel {
        static BEST: OnceLock<&'static Bf16Kernel> = OnceLock::new();
        BEST.get_or_init(|| Self::available().first().copied().unwrap_or(&plain::PORTABLE))
    }

    /// Every kernel for this machine, fastest first.
    pub fn available() -> Vec<&'static Bf16Kernel> {
        let mut kernels: Vec<&'static Bf16Kernel> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use crate::instructions::{avx2_and_fma, avx512};
            if avx512() && amx::usable() {
                kernels.push(&amx::KERNEL);
            }
            if avx512() && std::arch::is_x86_feature_detected!("avx512bf16") {
                kernels.push(&avx512::KERNEL);
            }
            if avx512() {
                kernels.push(&plain::AVX512);
            }
            if avx2_and_fma() {
                kernels.push(&plain::AVX2);
            }
        }
        kernels.push(&plain::PORTABLE);
        kernels
    }

    /// A reference in plain Rust for every order, on any machine.
    pub fn reference(order: Order) -> &'static Bf16Kernel {
        match order {
            Order::Pairs => &plain::PORTABLE,
            Order::Tiles => &plain::TILES,
        }
    }
}
