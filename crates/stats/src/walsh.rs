//! Order statistics of the Walsh averages (x_i + x_j) / 2, i ≤ j, without computing all of them.
//!
//! There are n(n + 1)/2 of them, too many to sort for a thousand resamples of a large data set. If
//! the values are sorted, the averages up to a limit are counted in one sweep, and floating-point
//! averaging is monotone, so the count is exact. A bracket around the wanted average is narrowed by
//! interpolating between counts. Every third step is a bisection over the doubles themselves, so
//! that no data can stall it. Once about 2 n averages are left inside, they are collected and the
//! wanted one is selected. O(n log n) time, O(n) memory, and the result equals sorting to the last
//! bit.

/// The averages of sorted values.
pub(crate) struct Walsh<'a> {
    sorted: &'a [f64],
}

/// Median of the Walsh averages of ascending values. `scratch` is memory for candidates, kept
/// between calls.
pub(crate) fn middle(sorted: &[f64], scratch: &mut Vec<f64>) -> Option<f64> {
    let walsh = Walsh::new(sorted);
    let count = walsh.count();
    if count == 0 {
        return None;
    }
    let (low, high) = walsh.select(count.div_ceil(2), count / 2 + 1, scratch);
    Some(if count % 2 == 1 { low } else { (low + high) / 2.0 })
}

/// An end of the bracket: a position among the doubles, and the number of averages up to it.
#[derive(Clone, Copy)]
struct End {
    at: u64,
    count: u64,
}

impl<'a> Walsh<'a> {
    /// Averages of ascending, finite values.
    pub(crate) fn new(sorted: &'a [f64]) -> Self {
        Self { sorted }
    }

    /// The number of averages.
    pub(crate) fn count(&self) -> u64 {
        let n = self.sorted.len() as u64;
        n * (n + 1) / 2
    }

    /// The k-th smallest average, k from 1; `None` beyond their number.
    pub(crate) fn nth(&self, k: u64, scratch: &mut Vec<f64>) -> Option<f64> {
        (k >= 1 && k <= self.count()).then(|| self.select(k, k, scratch).0)
    }

    /// The averages of ranks `first` and `second`, where `first` ≤ `second` ≤ `first` + 1, both in
    /// 1..=count.
    fn select(&self, first: u64, second: u64, scratch: &mut Vec<f64>) -> (f64, f64) {
        let n = self.sorted.len();
        let (least, most) = (self.sorted[0], self.sorted[n - 1]);
        // Below all averages, and at the largest one. Two below: the double under 0.0 is −0.0,
        // which equals it.
        let mut low = End {
            at: ordinal(least) - 2,
            count: 0,
        };
        let mut high = End {
            at: ordinal(most),
            count: self.count(),
        };
        let few = 2 * n as u64 + 16;
        let margin = n as f64 / 2.0;
        let mut step = 0_u32;
        while high.count - low.count > few && high.at - low.at > 1 {
            let probe = match step {
                0 => ordinal(self.sorted[n / 2]),
                _ if step.is_multiple_of(3) => low.at + (high.at - low.at) / 2,
                // The target is approached from below on one step and from above on the next, with
                // a small offset so that the bracket closes.
                _ => {
                    let target = if step % 3 == 1 {
                        second as f64 + margin
                    } else {
                        first as f64 - margin
                    };
                    let share = (target - low.count as f64) / (high.count - low.count) as f64;
                    let (from, to) = (from_ordinal(low.at).max(least), from_ordinal(high.at));
                    ordinal(from + (to - from) * share.clamp(0.0, 1.0))
                }
            };
            step += 1;
            let probe = probe.clamp(low.at + 1, high.at - 1);
            let count = self.count_up_to(from_ordinal(probe));
            if count < first {
                low = End { at: probe, count };
            } else if count >= second {
                high = End { at: probe, count };
            } else {
                // The two wanted averages lie on either side of the probe.
                return self.neighbours(from_ordinal(probe));
            }
        }
        if high.at - low.at == 1 {
            let only = from_ordinal(high.at) + 0.0;
            return (only, only);
        }
        self.collect(from_ordinal(low.at), from_ordinal(high.at), scratch);
        let place = (first - low.count - 1) as usize;
        let (_, found, above) = scratch.select_nth_unstable_by(place, f64::total_cmp);
        let found = *found;
        if first == second {
            return (found, found);
        }
        (found, above.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// The number of averages ≤ limit: for each i from the left, j walks down from the right.
    fn count_up_to(&self, limit: f64) -> u64 {
        let sorted = self.sorted;
        let mut count = 0;
        let mut end = sorted.len();
        for (i, x) in sorted.iter().enumerate() {
            while end > i && (x + sorted[end - 1]) * 0.5 > limit {
                end -= 1;
            }
            if end <= i {
                break;
            }
            count += end - i;
        }
        count as u64
    }

    /// The largest average ≤ limit and the smallest one > limit.
    fn neighbours(&self, limit: f64) -> (f64, f64) {
        let sorted = self.sorted;
        let (mut under, mut over) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut end = sorted.len();
        for (i, x) in sorted.iter().enumerate() {
            while end > i && (x + sorted[end - 1]) * 0.5 > limit {
                end -= 1;
            }
            if let Some(y) = sorted.get(end.max(i)) {
                over = over.min((x + y) * 0.5);
            }
            if end > i {
                under = under.max((x + sorted[end - 1]) * 0.5);
            }
        }
        (under, over)
    }

    /// The averages in (low, high].
    fn collect(&self, low: f64, high: f64, into: &mut Vec<f64>) {
        into.clear();
        let sorted = self.sorted;
        let (mut start, mut end) = (sorted.len(), sorted.len());
        for (i, x) in sorted.iter().enumerate() {
            while end > i && (x + sorted[end - 1]) * 0.5 > high {
                end -= 1;
            }
            if end <= i {
                break;
            }
            while start > i && (x + sorted[start - 1]) * 0.5 > low {
                start -= 1;
            }
            into.extend(sorted[start.max(i)..end].iter().map(|y| (x + y) * 0.5));
        }
    }
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
    use crate::{hodges_lehmann, median};

    fn averages(values: &[f64]) -> Vec<f64> {
        let mut all: Vec<f64> = (0..values.len())
            .flat_map(|i| (i..values.len()).map(move |j| (values[i] + values[j]) / 2.0))
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    proptest! {
        #[test]
        fn selection_equals_sorting_every_average(values in prop::collection::vec(-10.0..10.0_f64, 1..90)) {
            prop_assert_eq!(hodges_lehmann(&values), median(&averages(&values)));
        }

        #[test]
        fn every_rank_is_found(values in prop::collection::vec(-9..9_i32, 1..60), scale in -3..4_i32) {
            let mut values: Vec<f64> = values.iter().map(|v| f64::from(*v) * 10f64.powi(scale)).collect();
            values.sort_by(f64::total_cmp);
            let (walsh, mut scratch) = (Walsh::new(&values), Vec::new());
            for (k, expected) in averages(&values).iter().enumerate() {
                prop_assert_eq!(walsh.nth(k as u64 + 1, &mut scratch), Some(*expected));
            }
            prop_assert_eq!(walsh.nth(0, &mut scratch), None);
            prop_assert_eq!(walsh.nth(walsh.count() + 1, &mut scratch), None);
        }

        #[test]
        fn outliers_and_many_ties_change_nothing(
            values in prop::collection::vec(-5..5_i32, 1..70), far in -1e12..1e12_f64, tiny in -1e-9..1e-9_f64
        ) {
            let mut values: Vec<f64> = values.iter().map(|v| f64::from(*v) / 8.0).collect();
            values.extend([far, tiny, tiny, 0.0]);
            prop_assert_eq!(hodges_lehmann(&values), median(&averages(&values)));
        }

        #[test]
        fn the_estimate_moves_with_the_data(values in prop::collection::vec(-4.0..4.0_f64, 1..40), shift in -3.0..3.0_f64) {
            let moved: Vec<f64> = values.iter().map(|v| v + shift).collect();
            prop_assert!((hodges_lehmann(&moved).unwrap() - hodges_lehmann(&values).unwrap() - shift).abs() < 1e-12);
        }
    }
}
