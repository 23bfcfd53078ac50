//! Paired differences: their size and their uncertainty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{self, Alternative, Distribution};

/// Resamples of every bootstrap.
const RESAMPLES: usize = 1_000;
/// Level of every interval.
const LEVEL: f64 = 0.95;
/// Seed of every bootstrap: the same scores give the same interval.
const SEED: u64 = 1337;
/// Fewest pairs for an interval.
const LEAST_FOR_INTERVAL: usize = 2;

/// Ends of an interval of a shift.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShiftInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level.
    pub level: f64,
    /// How it was made.
    pub method: String,
}

/// A test of paired differences (points), one pair a dataset, seeds averaged first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shift {
    /// Pairs.
    pub n: usize,
    /// Mean of the paired differences.
    pub mean_difference: f64,
    /// Median of the absolute paired differences.
    pub median_absolute_difference: f64,
    /// Hodges-Lehmann shift: median of the Walsh averages (i <= j).
    pub hodges_lehmann: f64,
    /// Percentile bootstrap interval of the shift.
    pub interval: Option<ShiftInterval>,
    /// Interval of the shifts that the signed-rank test does not reject (HTEB, figure 7); absent if
    /// there are too few pairs for the level.
    #[serde(default)]
    pub signed_rank_interval: Option<ShiftInterval>,
    /// Wilcoxon's signed-rank statistic, min(W+, W-).
    pub wilcoxon: Option<f64>,
    /// Where the p-value came from.
    pub wilcoxon_method: Option<String>,
    /// Two-sided p-value.
    pub p_value: Option<f64>,
    /// Holm-adjusted over the family the test belongs to.
    pub p_holm: Option<f64>,
    /// Remark that a reader needs: figures that could not be computed, or how small p can get at
    /// this n.
    pub note: Option<String>,
}

/// Tests one set of paired differences; the Holm adjustment comes after, over the family
/// ([`adjust`]). `None` without pairs.
pub fn shift(differences: &[f64]) -> Option<Shift> {
    let n = differences.len();
    let absolute: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let mut shift = Shift {
        n,
        mean_difference: stats::mean(differences)?,
        median_absolute_difference: stats::median(&absolute)?,
        hodges_lehmann: stats::hodges_lehmann(differences)?,
        interval: None,
        signed_rank_interval: None,
        wilcoxon: None,
        wilcoxon_method: None,
        p_value: None,
        p_holm: None,
        note: None,
    };
    if n < LEAST_FOR_INTERVAL {
        shift.note = Some("one data set: neither a test nor an interval is possible".to_owned());
        return Some(shift);
    }
    shift.interval =
        stats::hodges_lehmann_bootstrap(differences, RESAMPLES, LEVEL, SEED).map(|interval| ShiftInterval {
            low: interval.low,
            high: interval.high,
            level: interval.level,
            method: format!("percentile bootstrap ({RESAMPLES})"),
        });
    let inverted = stats::wilcoxon_interval(differences, LEVEL, Alternative::TwoSided);
    let unreachable = inverted.as_ref().err().map(ToString::to_string);
    shift.signed_rank_interval = inverted.ok().map(|interval| ShiftInterval {
        low: interval.low,
        high: interval.high,
        level: interval.level,
        method: if interval.exact {
            format!(
                "signed-rank test inverted, exact (covers {:.1} %)",
                100.0 * interval.achieved
            )
        } else {
            "signed-rank test inverted, normal approximation".to_owned()
        },
    });
    match stats::wilcoxon_signed_rank(differences, Alternative::TwoSided) {
        Ok(test) => {
            shift.wilcoxon = Some(test.statistic);
            shift.wilcoxon_method = Some(
                match test.distribution {
                    Distribution::Exact => "exact",
                    Distribution::Permutation => "exact, given the ties",
                    Distribution::Normal => "normal approximation",
                }
                .to_owned(),
            );
            shift.p_value = Some(test.p_value);
            shift.note = smallest_p(test.n);
        }
        Err(error) => shift.note = Some(error.to_string()),
    }
    shift.note = match (shift.note.take(), unreachable) {
        (Some(note), Some(also)) => Some(format!("{note}; {also}")),
        (note, also) => note.or(also),
    };
    Some(shift)
}

/// With few pairs a p-value cannot fall below 2 / 2^n; said where that is above 0.05.
fn smallest_p(n: usize) -> Option<String> {
    let floor = 2.0 / 2f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    (floor > 0.05).then(|| format!("{n} pairs: p cannot fall below {floor}"))
}

/// Holm over a family of tests; tests without a p-value are not members.
pub fn adjust<'a>(family: impl IntoIterator<Item = &'a mut Shift>) {
    let mut tested: Vec<&mut Shift> = family.into_iter().filter(|shift| shift.p_value.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|shift| shift.p_value).collect();
    for (shift, adjusted) in tested.iter_mut().zip(stats::holm(&p)) {
        shift.p_holm = Some(adjusted);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_pair_is_said_to_allow_no_test() {
        let shift = shift(&[-2.0]).unwrap();
        assert_eq!((shift.n, shift.hodges_lehmann, shift.p_value), (1, -2.0, None));
        assert!(shift.interval.is_none());
        assert!(shift.note.unwrap().contains("one data set"));
    }

    #[test]
    fn three_pairs_say_how_small_p_can_get() {
        let shift = shift(&[-1.0, -2.0, -4.0]).unwrap();
        // Walsh averages -1, -1.5, -2, -2.5, -3, -4: median -2.25
        assert_eq!(shift.hodges_lehmann, -2.25);
        assert_eq!(shift.p_value, Some(0.25));
        assert!(shift.note.unwrap().contains("0.25"));
        let interval = shift.interval.unwrap();
        assert!(interval.low <= -2.25 && interval.high >= -2.25);
    }

    #[test]
    fn six_pairs_reach_a_signed_rank_interval_and_five_say_that_they_do_not() {
        // Six values: c = 0 has P(W+ <= 0) = 1/64 < 0.025, so the interval is the smallest to the
        // largest Walsh average.
        let six = shift(&[-1.0, -2.0, -3.0, -4.0, -5.0, -7.0]).unwrap();
        let interval = six.signed_rank_interval.unwrap();
        assert_eq!((interval.low, interval.high), (-7.0, -1.0));
        assert!(interval.method.contains("96.9 %"), "{}", interval.method);
        let five = shift(&[-1.0, -2.0, -3.0, -4.0, -5.0]).unwrap();
        assert!(five.signed_rank_interval.is_none());
        assert!(five.note.unwrap().contains("no signed-rank interval"));
    }

    #[test]
    fn no_differences_at_all_are_said_to_leave_nothing_to_rank() {
        let shift = shift(&[0.0, 0.0]).unwrap();
        assert_eq!(shift.p_value, None);
        assert!(shift.note.unwrap().contains("zero"));
    }

    #[test]
    fn holm_multiplies_the_smallest_p_by_the_number_of_tests() {
        let mut family: Vec<Shift> = [[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0], [1.0, -2.0, 3.0, -4.0, 5.0, -6.5]]
            .iter()
            .filter_map(|d| shift(d))
            .collect();
        adjust(&mut family);
        let p: Vec<f64> = family.iter().map(|s| s.p_value.unwrap()).collect();
        assert_eq!(p[0], 0.03125);
        assert_eq!(family[0].p_holm, Some(0.0625));
        assert_eq!(family[1].p_holm, Some(p[1]));
    }
}
