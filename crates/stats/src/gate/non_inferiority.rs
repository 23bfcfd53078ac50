//! Non-inferiority to a baseline: worse by less than a margin.
//!
//! Paired over data sets (averaged over seeds first), one-sided. The null hypothesis is that the
//! candidate is worse by the margin or more, and the signed-rank test of the differences plus the
//! margin rejects it. Holm's correction over the rules limits the probability of accepting any
//! inferior candidate under any rule to alpha.

use super::Verdict;
use crate::{
    Alternative, EXACT_MAX, Method, StatsError, WilcoxonOptions,
    error::{probability, sample},
    hodges_lehmann, holm, wilcoxon_with,
};

/// A comparison of a candidate with its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Candidate minus baseline, one difference per data set.
    pub differences: Vec<f64>,
    /// The permitted loss, ≥ 0, in the differences' unit.
    pub margin: f64,
}

/// The result of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct NonInferiority {
    /// Pass: not inferior. Fail: inferior (the opposite test rejects). Undecided otherwise.
    pub verdict: Verdict,
    /// Hodges–Lehmann shift, candidate minus baseline.
    pub shift: f64,
    /// One-sided p-value against "worse by the margin or more"; `None` if no test is possible.
    pub p_value: Option<f64>,
    /// The p-value, Holm-adjusted over the rules.
    pub p_holm: Option<f64>,
    /// One-sided p-value against "not worse by the margin", Holm-adjusted: small if the candidate
    /// is inferior.
    pub p_inferior: Option<f64>,
    /// The reason why no test is possible, or why none could succeed.
    pub note: Option<String>,
}

/// Tests each comparison, with Holm's correction over all of them. Up to 50 differences, the
/// signed-rank test is exact given the ties.
///
/// # Errors
/// If a comparison has no differences or some that are not finite, a margin is negative or not
/// finite, or `alpha` is outside (0, 1).
pub fn non_inferiority(comparisons: &[Comparison], alpha: f64) -> Result<Vec<NonInferiority>, StatsError> {
    probability("alpha", alpha)?;
    let mut results = Vec::with_capacity(comparisons.len());
    let (mut better, mut worse) = (Vec::new(), Vec::new());
    for comparison in comparisons {
        sample("differences", &comparison.differences, "a non-inferiority test", 1)?;
        if !(comparison.margin.is_finite() && comparison.margin >= 0.0) {
            return Err(StatsError::OutOfRange {
                argument: "margin",
                value: comparison.margin,
                allowed: "a finite number of at least 0",
            });
        }
        let moved: Vec<f64> = comparison.differences.iter().map(|d| d + comparison.margin).collect();
        let n = moved.len();
        let mut result = NonInferiority {
            verdict: Verdict::Undecided,
            shift: hodges_lehmann(&comparison.differences).unwrap_or(f64::NAN),
            p_value: None,
            p_holm: None,
            p_inferior: None,
            note: None,
        };
        match (
            n > 1,
            p_value(&moved, Alternative::Greater),
            p_value(&moved, Alternative::Less),
        ) {
            (false, ..) => result.note = Some("one data set only: no test is possible".to_owned()),
            (true, Ok(up), Ok(down)) => {
                better.push(up);
                worse.push(down);
                result.p_value = Some(up);
                let floor = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
                if floor * comparisons.len() as f64 > alpha {
                    result.note = Some(format!(
                        "{n} data sets: p cannot fall below {floor}, too much for {} rules at {alpha}",
                        comparisons.len()
                    ));
                }
            }
            (true, Err(StatsError::AllZero), _) | (true, _, Err(StatsError::AllZero)) => {
                result.note = Some("every difference equals the margin: there is nothing to rank".to_owned());
            }
            (true, Err(other), _) | (true, _, Err(other)) => return Err(other),
        }
        results.push(result);
    }
    let mut adjusted = holm(&better).into_iter().zip(holm(&worse));
    for result in results.iter_mut().filter(|result| result.p_value.is_some()) {
        if let Some((up, down)) = adjusted.next() {
            result.p_holm = Some(up);
            result.p_inferior = Some(down);
            if up <= alpha {
                result.verdict = Verdict::Pass;
            } else if down <= alpha {
                result.verdict = Verdict::Fail;
            }
        }
    }
    Ok(results)
}

fn p_value(moved: &[f64], alternative: Alternative) -> Result<f64, StatsError> {
    let options = WilcoxonOptions {
        alternative,
        method: if moved.len() <= EXACT_MAX {
            Method::Conditional
        } else {
            Method::Normal
        },
        ..WilcoxonOptions::default()
    };
    wilcoxon_with(moved, &options).map(|test| test.p_value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn about(centre: f64, margin: f64) -> Comparison {
        Comparison {
            differences: (0..12).map(|i| centre + 0.11 * f64::from(i - 6)).collect(),
            margin,
        }
    }

    #[test]
    fn a_candidate_as_good_as_its_baseline_is_not_inferior_by_a_point() {
        let found = non_inferiority(&[about(0.0, 1.0), about(-3.0, 1.0), about(-1.0, 1.0)], 0.05).unwrap();
        let verdicts: Vec<Verdict> = found.iter().map(|f| f.verdict).collect();
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Fail, Verdict::Undecided]);
        // All twelve are on one side: 1 / 4096, times three rules.
        assert!((found[0].p_value.unwrap() - 1.0 / 4096.0).abs() < 1e-15);
        assert!((found[0].p_holm.unwrap() - 3.0 / 4096.0).abs() < 1e-15);
    }

    #[test]
    fn too_few_data_sets_are_said_to_be() {
        let one = Comparison {
            differences: vec![0.5],
            margin: 1.0,
        };
        let three = Comparison {
            differences: vec![0.5, 0.6, 0.7],
            margin: 1.0,
        };
        let level = Comparison {
            differences: vec![-1.0, -1.0],
            margin: 1.0,
        };
        let found = non_inferiority(&[one, three, level], 0.05).unwrap();
        assert!(found[0].note.as_ref().unwrap().contains("no test"));
        assert!(found[1].note.as_ref().unwrap().contains("0.125"));
        assert!(found[2].note.as_ref().unwrap().contains("margin"));
        assert!(found.iter().all(|f| f.verdict == Verdict::Undecided));
    }

    #[test]
    fn a_negative_margin_is_refused() {
        assert!(non_inferiority(&[about(0.0, -1.0)], 0.05).is_err());
        assert!(non_inferiority(&[about(0.0, f64::NAN)], 0.05).is_err());
    }
}
