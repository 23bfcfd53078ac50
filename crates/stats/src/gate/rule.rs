//! One limit tested against observations.

use super::{
    Limit, Verdict,
    bounded::{Range, bounded_interval, units_needed},
    note::Note,
    studentised::{RESAMPLES, SEED, studentised_interval},
};
use crate::{
    Alternative, StatsError,
    bootstrap::{Bootstrap, IntervalMethod, Statistic, statistic_interval},
    describe::{mean, sample_sd},
    error::{finite, probability},
    hodges_lehmann,
    power::Design,
    special::student_quantile,
    wilcoxon_interval,
};

/// Maximum number of data sets or seeds in the search.
const MOST: usize = 100_000;

/// The quantity that is compared with the limit. docs/measurements/statistics.md, "Which basis errs
/// how often", has the error of each under skewed distributions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// The estimate itself. It is never undecided, and says nothing about chance.
    Point,
    /// Confidence bounds of the mean that hold for every distribution of values within a known
    /// range, however skewed. This is the choice for a mean: if there are too few units to notice a
    /// rare collapse, it stays undecided.
    Bounded(Range),
    /// Confidence bounds of the mean, by Student's t, for drops that are approximately normal over
    /// units. Under skew, a quantity at its limit passes far more often than alpha.
    StudentMean,
    /// Confidence bounds of the mean, by the studentised bootstrap: 9,999 resamples, seed 1337. It
    /// follows the skew of the sample, but does not know of a collapse that was not drawn.
    StudentisedBootstrap,
    /// Confidence bounds of the pseudo-median (the Hodges–Lehmann shift), by inverting the
    /// signed-rank test. They are not bounds of the mean: a collapse on a minority of the units
    /// hardly moves the pseudo-median.
    SignedRank,
    /// Percentile bootstrap bounds of the mean: 10,000 resamples, seed 1337. Too narrow below about
    /// 20 units.
    BootstrapMean,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub limit: Limit,
    /// The quantity that is compared with it.
    pub basis: Basis,
    /// Probability of error on each side. Bounds are one-sided at 1 − alpha, so that a quantity
    /// beyond its limit passes, and one within it fails, with a probability of at most alpha.
    pub alpha: f64,
}

/// The requirements for a decision, if the estimate stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Total number of units (data sets, items), with the current seeds. `None`: the estimate
    /// equals the limit, or more than 100,000.
    pub units: Option<usize>,
    /// Total number of seeds, with the current units. `None`: no number of seeds alone would
    /// suffice.
    pub seeds: Option<usize>,
}

/// A rule's decision on observations.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub verdict: Verdict,
    /// The estimate: the Hodges–Lehmann shift for [`Basis::SignedRank`], the mean otherwise.
    pub estimate: f64,
    /// Lower one-sided bound; `None` on points, or if there are too few units for a bound.
    pub low: Option<f64>,
    /// Upper one-sided bound.
    pub high: Option<f64>,
    /// Number of units of observation.
    pub units: usize,
    /// If undecided, the requirements for a decision.
    pub need: Option<Need>,
    /// A remark for readers.
    pub note: Option<Note>,
}

/// Compares observations with a limit. There is one series per unit (data set or item), whose
/// values are the seeds and are averaged first. A single unit permits only a decision on points: on
/// bounds it is undecided, and the note says so.
///
/// # Errors
/// If there are no units, one has no values, values are not finite, or `alpha` is outside (0, 0.5).
pub fn decide(rule: &Rule, observations: &[Vec<f64>]) -> Result<Decision, StatsError> {
    probability("alpha", rule.alpha)?;
    if rule.alpha >= 0.5 {
        return Err(StatsError::OutOfRange {
            argument: "alpha",
            value: rule.alpha,
            allowed: "below 0.5",
        });
    }
    let units = unit_means(observations)?;
    let estimate = match rule.basis {
        Basis::SignedRank => hodges_lehmann(&units),
        _ => mean(&units),
    }
    .unwrap_or(f64::NAN);
    let mut decision = Decision {
        verdict: if rule.limit.keeps(estimate) {
            Verdict::Pass
        } else {
            Verdict::Fail
        },
        estimate,
        low: None,
        high: None,
        units: units.len(),
        need: None,
        note: None,
    };
    if rule.basis == Basis::Point {
        return Ok(decision);
    }
    match bounds(rule, &units) {
        Ok((low, high)) => {
            decision.verdict = rule.limit.verdict(low, high);
            (decision.low, decision.high) = (Some(low), Some(high));
            if decision.verdict == Verdict::Undecided {
                decision.need = Some(need(rule, observations, &units, estimate));
                decision.note = Some(Note::Straddles);
            }
        }
        Err(StatsError::LevelUnreachable { n, .. }) => {
            let least = (1.0 / rule.alpha).log2().ceil() as usize;
            decision.verdict = Verdict::Undecided;
            decision.need = Some(Need {
                units: Some(least),
                seeds: None,
            });
            decision.note = Some(match n {
                1 => Note::OneUnit { needed: least },
                _ => Note::NoSignedRankBound {
                    units: n,
                    alpha: rule.alpha,
                    needed: least,
                },
            });
        }
        Err(StatsError::TooFew { needed, .. }) => {
            decision.verdict = Verdict::Undecided;
            decision.need = Some(Need {
                units: Some(needed),
                seeds: None,
            });
            decision.note = Some(Note::OneUnit { needed });
        }
        Err(other) => return Err(other),
    }
    Ok(decision)
}

fn unit_means(observations: &[Vec<f64>]) -> Result<Vec<f64>, StatsError> {
    let few = |what| StatsError::TooFew {
        what,
        needed: 1,
        found: 0,
    };
    if observations.is_empty() {
        return Err(few("a rule (units)"));
    }
    observations
        .iter()
        .map(|values| {
            finite("observations", values)?;
            mean(values).ok_or_else(|| few("a rule (values of a unit)"))
        })
        .collect()
}

/// Lower and upper one-sided bounds.
fn bounds(rule: &Rule, units: &[f64]) -> Result<(f64, f64), StatsError> {
    if let Basis::Bounded(range) = rule.basis {
        return bounded_interval(units, range, rule.alpha);
    }
    let two_sided = 1.0 - 2.0 * rule.alpha;
    if rule.basis == Basis::SignedRank {
        let interval = wilcoxon_interval(units, two_sided, Alternative::TwoSided)?;
        return Ok((interval.low, interval.high));
    }
    let (Some(centre), Some(sd)) = (mean(units), sample_sd(units)) else {
        return Err(StatsError::TooFew {
            what: "a bound",
            needed: 2,
            found: units.len(),
        });
    };
    if rule.basis == Basis::BootstrapMean {
        let settings = Bootstrap {
            resamples: 10_000,
            level: two_sided,
            seed: 1337,
            method: IntervalMethod::Percentile,
        };
        let interval = statistic_interval(units, Statistic::Mean, &settings)?;
        return Ok((interval.low, interval.high));
    }
    if rule.basis == Basis::StudentisedBootstrap {
        return studentised_interval(units, rule.alpha, RESAMPLES, SEED);
    }
    let n = units.len() as f64;
    let half = student_quantile(1.0 - rule.alpha, n - 1.0) * sd / n.sqrt();
    Ok((centre - half, centre + half))
}

/// Number of units, or of seeds, at which the bounds would clear the limit if the estimate and the
/// variances stayed the same. For [`Basis::Bounded`] its own bounds are used; more seeds do not
/// help there, because they show no additional unit. Otherwise Student's t is used: the other
/// bounds are about as wide.
fn need(rule: &Rule, observations: &[Vec<f64>], units: &[f64], estimate: f64) -> Need {
    if let Basis::Bounded(range) = rule.basis {
        return Need {
            units: units_needed(units, range, rule.limit.value, rule.alpha),
            seeds: None,
        };
    }
    let gap = (estimate - rule.limit.value).abs();
    let seeds = observations[0].len();
    let design = if observations.iter().all(|values| values.len() == seeds) {
        Design::from_differences(observations).ok()
    } else {
        None
    }
    .unwrap_or(Design {
        units: units.len(),
        seeds: 1,
        sd_between: sample_sd(units).unwrap_or(0.0),
        sd_seeds: 0.0,
    });
    let decided =
        |design: &Design| student_quantile(1.0 - rule.alpha, (design.units - 1) as f64) * design.standard_error() < gap;
    let more_units = |units| decided(&Design { units, ..design });
    let more_seeds = |seeds| decided(&Design { seeds, ..design });
    Need {
        units: least(units.len() + 1, more_units),
        seeds: if design.sd_seeds > 0.0 {
            least(design.seeds + 1, more_seeds)
        } else {
            None
        },
    }
}

/// The smallest count, starting at `from`, at which a monotone condition holds.
fn least(from: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    if !holds(MOST.max(from)) {
        return None;
    }
    let (mut low, mut high) = (from, MOST.max(from));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rule(limit: f64, basis: Basis) -> Rule {
        Rule {
            limit: Limit::at_least(limit),
            basis,
            alpha: 0.05,
        }
    }

    /// Ten data sets, three seeds each; drops of about 3 points.
    fn drops() -> Vec<Vec<f64>> {
        (0..10)
            .map(|d| {
                (0..3)
                    .map(|s| -3.0 + 0.3 * f64::from((d * 7) % 10 - 5) + 0.1 * f64::from(s - 1))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_drop_well_within_its_limit_passes_and_one_well_beyond_fails() {
        for basis in [
            Basis::Point,
            Basis::Bounded(Range { low: -9.0, high: 1.0 }),
            Basis::StudentMean,
            Basis::StudentisedBootstrap,
            Basis::SignedRank,
            Basis::BootstrapMean,
        ] {
            assert_eq!(decide(&rule(-5.0, basis), &drops()).unwrap().verdict, Verdict::Pass);
            assert_eq!(decide(&rule(-1.0, basis), &drops()).unwrap().verdict, Verdict::Fail);
        }
    }

    #[test]
    fn a_limit_within_the_bounds_is_undecided_and_says_what_would_decide() {
        for basis in [Basis::StudentMean, Basis::SignedRank, Basis::BootstrapMean] {
            let found = decide(&rule(-3.4, basis), &drops()).unwrap();
            assert_eq!(found.verdict, Verdict::Undecided);
            assert!(found.low.unwrap() < -3.4 && found.high.unwrap() > -3.4);
            let need = found.need.unwrap();
            assert!(need.units.unwrap() > 10);
            // The variance between data sets dominates here, so more seeds alone would not suffice.
            assert_eq!(need.seeds, None);
        }
    }

    #[test]
    fn a_collapse_on_a_minority_passes_the_pseudo_median_and_not_a_bound_of_the_mean() {
        // The mean drop is 4.6: 14 data sets drop by about 1 and two by 30.
        let collapsed: Vec<Vec<f64>> = (0..16)
            .map(|d| vec![if d < 2 { 30.0 } else { 0.9 + 0.007 * f64::from(d) }])
            .collect();
        let at_most = |basis| Rule {
            limit: Limit::at_most(3.0),
            basis,
            alpha: 0.05,
        };
        let verdict = |basis| decide(&at_most(basis), &collapsed).unwrap().verdict;
        assert_eq!(verdict(Basis::SignedRank), Verdict::Pass);
        let range = Range { low: -20.0, high: 80.0 };
        assert_eq!(verdict(Basis::Bounded(range)), Verdict::Undecided);
        assert_eq!(verdict(Basis::StudentisedBootstrap), Verdict::Undecided);
        let found = decide(&at_most(Basis::Bounded(range)), &collapsed).unwrap();
        assert!((found.estimate - 4.6).abs() < 0.1);
        let wanted = found.need.unwrap().units.unwrap();
        let more: Vec<Vec<f64>> = collapsed
            .iter()
            .cloned()
            .cycle()
            .take(wanted.div_ceil(16) * 16)
            .collect();
        assert_eq!(
            decide(&at_most(Basis::Bounded(range)), &more).unwrap().verdict,
            Verdict::Fail
        );
    }

    #[test]
    fn one_unit_without_a_drop_is_no_evidence_of_none() {
        let at_most = Rule {
            limit: Limit::at_most(3.0),
            basis: Basis::Bounded(Range { low: -20.0, high: 80.0 }),
            alpha: 0.05,
        };
        let found = decide(&at_most, &[vec![0.0]]).unwrap();
        assert_eq!(
            (found.verdict, found.need.unwrap().units),
            (Verdict::Undecided, Some(79))
        );
        assert!(decide(&at_most, &[vec![81.0]]).is_err());
    }

    #[test]
    fn as_many_units_as_it_asks_for_decide() {
        let one = decide(&rule(-3.4, Basis::StudentMean), &drops()).unwrap();
        let wanted = one.need.unwrap().units.unwrap();
        // The same values, repeated: the sample's variance hardly changes.
        let more: Vec<Vec<f64>> = drops().into_iter().cycle().take(wanted + wanted / 5).collect();
        assert_ne!(
            decide(&rule(-3.4, Basis::StudentMean), &more).unwrap().verdict,
            Verdict::Undecided
        );
    }

    #[test]
    fn noise_over_seeds_asks_for_seeds() {
        let noisy: Vec<Vec<f64>> = (0..6)
            .map(|d| vec![-2.0 - 3.0 - 0.1 * f64::from(d), -2.0 + 3.0])
            .collect();
        let found = decide(&rule(-3.0, Basis::StudentMean), &noisy).unwrap();
        assert_eq!(found.verdict, Verdict::Pass, "{found:?}");
        let noisy: Vec<Vec<f64>> = (0..6)
            .map(|d| if d % 2 == 0 { vec![-6.0, 0.0] } else { vec![-1.0, 3.5] })
            .collect();
        let found = decide(&rule(-2.0, Basis::StudentMean), &noisy).unwrap();
        assert_eq!(found.verdict, Verdict::Undecided);
        assert!(found.need.unwrap().seeds.unwrap() > 2, "{found:?}");
    }

    #[test]
    fn one_data_set_alone_is_undecided_on_bounds_and_said_to_be() {
        for basis in [Basis::StudentMean, Basis::SignedRank, Basis::BootstrapMean] {
            let found = decide(&rule(-5.0, basis), &[vec![-1.0, -1.1]]).unwrap();
            assert_eq!(found.verdict, Verdict::Undecided);
            assert!(matches!(found.note, Some(Note::OneUnit { .. })), "{found:?}");
        }
        assert_eq!(
            decide(&rule(-5.0, Basis::Point), &[vec![-1.0]]).unwrap().verdict,
            Verdict::Pass
        );
        let four = vec![vec![-1.0]; 4];
        let found = decide(&rule(-5.0, Basis::SignedRank), &four).unwrap();
        assert_eq!(
            (found.verdict, found.need.unwrap().units),
            (Verdict::Undecided, Some(5))
        );
    }

    #[test]
    fn a_gate_fails_with_one_rule_and_passes_with_all() {
        use Verdict::{Fail, Pass, Undecided};
        assert_eq!(Verdict::of_all([Pass, Undecided, Fail]), Some(Fail));
        assert_eq!(Verdict::of_all([Pass, Undecided, Pass]), Some(Undecided));
        assert_eq!(Verdict::of_all([Pass, Pass]), Some(Pass));
        assert_eq!(Verdict::of_all([]), None);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(decide(&rule(0.0, Basis::Point), &[]).is_err());
        assert!(decide(&rule(0.0, Basis::Point), &[vec![]]).is_err());
        assert!(decide(&rule(0.0, Basis::Point), &[vec![f64::NAN]]).is_err());
        let odd = Rule {
            alpha: 0.5,
            ..rule(0.0, Basis::Point)
        };
        assert!(decide(&odd, &[vec![1.0]]).is_err());
    }
}
