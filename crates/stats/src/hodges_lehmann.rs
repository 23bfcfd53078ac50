//! The Hodges–Lehmann estimate of location, and its interval by inverting the signed-rank test.
//!
//! Source: M. Hollander and D. A. Wolfe, "Nonparametric Statistical Methods", sections 3.2 and 3.3
//! (Tukey's interval).

use crate::{
    Alternative, StatsError,
    describe::differences,
    error::{level as check_level, sample},
    special::normal_quantile,
    walsh::{Walsh, middle},
    wilcoxon::{EXACT_MAX, signed_rank_quantile},
};

/// Median of the Walsh averages (x_i + x_j) / 2, i ≤ j; `None` if there are no values. Values must
/// be finite.
///
/// O(n log n) time, O(n) memory (Walsh averages are selected, never sorted or stored); equal to
/// sorting all averages to the last bit.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    middle(&sorted, &mut Vec::new())
}

/// Estimate of the shift of paired values, treatment minus reference: [`hodges_lehmann`] of the
/// differences.
///
/// # Errors
/// If there are no pairs, series have different lengths, or values are not finite.
pub fn hodges_lehmann_paired(treatment: &[f64], reference: &[f64]) -> Result<f64, StatsError> {
    hodges_lehmann(&differences(treatment, reference)?).ok_or(StatsError::TooFew {
        what: "a Hodges–Lehmann shift",
        needed: 1,
        found: 0,
    })
}

/// An interval of the Hodges–Lehmann shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WilcoxonInterval {
    /// Lower end; −∞ if the interval is open below.
    pub low: f64,
    /// Upper end; +∞ if the interval is open above.
    pub high: f64,
    pub level: f64,
    /// Level of the interval for continuous data. If exact, it is at least `level`, because W+ is a
    /// whole number; otherwise it is the nominal level.
    pub achieved: f64,
    /// Whether it is based on the exact null distribution (up to 50 values) or on the normal one.
    pub exact: bool,
}

/// The shifts that the signed-rank test does not reject: between two Walsh averages. It is exact up
/// to 50 values, and uses the normal approximation beyond. With ties or zeros the interval is
/// conservative (it covers at least as often).
///
/// `alternative` selects the ends: [`Alternative::TwoSided`] both, [`Alternative::Greater`] only a
/// lower one (the shift is at least …), [`Alternative::Less`] only an upper one.
///
/// # Errors
/// If there are no values, values are not finite, or the level is outside (0, 1) or unreachable
/// with so few values ([`StatsError::LevelUnreachable`] gives the highest level).
pub fn wilcoxon_interval(values: &[f64], level: f64, alternative: Alternative) -> Result<WilcoxonInterval, StatsError> {
    sample("values", values, "a signed-rank interval", 1)?;
    check_level(level)?;
    let n = values.len();
    let sides = if alternative == Alternative::TwoSided { 2.0 } else { 1.0 };
    let tail = (1.0 - level) / sides;
    let exact = n <= EXACT_MAX;
    // The interval runs from the k-th smallest average to the k-th largest.
    let (k, achieved) = if exact {
        // 1e-12: a level like 0.9375 that n can reach exactly must not be lost to the rounding of 1
        // − level.
        let (c, below) = signed_rank_quantile(n, tail * (1.0 + 1e-12)).ok_or(StatsError::LevelUnreachable {
            what: "signed-rank interval",
            level,
            n,
            best: 1.0 - sides * 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX)),
        })?;
        (c + 1, 1.0 - sides * below)
    } else {
        let count = n as f64;
        let mean = count * (count + 1.0) / 4.0;
        let sd = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        let c = (mean + normal_quantile(tail) * sd).floor().max(0.0);
        (c as u64 + 1, level)
    };
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let walsh = Walsh::new(&sorted);
    let mut scratch = Vec::new();
    let k = k.min(walsh.count());
    let mut nth = |k| walsh.nth(k, &mut scratch).unwrap_or(f64::NAN);
    let low = if alternative == Alternative::Less {
        f64::NEG_INFINITY
    } else {
        nth(k)
    };
    let high = if alternative == Alternative::Greater {
        f64::INFINITY
    } else {
        nth(walsh.count() + 1 - k)
    };
    Ok(WilcoxonInterval {
        low,
        high,
        level,
        achieved,
        exact,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::approx_constant)] // a depression score of 3.14 is not a pi
    use super::*;

    #[test]
    fn one_value_is_its_own_estimate() {
        assert_eq!(hodges_lehmann(&[-0.3]), Some(-0.3));
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[1.0, 1.0, 1.0]), Some(1.0));
    }

    #[test]
    fn the_textbook_s_interval_is_found() {
        // Hollander and Wolfe (1973), examples 3.1 to 3.3: the estimate −0.46, and (−0.786, −0.010)
        // at 96 %.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d = differences(&after, &before).unwrap();
        assert!((hodges_lehmann_paired(&after, &before).unwrap() + 0.46).abs() < 1e-9);
        let found = wilcoxon_interval(&d, 0.95, Alternative::TwoSided).unwrap();
        assert!(
            (found.low + 0.786).abs() < 1e-9 && (found.high + 0.010).abs() < 1e-9,
            "{found:?}"
        );
        assert!((found.achieved - 0.960_937_5).abs() < 1e-12 && found.exact);
    }

    #[test]
    fn a_level_out_of_reach_says_how_far_it_goes() {
        let refused = wilcoxon_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95, Alternative::TwoSided).unwrap_err();
        assert_eq!(
            refused,
            StatsError::LevelUnreachable {
                what: "signed-rank interval",
                level: 0.95,
                n: 5,
                best: 0.9375
            }
        );
        let widest = wilcoxon_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9375, Alternative::TwoSided).unwrap();
        assert_eq!((widest.low, widest.high, widest.achieved), (1.0, 5.0, 0.9375));
    }

    #[test]
    fn one_sided_intervals_are_open_at_the_other_end() {
        let x: Vec<f64> = (1..=20).map(f64::from).collect();
        let both = wilcoxon_interval(&x, 0.9, Alternative::TwoSided).unwrap();
        let lower = wilcoxon_interval(&x, 0.95, Alternative::Greater).unwrap();
        let upper = wilcoxon_interval(&x, 0.95, Alternative::Less).unwrap();
        assert_eq!((lower.low, lower.high), (both.low, f64::INFINITY));
        assert_eq!((upper.low, upper.high), (f64::NEG_INFINITY, both.high));
    }
}
