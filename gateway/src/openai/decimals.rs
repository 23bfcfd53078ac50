//! 32-bit floats as JSON numbers: short decimals that read back as the same bits.
//!
//! An answer's text is mostly digits, and writing them takes most of its time. The numbers of a
//! vector lie in a narrow range, in which exact arithmetic finds a decimal: an f32 times a power of
//! ten is right to 53 bits, and nine digits distinguish any two f32. Fewer digits are tried first.
//! They are used if the decimal is still nearer to the number than to its neighbours.

/// Maximum number of bytes of one number with its comma.
pub(super) const LONGEST: usize = 17;

/// Bytes that are copied for each number.
const COPIED: usize = 24;

/// The required powers of ten, all exact in binary64.
const TENS: [f64; 14] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13];
/// Magnitudes that this module writes. Other magnitudes are rare in vectors.
const RANGE: std::ops::Range<f64> = 1e-5..10.0;
/// An upper bound on the rounding error of the products, in units of the ninth digit.
const SLACK: f64 = 1e-6;

/// Appends the numbers as a JSON array. A number that is not finite has no form in JSON and becomes
/// `null`.
pub(super) fn array(values: impl ExactSizeIterator<Item = f32>, out: &mut Vec<u8>) {
    out.reserve(values.len() * LONGEST + COPIED + 2);
    out.push(b'[');
    for value in values {
        number(value, out);
    }
    // Replaces the last comma.
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b']');
}

/// Appends a number and a comma.
fn number(value: f32, out: &mut Vec<u8>) {
    let magnitude = f64::from(value.abs());
    if RANGE.contains(&magnitude) {
        let decimal = Decimal::shortest(value, magnitude);
        decimal.write(value.is_sign_negative(), out);
    } else if value.is_finite() {
        out.extend_from_slice(format!("{value:?},").as_bytes());
    } else {
        out.extend_from_slice(b"null,");
    }
}

/// A decimal: `digits` with the point after the first of nine, times 10^-`shift`.
struct Decimal {
    /// Nine digits.
    digits: u32,
    /// Number of digits that are written; the others are zeros.
    places: usize,
    shift: usize,
}

impl Decimal {
    /// `magnitude` is the absolute value of `value`, in [`RANGE`].
    fn shortest(value: f32, magnitude: f64) -> Self {
        let mut shift = 0;
        while magnitude * TENS[shift] < 1.0 {
            shift += 1;
        }
        let exact = magnitude * TENS[shift + 8];
        let half_gap = half_gap(value) * TENS[shift + 8] - SLACK;
        let (mut digits, mut places) = ((exact + 0.5) as u32, 9);
        let mut step = 1;
        while places > 1 {
            step *= 10;
            let shorter = (exact / f64::from(step) + 0.5) as u32 * step;
            if (f64::from(shorter) - exact).abs() >= half_gap {
                break;
            }
            digits = shorter;
            places -= 1;
        }
        // Rounding up reached the next power of ten (0.0099999998 to 0.01).
        if digits >= 1_000_000_000 {
            (digits, places, shift) = (100_000_000, 1, shift - 1);
        }
        Self { digits, places, shift }
    }

    /// Appends the number and a comma.
    fn write(&self, negative: bool, out: &mut Vec<u8>) {
        // Room for the sign, the zeros before and after the point, nine digits, a comma, and unused
        // bytes.
        let mut text = *b"-0.0000000000000000000000";
        let digits = &eight_digits(self.digits % 100_000_000);
        let first = b'0' + (self.digits / 100_000_000) as u8;
        let end = if self.shift == 0 {
            text[1] = first;
            text[3..11].copy_from_slice(digits);
            // At least one digit follows the point.
            2 + self.places.max(2)
        } else {
            text[2 + self.shift] = first;
            text[3 + self.shift..11 + self.shift].copy_from_slice(digits);
            2 + self.shift + self.places
        };
        text[end] = b',';
        // A copy of fixed length takes a few instructions; the surplus is cut off again.
        let from = usize::from(!negative);
        let length = out.len() + end + 1 - from;
        out.extend_from_slice(&text[from..from + COPIED]);
        out.truncate(length);
    }
}

/// A number below 10^8 as eight digits. It is split into four-digit, two-digit and one-digit parts,
/// with arithmetic on all parts at once.
fn eight_digits(number: u32) -> [u8; 8] {
    let four = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    // Divides numbers below 10^4 by a hundred, and numbers below 10^2 by ten, with a
    // multiplication.
    let hundreds = ((four * 10_486) >> 20) & 0x7f_0000_007f;
    let two = hundreds | (four - hundreds * 100) << 16;
    let tens = ((two * 103) >> 10) & 0xf_000f_000f_000f;
    let one = tens | (two - tens * 10) << 8;
    (one | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Half the distance from a number in [`RANGE`] to its nearer neighbour.
fn half_gap(value: f32) -> f64 {
    let bits = value.to_bits();
    // Below a power of two the numbers are twice as dense.
    let halvings = if bits << 9 == 0 { 25 } else { 24 };
    let exponent = (bits >> 23) & 0xff;
    f64::from_bits(u64::from(exponent + 1023 - 127 - halvings) << 52)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(value: f32) -> String {
        let mut out = Vec::new();
        number(value, &mut out);
        assert_eq!(out.pop(), Some(b','));
        String::from_utf8(out).unwrap()
    }

    /// Significant digits.
    fn digits(text: &str) -> usize {
        let before_exponent = text.split('e').next().unwrap();
        let digits: String = before_exponent.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').len()
    }

    /// Whether the text reads back as the number.
    fn holds(value: f32) -> bool {
        let text = text(value);
        let fits = text.len() < LONGEST || !RANGE.contains(&f64::from(value.abs()));
        fits && text.parse::<f32>().unwrap().to_bits() == value.to_bits()
    }

    /// Whether the text has no more digits than Rust's own formatting.
    fn is_short(value: f32) -> bool {
        digits(&text(value)) <= digits(&format!("{value:?}"))
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-9.5, "-9.5"),
            (0.1, "0.1"),
            (0.01, "0.01"),
            (0.001, "0.001"),
            (0.000_01, "1e-5"),
            (0.000_010_1, "0.0000101"),
            (-0.012_345_678, "-0.012345678"),
            (0.333_333_34, "0.33333334"),
            (9.999_999, "9.999999"),
            (123.5, "123.5"),
            (1e-30, "1e-30"),
            (f32::NAN, "null"),
            (f32::NEG_INFINITY, "null"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn eight_digits_are_those_of_the_number() {
        // Each half is processed separately.
        for half in 0..10_000 {
            let number = half * 10_000 + (9_999 - half);
            assert_eq!(eight_digits(number), format!("{number:08}").as_bytes());
        }
    }

    #[test]
    fn every_number_reads_back_as_the_same_bits() {
        // The stride meets every exponent and every pattern of low bits; the test below covers all
        // numbers.
        for bits in (0..=u32::MAX).step_by(2_503) {
            let value = f32::from_bits(bits);
            let right = !value.is_finite() || holds(value) && is_short(value);
            assert!(right, "{value:?} as {}", text(value));
        }
        // Powers of two (whose neighbours are at unequal distances), the numbers beside them, and
        // decimals of few digits.
        for exponent in 100_u32..140 {
            for bits in (exponent << 23) - 3..(exponent << 23) + 3 {
                assert!(holds(f32::from_bits(bits)), "{bits:x}");
            }
        }
        for hundred_thousandth in 1..200_000 {
            let value = hundred_thousandth as f32 / 100_000.0;
            assert!(holds(value) && is_short(value), "{value:?} as {}", text(value));
        }
    }

    #[test]
    #[ignore = "all 167 million numbers that are written here: two minutes in a release build"]
    fn every_number_of_the_range_reads_back() {
        let (from, to) = ((RANGE.start as f32).to_bits(), (RANGE.end as f32).to_bits());
        let mut longer = Vec::new();
        for bits in from..to {
            let value = f32::from_bits(bits);
            assert!(holds(value), "{bits:x}");
            if !is_short(value) {
                longer.push(value);
            }
        }
        // Their shortest decimals lie halfway to a neighbour, where ties to even decide.
        assert_eq!(longer, [1.207_419_2e-5, 1.775_49e-5, 1.420_392e-4]);
    }

    #[test]
    fn arrays_have_commas_between_their_numbers() {
        for (values, expected) in [
            (&[][..], "[]"),
            (&[0.5], "[0.5]"),
            (&[0.5, -1.0, f32::NAN], "[0.5,-1.0,null]"),
        ] {
            let mut out = b"x".to_vec();
            array(values.iter().copied(), &mut out);
            assert_eq!(out, format!("x{expected}").as_bytes());
        }
    }
}
