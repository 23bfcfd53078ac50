//! The exponential function, without branches, so that loops over it become vector code.

use super::fma;

const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52: adding it rounds to an integer
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const LOWEST: f64 = -708.0;
const HIGHEST: f64 = 709.0;

/// e^x to about one unit in the last place. The result is constant outside [-708, 709]: e^-708
/// (3e-308) below and e^709 above.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f64) -> f64 {
    let x = x.clamp(LOWEST, HIGHEST);
    let shifted = fma::<FUSED>(x, std::f64::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = fma::<FUSED>(-n, LN2_LOW, fma::<FUSED>(-n, LN2_HIGH, x));
    // |r| ≤ ln 2 / 2: the Taylor series to the 13th power is exact to 2^-57.
    let mut p = 1.0 / 6_227_020_800.0;
    p = fma::<FUSED>(p, r, 1.0 / 479_001_600.0);
    p = fma::<FUSED>(p, r, 1.0 / 39_916_800.0);
    p = fma::<FUSED>(p, r, 1.0 / 3_628_800.0);
    p = fma::<FUSED>(p, r, 1.0 / 362_880.0);
    p = fma::<FUSED>(p, r, 1.0 / 40_320.0);
    p = fma::<FUSED>(p, r, 1.0 / 5_040.0);
    p = fma::<FUSED>(p, r, 1.0 / 720.0);
    p = fma::<FUSED>(p, r, 1.0 / 120.0);
    p = fma::<FUSED>(p, r, 1.0 / 24.0);
    p = fma::<FUSED>(p, r, 1.0 / 6.0);
    p = fma::<FUSED>(p, r, 0.5);
    p = fma::<FUSED>(p, r, 1.0);
    p = fma::<FUSED>(p, r, 1.0);
    // The low bits of `shifted` are n; placed in the exponent they give 2^n.
    p * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn agrees_with_the_library_to_two_units_in_the_last_place() {
        let mut worst = 0.0_f64;
        for i in 0..=200_000 {
            let x = -700.0 + f64::from(i) * 0.007;
            for got in [exp::<false>(x), exp::<true>(x)] {
                worst = worst.max(((got - x.exp()) / x.exp()).abs());
            }
        }
        assert!(worst < 2.0 * f64::EPSILON, "{worst:e}");
    }

    #[test]
    fn far_below_and_above_it_stays_finite() {
        assert!(exp::<false>(-1e6) < 1e-300 && exp::<false>(1e6).is_finite());
        assert_eq!(exp::<true>(0.0), 1.0);
    }
}
