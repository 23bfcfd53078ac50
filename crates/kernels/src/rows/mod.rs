//! Element-wise functions and reductions over one row at a time.
//!
//! The bodies are written once and compiled three times on x86-64: with AVX-512 F, with AVX2 + FMA,
//! and without either. Sums run over sixteen lanes in a fixed pattern that depends only on the
//! row's length, so the first two give the same bits.

mod softmax;

/// Lanes of a reduction.
pub(crate) const LANES: usize = 16;

/// Compiles a body with AVX-512 F, with AVX2 + FMA and without either, and selects one at run time.
macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident, $body:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx2,fma")]
                fn widest($($arg: $ty),*) {
                    $body::<true>($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $ty),*) {
                    $body::<true>($($arg),*);
                }
                if crate::instructions::avx512() {
                    // SAFETY: all three features were just detected.
                    return unsafe { widest($($arg),*) };
                }
                if crate::instructions::avx2_and_fma() {
                    // SAFETY: both features were just detected.
                    return unsafe { wide($($arg),*) };
                }
            }
            // Every other supported 64-bit target has a fused multiply-add instruction.
            $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}

dispatched! {
    /// Exact GELU in place, `x · Φ(x)`, where Φ is the normal distribution function; absolute error
    /// below 2e-7.
    gelu, gelu_body, (values: &mut [f32])
}

dispatched! {
    /// [`gelu`] for values that are then rounded to eight bits: absolute error below 5e-5, in half
    /// the time.
    gelu_coarse, gelu_coarse_body, (values: &mut [f32])
}

/// Softmax of each row of `width` values in place, `exp(scale · (x - max)) / Σ`. Each row must have
/// a finite value, and the scale must not be negative.
pub fn softmax(values: &mut [f32], width: usize, scale: f32) {
    softmax::softmax(values, width, scale);
}

/// [`softmax()`] of the first `width` values of each row of `stride`; the rest of a row is set to
/// zero. The bits are the same.
///
/// # Panics
/// If `width` is greater than `stride`.
pub fn softmax_padded(values: &mut [f32], stride: usize, width: usize, scale: f32) {
    softmax::softmax_padded(values, stride, width, scale);
}

dispatched! {
    /// Layer normalisation of each row of `gamma.len()` values in place: `(x - mean) /
    /// sqrt(variance + eps) · gamma + beta`, variance over n (Ba et al. 2016).
    layer_norm, layer_norm_body, (values: &mut [f32], gamma: &[f32], beta: &[f32], eps: f32)
}

dispatched! {
    /// GELU with the hyperbolic tangent in place (Hendrycks & Gimpel 2016, §2),
    /// `x / (1 + exp(-2 √(2/π) (x + 0.044715 x³)))`: the same function as `x/2 · (1 + tanh(…))`,
    /// without the cancellation.
    gelu_tanh, gelu_tanh_body, (values: &mut [f32])
}

dispatched! {
    /// SiLU in place, `x / (1 + exp(-x))`.
    silu, silu_body, (values: &mut [f32])
}

dispatched! {
    /// `max(x, 0)` in place; NaN stays NaN.
    relu, relu_body, (values: &mut [f32])
}

dispatched! {
    /// Root-mean-square normalisation of each row of `gamma.len()` values in place: `x /
    /// sqrt(mean(x²) + eps) · gamma` (Zhang & Sennrich 2019).
    rms_norm, rms_norm_body, (values: &mut [f32], gamma: &[f32], eps: f32)
}

dispatched! {
    /// `values[i] += other[i]`.
    add, add_body, (values: &mut [f32], other: &[f32])
}

dispatched! {
    /// `values[i] *= other[i]`.
    multiply, multiply_body, (values: &mut [f32], other: &[f32])
}

dispatched! {
    /// `values[i] = values[i] · scale + other[i]`.
    scale_add, scale_add_body, (values: &mut [f32], scale: f32, other: &[f32])
}

#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `exp(x)`, relative error below 2e-7; 0 below -87.3, capped at exp(88.3), NaN stays NaN.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; exp(r) = 1 + r + r²·q(r), where q is a Chebyshev fit of
/// degree 4 computed for this file.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    const HIGHEST: f32 = 88.3;
    let inside = if x < LOWEST { LOWEST } else { x };
    let inside = if inside > HIGHEST { HIGHEST } else { inside };
    let result = exp_inside::<FMA>(inside);
    if x < LOWEST { 0.0 } else { result }
}

/// The argument below which [`exp`] is 0.
const LOWEST: f32 = -87.3;

/// [`exp`] between its bounds.
#[inline(always)]
fn exp_inside<const FMA: bool>(x: f32) -> f32 {
    // Adding 1.5 · 2^23 rounds to an integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts. The first has few bits, so its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let rounded = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = fma::<FMA>(n, -LN2_HIGH, x);
    let r = fma::<FMA>(n, -LN2_LOW, r);
    let mut q = 0.001_392_625_1;
    q = fma::<FMA>(q, r, 0.008_363_233);
    q = fma::<FMA>(q, r, 0.041_666_556);
    q = fma::<FMA>(q, r, 0.166_665_77);
    q = fma::<FMA>(q, r, 0.5);
    let value = fma::<FMA>(q, r * r, r) + 1.0;
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    value * power
}

/// `x · Φ(x) = max(x, 0) - |x| · Q(|x|)`, where Q is the normal tail.
/// `Q(a) = exp(-a²/2) · g(1 / (1 + 0.3 a))`, where g is a Chebyshev fit of degree 8 computed for
/// this file (error 2e-8 over 0 ≤ a ≤ 14). Unlike `1 - erf`, it keeps its relative precision in the
/// tail.
#[inline(always)]
fn gelu_one<const FMA: bool>(x: f32) -> f32 {
    const G: [f32; 8] = [
        -0.165_373_75,
        0.221_350_41,
        -0.068_775_66,
        0.137_646_14,
        0.096_570_864,
        0.121_487_25,
        0.119_541_63,
        4.377_244_7e-6,
    ];
    let size = x.abs();
    // Beyond 14 the tail is negligible; the bound prevents 0 · ∞.
    let a = if size < 14.0 { size } else { 14.0 };
    let t = 1.0 / fma::<FMA>(a, 0.3, 1.0);
    let mut g = 0.037_548_766;
    for c in G {
        g = fma::<FMA>(g, t, c);
    }
    // This exponent can exceed only the lower of the two bounds of `exp`.
    let exponent = -0.5 * a * a;
    let tail = exp_inside::<FMA>(exponent) * g;
    let tail = if exponent < LOWEST { 0.0 } else { tail };
    let positive = if x < 0.0 { 0.0 } else { x };
    fma::<FMA>(-a, tail, positive)
}

#[inline(always)]
fn gelu_body<const FMA: bool>(values: &mut [f32]) {
    for value in values {
        *value = gelu_one::<FMA>(*value);
    }
}

/// `x/2 + |x| · (Φ(|x|) - 1/2)`, and 0 below -4.25. `(Φ(a) - 1/2) / a` is a polynomial of degree 8
/// in `t = 2 a² / 4.25² - 1`, fitted for this file so that the maximum error of the result is
/// minimal.
#[inline(always)]
fn gelu_coarse_one<const FMA: bool>(x: f32) -> f32 {
    const END: f32 = 4.25;
    const P: [f32; 8] = [
        -0.006_027_757_7,
        0.009_229_269,
        -0.014_616_312,
        0.025_322_692,
        -0.039_165_277,
        0.055_733_062,
        -0.080_777_55,
        0.165_934_89,
    ];
    let size = x.abs();
    let a = if size < END { size } else { END };
    let t = fma::<FMA>(a * a, 2.0 / (END * END), -1.0);
    let mut p = 0.002_012_405;
    for c in P {
        p = fma::<FMA>(p, t, c);
    }
    let whole = fma::<FMA>(size, a * p, 0.5 * x);
    if x < -END { 0.0 } else { whole }
}

#[inline(always)]
fn gelu_coarse_body<const FMA: bool>(values: &mut [f32]) {
    for value in values {
        *value = gelu_coarse_one::<FMA>(*value);
    }
}

#[inline(always)]
fn silu_one<const FMA: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<FMA>(-x))
}

#[inline(always)]
fn silu_body<const FMA: bool>(values: &mut [f32]) {
    for value in values {
        *value = silu_one::<FMA>(*value);
    }
}

#[inline(always)]
fn gelu_tanh_body<const FMA: bool>(values: &mut [f32]) {
    // 2 √(2/π), and its product with 0.044715.
    const LINEAR: f32 = 1.595_769;
    const CUBIC: f32 = 0.071_354_814;
    for value in values {
        let x = *value;
        let exponent = -x * fma::<FMA>(CUBIC * x, x, LINEAR);
        *value = x / (1.0 + exp::<FMA>(exponent));
    }
}

#[inline(always)]
fn relu_body<const FMA: bool>(values: &mut [f32]) {
    for value in values {
        *value = if *value < 0.0 { 0.0 } else { *value };
    }
}

#[inline(always)]
fn multiply_body<const FMA: bool>(values: &mut [f32], other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value *= other;
    }
}

#[inline(always)]
fn scale_add_body<const FMA: bool>(values: &mut [f32], scale: f32, other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value = fma::<FMA>(*value, scale, *other);
    }
}

#[inline(always)]
fn add_body<const FMA: bool>(values: &mut [f32], other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value += other;
    }
}

/// Combines lanes pairwise, always in the same order.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Reduces a row over lanes: element i goes to lane i mod 16.
#[inline(always)]
fn reduce(row: &[f32], start: f32, step: impl Fn(f32, f32) -> f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = step(lanes[i], chunk[i]);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, value);
    }
    fold(lanes, combine)
}

#[inline(always)]
fn layer_norm_body<const FMA: bool>(values: &mut [f32], gamma: &[f32], beta: &[f32], eps: f32) {
    let width = gamma.len();
    if width == 0 {
        return;
    }
    #[allow(clippy::cast_precision_loss)]
    let n = width as f32;
    for row in values.chunks_exact_mut(width) {
        let mean = reduce(row, 0.0, |a, b| a + b, |a, b| a + b) / n;
        for value in row.iter_mut() {
            *value -= mean;
        }
        let squares = reduce(row, 0.0, |sum, x| fma::<FMA>(x, x, sum), |a, b| a + b);
        let inverse = 1.0 / (squares / n + eps).sqrt();
        for ((value, gamma), beta) in row.iter_mut().zip(gamma).zip(beta) {
            *value = fma::<FMA>(*value * inverse, *gamma, *beta);
        }
    }
}

#[inline(always)]
fn rms_norm_body<const FMA: bool>(values: &mut [f32], gamma: &[f32], eps: f32) {
    let width = gamma.len();
    if width == 0 {
        return;
    }
    #[allow(clippy::cast_precision_loss)]
    let n = width as f32;
    for row in values.chunks_exact_mut(width) {
        let squares = reduce(row, 0.0, |sum, x| fma::<FMA>(x, x, sum), |a, b| a + b);
        let inverse = 1.0 / (squares / n + eps).sqrt();
        for (value, gamma) in row.iter_mut().zip(gamma) {
            *value = *value * inverse * *gamma;
        }
    }
}

#[cfg(test)]
mod tests;
