//! Decimal rounding like Python's `round`.

/// Rounds to `places` decimals: the decimal nearest to the double's exact value, ties to even.
/// Python's `round(x, n)` and Rust's formatting both work on the exact value, so formatting and
/// parsing is the same operation.
pub fn round_decimals(value: f64, places: usize) -> f64 {
    if !value.is_finite() {
        return value;
    }
    format!("{value:.places$}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_binary_value_decides_which_way_to_round() {
        // 2.675 is a little less than 2.675, 0.125 is exact.
        assert_eq!(round_decimals(2.675, 2), 2.67);
        assert_eq!(round_decimals(0.125, 2), 0.12);
        assert_eq!(round_decimals(0.375, 2), 0.38);
        assert_eq!(round_decimals(0.666_666_666, 5), 0.666_67);
        assert!(round_decimals(f64::NAN, 5).is_nan());
    }
}
