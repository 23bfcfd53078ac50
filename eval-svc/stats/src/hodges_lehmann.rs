//! The Hodges–Lehmann one-sample estimate of location.

/// Median of the Walsh averages (x_i + x_j) / 2, i ≤ j; `None` of no values. Values must be finite.
///
/// There are n(n + 1)/2 averages, too many to hold for a thousand resamples of a large dataset, so the median is found
/// by bisecting over the doubles themselves: with the values sorted, the averages up to a limit are counted in one
/// sweep, and floating-point averaging is monotone, so the count is exact. O(n log n) time, O(n) memory, and the result
/// equals sorting all averages to the last bit.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as u64;
    let count = n * (n + 1) / 2;
    if count == 0 {
        return None;
    }
    let upper = kth_walsh_average(&sorted, count / 2 + 1)?;
    if count % 2 == 1 {
        return Some(upper);
    }
    Some((kth_walsh_average(&sorted, count / 2)? + upper) / 2.0)
}

/// The k-th smallest Walsh average, k from 1.
fn kth_walsh_average(sorted: &[f64], k: u64) -> Option<f64> {
    let (mut low, mut high) = (ordinal(*sorted.first()?), ordinal(*sorted.last()?));
    while low < high {
        let middle = low + (high - low) / 2;
        if count_up_to(sorted, from_ordinal(middle)) >= k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(from_ordinal(low))
}

/// How many Walsh averages are ≤ limit: for each i from the left, j walks down from the right.
fn count_up_to(sorted: &[f64], limit: f64) -> u64 {
    let mut count = 0;
    let mut end = sorted.len();
    for (i, x) in sorted.iter().enumerate() {
        while end > i && (x + sorted[end - 1]) / 2.0 > limit {
            end -= 1;
        }
        if end <= i {
            break;
        }
        count += (end - i) as u64;
    }
    count
}

/// Maps doubles to integers in the same order.
fn ordinal(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn from_ordinal(ordinal: u64) -> f64 {
    f64::from_bits(if ordinal >> 63 == 1 {
        ordinal & !(1 << 63)
    } else {
        !ordinal
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::median;

    fn by_sorting(values: &[f64]) -> Option<f64> {
        let averages: Vec<f64> = (0..values.len())
            .flat_map(|i| (i..values.len()).map(move |j| (values[i] + values[j]) / 2.0))
            .collect();
        median(&averages)
    }

    #[test]
    fn one_value_is_its_own_estimate() {
        assert_eq!(hodges_lehmann(&[-0.3]), Some(-0.3));
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[1.0, 1.0, 1.0]), Some(1.0));
    }

    proptest! {
        #[test]
        fn bisection_equals_sorting_every_average(values in prop::collection::vec(-10.0..10.0_f64, 1..60)) {
            prop_assert_eq!(hodges_lehmann(&values), by_sorting(&values));
        }

        #[test]
        fn ties_change_nothing(values in prop::collection::vec(-5..5_i32, 1..40)) {
            let values: Vec<f64> = values.iter().map(|v| f64::from(*v) / 8.0).collect();
            prop_assert_eq!(hodges_lehmann(&values), by_sorting(&values));
        }

        #[test]
        fn the_estimate_moves_with_the_data(values in prop::collection::vec(-4.0..4.0_f64, 1..40), shift in -3.0..3.0_f64) {
            let moved: Vec<f64> = values.iter().map(|v| v + shift).collect();
            prop_assert!((hodges_lehmann(&moved).unwrap() - hodges_lehmann(&values).unwrap() - shift).abs() < 1e-12);
        }
    }
}
