//! The choice of a kernel for a machine.

use std::sync::OnceLock;

use super::{Int8Kernel, portable};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, vnni};

impl Int8Kernel {
    /// The fastest kernel for this machine; looked up once.
    pub fn best() -> &'static Int8Kernel {
        static BEST: OnceLock<&'static Int8Kernel> = OnceLock::new();
        BEST.get_or_init(|| Self::available().first().copied().unwrap_or(&portable::KERNEL))
    }

    /// Every kernel for this machine, fastest first.
    pub fn available() -> Vec<&'static Int8Kernel> {
        let mut kernels: Vec<&'static Int8Kernel> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use crate::instructions::{Instructions, allows, avx2, avx512};
            use std::arch::is_x86_feature_detected as has;
            if avx512() && amx::usable() {
                kernels.push(&amx::KERNEL);
            }
            if avx512() && has!("avx512vnni") {
                kernels.push(&vnni::AVX512);
            }
            // Not part of AVX2: machines limited to AVX2 must all be of one class.
            if allows(Instructions::Best) && avx2() && has!("avxvnni") {
                kernels.push(&vnni::AVX);
            }
            if avx2() {
                kernels.push(&avx2::KERNEL);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if crate::instructions::allows(crate::instructions::Instructions::Avx2)
            && std::arch::is_aarch64_feature_detected!("dotprod")
        {
            kernels.push(&super::neon::KERNEL);
        }
        kernels.push(&portable::KERNEL);
        kernels
    }
}
