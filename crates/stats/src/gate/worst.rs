//! A rule on the worst unit: no single data set (or group) is beyond the limit.
//!
//! *Passing* requires every unit's bound within the limit, each at 1 − alpha. If some unit truly
//! lies beyond it, the rule passes only if that unit's own bound errs. The probability is at most
//! alpha, however many units there are (an intersection–union test, R. L. Berger 1982). *Failing*
//! requires one unit's bound beyond the limit, each at 1 − alpha / units: if every unit truly keeps
//! the limit, the probability that any bound errs is at most alpha (Bonferroni). Holm's steps would
//! not fail sooner: the first step is Bonferroni's, and one unit beyond the limit is enough.

use super::{
    Limit, Side, Verdict,
    items::{Stratum, bounds},
};
use crate::{
    StatsError,
    describe::mean,
    error::{finite, sample},
};

/// The result of one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitResult {
    pub verdict: Verdict,
    pub estimate: f64,
    /// The bounds: at 1 − alpha on the side that permits a pass, at 1 − alpha / units on the other.
    /// `None` on points.
    pub bounds: Option<(f64, f64)>,
}

/// The rule's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Worst {
    /// Fail if one unit fails, pass if all pass, undecided otherwise.
    pub verdict: Verdict,
    /// Index of the unit whose estimate lies furthest towards, or beyond, the limit.
    pub worst: usize,
    /// Every unit, in the given order.
    pub units: Vec<UnitResult>,
}

/// Tests the limit against each unit's items. A unit is one data set, or the data sets of a group.
///
/// # Errors
/// If there are no units; also those of [`super::items::decide_items`].
pub fn worst_items(limit: Limit, alpha: f64, units: &[Vec<Stratum>]) -> Result<Worst, StatsError> {
    let many = alpha / units.len().max(1) as f64;
    let (below, above) = match limit.side {
        Side::AtMost => (many, alpha),
        Side::AtLeast => (alpha, many),
    };
    let units = units.iter().map(|strata| {
        let (estimate, low, high) = bounds(strata, below, above)?;
        Ok(UnitResult {
            verdict: limit.verdict(low, high),
            estimate,
            bounds: Some((low, high)),
        })
    });
    summed(limit, units.collect::<Result<_, StatsError>>()?)
}

/// Compares each unit's mean over seeds with the limit, as a point. It is never undecided, and says
/// nothing about chance.
///
/// # Errors
/// If there are no units, one has no values, or values are not finite.
pub fn worst_points(limit: Limit, observations: &[Vec<f64>]) -> Result<Worst, StatsError> {
    let units = observations.iter().map(|values| {
        sample("observations", values, "a rule (values of a unit)", 1)?;
        let estimate = mean(values).unwrap_or(f64::NAN);
        Ok(UnitResult {
            verdict: limit.verdict(estimate, estimate),
            estimate,
            bounds: None,
        })
    });
    summed(limit, units.collect::<Result<_, StatsError>>()?)
}

fn summed(limit: Limit, units: Vec<UnitResult>) -> Result<Worst, StatsError> {
    let estimates: Vec<f64> = units.iter().map(|unit| unit.estimate).collect();
    finite("observations", &estimates)?;
    let further = |a: f64, b: f64| match limit.side {
        Side::AtMost => a.total_cmp(&b),
        Side::AtLeast => b.total_cmp(&a),
    };
    let worst = (0..units.len()).max_by(|&a, &b| further(estimates[a], estimates[b]));
    let verdict = Verdict::of_all(units.iter().map(|unit| unit.verdict));
    let (Some(worst), Some(verdict)) = (worst, verdict) else {
        return Err(StatsError::TooFew {
            what: "a rule on the worst unit",
            needed: 1,
            found: 0,
        });
    };
    Ok(Worst { verdict, worst, units })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        gate::bounded::Range,
        random::{stream, uniform},
    };

    const POINTS: Range = Range {
        low: -100.0,
        high: 100.0,
    };

    /// `n` items, each lost (100 points) with a probability of `lost`.
    fn unit(n: usize, lost: f64, seed: u64) -> Vec<Stratum> {
        let mut rng = stream(seed, n);
        let values: Vec<f64> = (0..n)
            .map(|_| if uniform(&mut rng) < lost { 100.0 } else { 0.0 })
            .collect();
        vec![Stratum::of_items(&values, POINTS)]
    }

    #[test]
    fn one_collapsed_data_set_among_many_fails_and_is_named() {
        let mut units: Vec<Vec<Stratum>> = (0..8).map(|seed| unit(200, 0.01, seed)).collect();
        let limit = Limit::at_most(10.0);
        assert_eq!(worst_items(limit, 0.05, &units).unwrap().verdict, Verdict::Pass);
        units[5] = unit(200, 0.3, 9);
        let found = worst_items(limit, 0.05, &units).unwrap();
        assert_eq!((found.verdict, found.worst), (Verdict::Fail, 5));
        units[5] = unit(200, 0.1, 9);
        assert_eq!(worst_items(limit, 0.05, &units).unwrap().verdict, Verdict::Undecided);
    }

    #[test]
    fn a_floor_looks_at_the_other_end() {
        let found = worst_points(Limit::at_least(60.0), &[vec![70.0], vec![59.0, 60.0], vec![80.0]]).unwrap();
        assert_eq!((found.verdict, found.worst), (Verdict::Fail, 1));
        let found = worst_points(Limit::at_most(3.0), &[vec![1.0], vec![3.0]]).unwrap();
        assert_eq!((found.verdict, found.worst), (Verdict::Pass, 1));
        assert!(worst_points(Limit::at_most(3.0), &[]).is_err());
        assert!(worst_points(Limit::at_most(3.0), &[vec![]]).is_err());
        assert!(worst_items(Limit::at_most(3.0), 0.05, &[]).is_err());
    }

    #[test]
    fn with_one_unit_at_the_limit_it_seldom_passes_and_with_all_at_it_seldom_fails() {
        let limit = Limit::at_most(10.0);
        let gates = 1_000;
        let count = |wanted, lost: [f64; 4], base: u64| {
            (0..gates)
                .filter(|gate| {
                    let units: Vec<Vec<Stratum>> = lost
                        .iter()
                        .enumerate()
                        .map(|(u, lost)| unit(150, *lost, base + gate * 4 + u as u64))
                        .collect();
                    worst_items(limit, 0.05, &units).unwrap().verdict == wanted
                })
                .count() as f64
                / gates as f64
        };
        // 0.05 plus three standard errors for 1,000 gates: 0.071.
        let false_pass = count(Verdict::Pass, [0.01, 0.1, 0.01, 0.01], 1_000);
        let false_fail = count(Verdict::Fail, [0.1; 4], 90_000);
        assert!(false_pass > 0.01 && false_pass < 0.071, "{false_pass}");
        assert!(false_fail > 0.002 && false_fail < 0.071, "{false_fail}");
        // All four are at the limit, so every one would have to err.
        assert!(count(Verdict::Pass, [0.1; 4], 50_000) < 0.005);
    }
}
