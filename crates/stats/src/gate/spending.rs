//! Looks at growing data, each with its share of the probability of error.
//!
//! This is for scores that are not means of bounded items (a correlation per data set, a mean over
//! seeds). The rule's own bounds are computed at every look, at the level that the spending
//! function gives: the amount spent by now minus the amount spent before. The shares add up to
//! alpha. So by the union bound the probability of ever erring is at most alpha for **any** test
//! that keeps its level at each look, including exact tests for few data sets. A group-sequential
//! boundary under joint normality would be a little less strict.
//!
//! Source: K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical trials"
//! (1983).

use super::{
    Verdict,
    rule::{Decision, Rule, decide},
};
use crate::{
    StatsError,
    error::probability,
    special::{normal_quantile, normal_sf},
};

/// How the probability of error is spent as the data grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spending {
    /// Spends little early and most at the end, like O'Brien and Fleming's boundary.
    #[default]
    OBrienFleming,
    /// Spends about evenly, like Pocock's boundary. It stops clear cases earlier, and costs more at
    /// the end.
    Pocock,
}

impl Spending {
    /// The part of `alpha` spent when a `fraction` in [0, 1] of the data is available.
    pub fn spent(self, alpha: f64, fraction: f64) -> f64 {
        if fraction <= 0.0 {
            return 0.0;
        }
        if fraction >= 1.0 {
            return alpha;
        }
        match self {
            Self::OBrienFleming => 2.0 * normal_sf(-normal_quantile(alpha / 2.0) / fraction.sqrt()),
            Self::Pocock => alpha * (1.0 + (std::f64::consts::E - 1.0) * fraction).ln(),
        }
    }
}

/// A rule that is evaluated while the data grow.
#[derive(Debug, Clone)]
pub struct SequentialRule {
    rule: Rule,
    spending: Spending,
    fraction: f64,
    decision: Option<Decision>,
}

impl SequentialRule {
    /// A rule whose `alpha` is the probability of error over all looks, on each side.
    ///
    /// # Errors
    /// If `alpha` is outside (0, 0.5).
    pub fn new(rule: Rule, spending: Spending) -> Result<Self, StatsError> {
        probability("alpha", rule.alpha)?;
        if rule.alpha >= 0.5 {
            return Err(StatsError::OutOfRange {
                argument: "alpha",
                value: rule.alpha,
                allowed: "below 0.5",
            });
        }
        Ok(Self {
            rule,
            spending,
            fraction: 0.0,
            decision: None,
        })
    }

    /// Evaluates all observations so far, when `fraction` of the planned ones are available. A
    /// verdict is final; after it, nothing more is computed.
    ///
    /// # Errors
    /// If the fraction is outside (0, 1] or not above the last look's; also those of [`decide`].
    pub fn look(&mut self, fraction: f64, observations: &[Vec<f64>]) -> Result<&Decision, StatsError> {
        if !(fraction > self.fraction && fraction <= 1.0) {
            return Err(StatsError::OutOfRange {
                argument: "fraction",
                value: fraction,
                allowed: "above the last look's, and at most 1",
            });
        }
        let alpha =
            self.spending.spent(self.rule.alpha, fraction) - self.spending.spent(self.rule.alpha, self.fraction);
        self.fraction = fraction;
        let decided = self.verdict() != Verdict::Undecided;
        let decision = match self.decision.take() {
            Some(decision) if decided => decision,
            _ => decide(&Rule { alpha, ..self.rule }, observations)?,
        };
        Ok(self.decision.insert(decision))
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        self.decision
            .as_ref()
            .map_or(Verdict::Undecided, |decision| decision.verdict)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::gate::{Limit, rule::Basis};

    #[test]
    fn what_is_spent_grows_from_nothing_to_alpha() {
        for spending in [Spending::OBrienFleming, Spending::Pocock] {
            let spent: Vec<f64> = (0..=10).map(|i| spending.spent(0.05, f64::from(i) / 10.0)).collect();
            assert_eq!((spent[0], spent[10]), (0.0, 0.05));
            assert!(spent.windows(2).all(|w| w[0] < w[1]));
        }
        // Half-way: 2 (1 − Φ(1.96 / √½)) = 0.00557 of 0.05; Pocock's 0.05 ln(1 + (e − 1)/2) =
        // 0.0310.
        assert!((Spending::OBrienFleming.spent(0.05, 0.5) - 0.005_57).abs() < 5e-6);
        assert!((Spending::Pocock.spent(0.05, 0.5) - 0.031_0).abs() < 5e-5);
    }

    #[test]
    fn a_clear_case_is_decided_at_an_early_look_and_stays_decided() {
        let rule = Rule {
            limit: Limit::at_least(-5.0),
            basis: Basis::StudentMean,
            alpha: 0.05,
        };
        let mut sequential = SequentialRule::new(rule, Spending::Pocock).unwrap();
        let units: Vec<Vec<f64>> = (0..20).map(|i| vec![-2.0 + 0.2 * f64::from(i % 5)]).collect();
        assert_eq!(sequential.look(0.25, &units[..5]).unwrap().verdict, Verdict::Pass);
        let beyond: Vec<Vec<f64>> = vec![vec![-90.0], vec![-91.0]];
        assert_eq!(sequential.look(0.5, &beyond).unwrap().verdict, Verdict::Pass);
        assert!(sequential.look(0.5, &units).is_err());
        assert!(sequential.look(1.5, &units).is_err());
    }
}
