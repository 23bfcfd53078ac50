//! Compiles one body of code twice: for the widest common instruction set and for any machine.

/// `a · b + c`, rounded once if the processor has a single instruction for it.
#[inline(always)]
pub(crate) fn fma<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Defines a function whose body is compiled twice on x86-64: with AVX2 and FMA, and without. In
/// the body, `FUSED` states whether [`fma`] is one instruction.
macro_rules! dispatched {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            #[allow(dead_code)]
            fn body<const FUSED: bool>($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) $(-> $out)? {
                    body::<true>($($arg),*)
                }
                if isomer_kernels::has_avx2_and_fma() {
                    // SAFETY: the processor has AVX2 and FMA.
                    return unsafe { wide($($arg),*) };
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}

pub(crate) use dispatched;
