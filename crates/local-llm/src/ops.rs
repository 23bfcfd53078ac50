//! Element-wise parts of the forward pass, one row at a time.
//!
//! Bodies are written once and compiled twice on x86-64, with AVX2 + FMA and without. Sums run over
//! a fixed pattern of lanes, so a row's bits depend only on the row.

/// Compiles a body with and without AVX2 + FMA, and selects one at run time.
macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident, $body:ident, ($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $ty),*) {
                    $body::<true>($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: both features were just detected.
                    return unsafe { wide($($arg),*) };
                }
            }
            // Every other supported 64-bit target has a fused multiply-add instruction.
            $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}
pub(crate) use dispatched;

/// Lanes of a sum.
pub(crate) const LANES: usize = 16;

#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    // Without the instruction, `mul_add` calls the C library.
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `Σ a_j·b` for `N` rows of `a`, which are contiguous and as long as `b`. Each row is summed in
/// the same way, whatever the number of rows.
#[inline(always)]
pub(crate) fn dots<const FMA: bool, const N: usize>(a: &[f32], b: &[f32]) -> [f32; N] {
    let mut lanes = [[0.0f32; LANES]; N];
    let (chunks, rest) = b.as_chunks::<LANES>();
    for (chunk, b) in chunks.iter().enumerate() {
        for (j, lanes) in lanes.iter_mut().enumerate() {
            let a = &a[j * (chunks.len() * LANES + rest.len()) + chunk * LANES..][..LANES];
            for i in 0..LANES {
                lanes[i] = fma::<FMA>(a[i], b[i], lanes[i]);
            }
        }
    }
    for (j, lanes) in lanes.iter_mut().enumerate() {
        let a = &a[j * b.len() + chunks.len() * LANES..][..rest.len()];
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(rest) {
            *lane = fma::<FMA>(*a, *b, *lane);
        }
    }
    lanes.map(|mut lanes| {
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    })
}

dispatched! {
    /// Root-mean-square normalisation of each run of `weight.len()` values (Zhang & Sennrich 2019):
    /// `x / sqrt(mean(x²) + eps) · weight`.
    rms_norm, rms_norm_body, (x: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
}

#[inline(always)]
fn rms_norm_body<const FMA: bool>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    #[allow(clippy::cast_precision_loss)]
    let width = weight.len() as f32;
    for (x, out) in x.chunks_exact(weight.len()).zip(out.chunks_exact_mut(weight.len())) {
        let factor = 1.0 / (dots::<FMA, 1>(x, x)[0] / width + eps).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * factor * weight;
        }
    }
}

dispatched! {
    /// `values[i] += other[i]`.
    add, add_body, (values: &mut [f32], other: &[f32])
}

#[inline(always)]
fn add_body<const FMA: bool>(values: &mut [f32], other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value += other;
    }
}

dispatched! {
    /// `gate[i] = silu(gate[i]) · up[i]`, `silu(x) = x / (1 + exp(-x))`.
    silu_times, silu_body, (gate: &mut [f32], up: &[f32])
}

#[inline(always)]
fn silu_body<const FMA: bool>(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp::<FMA>(-*gate)) * up;
    }
}

dispatched! {
    /// `gate[i] = gelu(gate[i]) · up[i]` with the tanh form of GELU, `x/2 · (1 + tanh(√(2/π)(x +
    /// 0.044715 x³)))`.
    gelu_tanh_times, gelu_tanh_body, (gate: &mut [f32], up: &[f32])
}

#[inline(always)]
fn gelu_tanh_body<const FMA: bool>(gate: &mut [f32], up: &[f32]) {
    // x/2 · (1 + tanh(u)) = x / (1 + exp(-2u)), and 2·√(2/π) = 1.5957691.
    const TWICE: f32 = 1.595_769;
    for (gate, up) in gate.iter_mut().zip(up) {
        let x = *gate;
        let u = x * fma::<FMA>(0.044_715 * x, x, 1.0);
        *gate = x / (1.0 + exp::<FMA>(-TWICE * u)) * up;
    }
}

/// `exp(x)` with a relative error below 3e-7; `x` is clamped to -87 … 88.
///
/// `x = n·ln 2 + r` with |r| ≤ ln 2 / 2, and the Taylor series of `exp(r)` to degree 7.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    // Adding 1.5 · 2^23 rounds to an integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts. The first has few bits, so its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FMA>(n, -LN2_LOW, fma::<FMA>(n, -LN2_HIGH, x));
    let mut p = 1.0 / 5040.0;
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = fma::<FMA>(p, r, c);
    }
    p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()))
}

/// Rotates the heads of a row in place. `table` contains cosine and sine of each pair; `neighbours`
/// selects the pairing of elements.
pub(crate) fn rotate(row: &mut [f32], head_dim: usize, table: &[(f32, f32)], neighbours: bool) {
    let half = table.len();
    for head in row.chunks_exact_mut(head_dim) {
        for (i, &(cos, sin)) in table.iter().enumerate() {
            let (a, b) = if neighbours { (2 * i, 2 * i + 1) } else { (i, i + half) };
            let (x, y) = (head[a], head[b]);
            head[a] = x * cos - y * sin;
            head[b] = x * sin + y * cos;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<f32> {
        (-4000i16..4000).map(|i| f32::from(i) * 0.0137).collect()
    }

    #[test]
    fn silu_matches_its_definition() {
        let (mut gate, up) = (values(), vec![1.5; 8000]);
        silu_times(&mut gate, &up);
        for (found, x) in gate.iter().zip(values()) {
            let x = f64::from(x);
            let expected = x / (1.0 + (-x).exp()) * 1.5;
            assert!(
                (f64::from(*found) - expected).abs() <= 1e-6 * expected.abs() + 1e-12,
                "{x}: {found} {expected}"
            );
        }
    }

    #[test]
    fn gelu_matches_its_definition() {
        let (mut gate, up) = (values(), vec![1.0; 8000]);
        gelu_tanh_times(&mut gate, &up);
        for (found, x) in gate.iter().zip(values()) {
            let x = f64::from(x);
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            let expected = 0.5 * x * (1.0 + u.tanh());
            assert!(
                (f64::from(*found) - expected).abs() <= 2e-6 * x.abs(),
                "{x}: {found} {expected}"
            );
        }
    }

    #[test]
    fn rms_norm_matches_its_definition() {
        let x: Vec<f32> = values()[..37].to_vec();
        let weight: Vec<f32> = (0..37u8).map(|i| 0.5 + f32::from(i) / 37.0).collect();
        let mut out = vec![0.0; 37];
        rms_norm(&x, &weight, 1e-6, &mut out);
        let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 37.0;
        for ((found, x), weight) in out.iter().zip(&x).zip(&weight) {
            let expected = f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(*weight);
            assert!((f64::from(*found) - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn rotation_keeps_lengths_and_pairs_as_told() {
        let quarter = [(0.0, 1.0), (1.0, 0.0)];
        let mut row = [1.0, 2.0, 3.0, 4.0];
        rotate(&mut row, 4, &quarter, true);
        assert_eq!(row, [-2.0, 1.0, 3.0, 4.0]);
        let mut row = [1.0, 2.0, 3.0, 4.0];
        rotate(&mut row, 4, &quarter, false);
        assert_eq!(row, [-3.0, 2.0, 1.0, 4.0]);
    }
}
