//! A cache line of numbers, in the registers of each instruction set.

/// [`Element::PANEL`](super::Element::PANEL) numbers, processed together.
///
/// Every function requires the instructions that its implementation names, and must be inlined into
/// a function that enables them.
pub(crate) trait Lanes: Copy {
    type Number: Copy;

    unsafe fn zero() -> Self;
    /// A cache line at `from`, which need not be aligned.
    unsafe fn load(from: *const Self::Number) -> Self;
    /// Writes a cache line.
    unsafe fn store(self, to: *mut Self::Number);
    /// `x · factors + self`, for one number `x`.
    unsafe fn add_product(self, x: *const Self::Number, factors: Self) -> Self;
    /// Adds the lanes to panels of eight f64: the first eight to `first`, and the others to
    /// `second` unless it is null.
    unsafe fn add_to(self, first: *mut f64, second: *mut f64);
}

/// The compiler's own code: `[f64; 8]` and `[f32; 16]`.
macro_rules! plain {
    ($number:ident, $count:literal) => {
        impl Lanes for [$number; $count] {
            type Number = $number;
            #[inline(always)]
            unsafe fn zero() -> Self {
                [0.0; $count]
            }
            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: the caller's guarantee; arrays have the alignment of their elements.
                unsafe { *from.cast() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: as above.
                unsafe { *to.cast() = self };
            }
            #[inline(always)]
            unsafe fn add_product(mut self, x: *const $number, factors: Self) -> Self {
                // SAFETY: the caller's guarantee.
                let x = unsafe { *x };
                for i in 0..$count {
                    self[i] = if cfg!(target_arch = "aarch64") {
                        x.mul_add(factors[i], self[i])
                    } else {
                        x * factors[i] + self[i]
                    };
                }
                self
            }
            #[inline(always)]
            unsafe fn add_to(self, first: *mut f64, second: *mut f64) {
                for (lanes, out) in self.chunks(8).zip([first, second]) {
                    if !out.is_null() {
                        for (i, lane) in lanes.iter().enumerate() {
                            // SAFETY: the caller's guarantee.
                            unsafe { *out.add(i) += f64::from(*lane) };
                        }
                    }
                }
            }
        }
    };
}
plain!(f64, 8);
plain!(f32, 16);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// One register of AVX-512 F.
    macro_rules! one_register {
        ($name:ident, $number:ident, $register:ident, $zero:ident, $load:ident, $store:ident, $set1:ident, $fma:ident,
         |$lanes:ident| $halves:expr) => {
            #[derive(Clone, Copy)]
            pub(crate) struct $name($register);

            impl Lanes for $name {
                type Number = $number;
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the caller guarantees AVX-512 F, here and below.
                    Self(unsafe { $zero() })
                }
                #[inline(always)]
                unsafe fn load(from: *const $number) -> Self {
                    // SAFETY: readable by the caller's guarantee.
                    Self(unsafe { $load(from) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $number) {
                    // SAFETY: writable by the caller's guarantee.
                    unsafe { $store(to, self.0) };
                }
                #[inline(always)]
                unsafe fn add_product(self, x: *const $number, factors: Self) -> Self {
                    // SAFETY: readable by the caller's guarantee.
                    Self(unsafe { $fma($set1(*x), factors.0, self.0) })
                }
                #[inline(always)]
                unsafe fn add_to(self, first: *mut f64, second: *mut f64) {
                    // SAFETY: writable by the caller's guarantee.
                    unsafe {
                        let $lanes = self.0;
                        for (lanes, out) in $halves.into_iter().zip([first, second]) {
                            if !out.is_null() {
                                _mm512_storeu_pd(out, _mm512_add_pd(_mm512_loadu_pd(out), lanes));
                            }
                        }
                    }
                }
            }
        };
    }
    one_register!(
        F64x8,
        f64,
        __m512d,
        _mm512_setzero_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_set1_pd,
        _mm512_fmadd_pd,
        |lanes| [lanes]
    );
    one_register!(
        F32x16,
        f32,
        __m512,
        _mm512_setzero_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        |lanes| [
            _mm512_cvtps_pd(_mm512_castps512_ps256(lanes)),
            _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes)))),
        ]
    );

    /// Two registers of AVX2.
    macro_rules! two_registers {
        ($name:ident, $number:ident, $register:ident, $half:literal, $zero:ident, $load:ident, $store:ident, $set1:ident,
         $fma:ident, |$lanes:ident| $quarters:expr) => {
            #[derive(Clone, Copy)]
            pub(crate) struct $name([$register; 2]);

            impl Lanes for $name {
                type Number = $number;
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the caller guarantees AVX2 and FMA, here and below.
                    Self(unsafe { [$zero(), $zero()] })
                }
                #[inline(always)]
                unsafe fn load(from: *const $number) -> Self {
                    // SAFETY: readable by the caller's guarantee.
                    Self(unsafe { [$load(from), $load(from.add($half))] })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $number) {
                    // SAFETY: writable by the caller's guarantee.
                    unsafe {
                        $store(to, self.0[0]);
                        $store(to.add($half), self.0[1]);
                    }
                }
                #[inline(always)]
                unsafe fn add_product(self, x: *const $number, factors: Self) -> Self {
                    // SAFETY: readable by the caller's guarantee.
                    unsafe {
                        let x = $set1(*x);
                        Self([$fma(x, factors.0[0], self.0[0]), $fma(x, factors.0[1], self.0[1])])
                    }
                }
                #[inline(always)]
                unsafe fn add_to(self, first: *mut f64, second: *mut f64) {
                    // SAFETY: writable by the caller's guarantee.
                    unsafe {
                        let $lanes = self.0;
                        for (lanes, out) in $quarters.into_iter().zip([first, second]) {
                            if !out.is_null() {
                                for (lanes, out) in lanes.into_iter().zip([out, out.add(4)]) {
                                    _mm256_storeu_pd(out, _mm256_add_pd(_mm256_loadu_pd(out), lanes));
                                }
                            }
                        }
                    }
                }
            }
        };
    }
    two_registers!(
        F64x4Pair,
        f64,
        __m256d,
        4,
        _mm256_setzero_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        _mm256_fmadd_pd,
        |lanes| [lanes]
    );
    two_registers!(
        F32x8Pair,
        f32,
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        |lanes| lanes.map(|eight| [
            _mm256_cvtps_pd(_mm256_castps256_ps128(eight)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(eight)),
        ])
    );
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{F32x8Pair, F32x16, F64x4Pair, F64x8};
