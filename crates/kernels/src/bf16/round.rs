//! Rounds `f32` to bfloat16.

/// The exponent bits of 2⁻⁵⁰: the products of larger numbers, and the sums of such products, are
/// zero or normal numbers.
const SMALLEST: u32 = (127 - 50) << 23;

const INFINITY: u32 = 0x7f80_0000;

/// The nearest bfloat16, ties to even, as its bits. NaN stays NaN; numbers below 2⁻⁵⁰ become zero.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let size = bits & 0x7fff_ffff;
    let nearest = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if size < SMALLEST {
        0
    } else if size > INFINITY {
        (bits >> 16) as u16 | 0x40
    } else {
        nearest
    }
}

/// Rounds a row; sets the padding to zero.
pub(super) fn round_row(row: &[f32], codes: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx2")]
        fn widest(row: &[f32], codes: &mut [u16]) {
            body(row, codes);
        }
        #[target_feature(enable = "avx2")]
        fn wide(row: &[f32], codes: &mut [u16]) {
            body(row, codes);
        }
        if crate::instructions::avx512() && std::arch::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the features were just detected.
            return unsafe { widest(row, codes) };
        }
        if crate::instructions::avx2() {
            // SAFETY: the feature was just detected.
            return unsafe { wide(row, codes) };
        }
    }
    body(row, codes);
}

#[inline(always)]
fn body(row: &[f32], codes: &mut [u16]) {
    let (inside, padding) = codes.split_at_mut(row.len());
    for (code, &value) in inside.iter_mut().zip(row) {
        *code = round(value);
    }
    padding.fill(0);
}
