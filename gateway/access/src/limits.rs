//! Limits of a caller.

use std::collections::BTreeSet;

use isomer_proto::{ProtoEnum, gateway::v1::BudgetPeriod};
use isomer_service_kit::Fault;
use serde::{Deserialize, Serialize};

/// Billionths of a US dollar, the unit of costs: a single token at two cents a million costs twenty
/// of them.
pub(crate) const NANO: f64 = 1e9;
/// Largest budget in dollars, so that the sum over a thousand keys still fits a BIGINT.
const MOST_DOLLARS: f64 = 9e6;

/// Limits of a key, or of a subject of an identity provider. Absent: no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests per second on average, for each gateway process separately; a burst of two seconds'
    /// worth passes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Requests in flight at once, including streams until they end, for each gateway process
    /// separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Budgets, at most one for each period; shared by all gateways of one database.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
}

/// The budget of a period. A request is admitted while less than this is spent or reserved for
/// requests in flight, so a budget is overdrawn by at most one request. The most that a request may
/// use is reserved while it is in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// `day` and `month` begin at 00:00 UTC; `total` is the key's whole life.
    pub per: BudgetPeriod,
    /// Maximum number of tokens; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars, at the prices of the providers that are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Budget {
    /// The cost budget in billionths of a dollar.
    pub(crate) fn nano(&self) -> Option<u64> {
        self.cost_usd.map(nano)
    }
}

/// Dollars in billionths, rounded up, so that usage is never undercounted.
pub fn nano(dollars: f64) -> u64 {
    // A cast saturates; NaN counts as zero. The last digit of a product such as 0.07 × 10⁹ is
    // noise.
    let exact = dollars * NANO;
    let rounded = exact.round();
    if (exact - rounded).abs() < 1e-3 {
        rounded as u64
    } else {
        exact.ceil() as u64
    }
}

impl Limits {
    /// Checks the values.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` on the first invalid limit.
    pub fn check(&self) -> Result<(), Fault> {
        if let Some(rate) = self.requests_per_second
            && !(rate.is_finite() && rate > 0.0 && rate <= 1e6)
        {
            return Err(Fault::invalid("limits.requests_per_second", format!("is {rate}"))
                .hint("give more than 0, at most 1000000"));
        }
        if self.max_concurrency == Some(0) {
            return Err(
                Fault::invalid("limits.max_concurrency", "is 0: nothing would be served")
                    .hint("give at least 1, or leave it out"),
            );
        }
        let mut periods = BTreeSet::new();
        for (index, budget) in self.budgets.iter().enumerate() {
            let field = |name: &str| format!("limits.budgets[{index}]{name}");
            if !periods.insert(budget.per) {
                return Err(
                    Fault::invalid(field(".per"), format!("a second budget per {}", budget.per.name()))
                        .hint("put tokens and cost_usd of a period into one budget"),
                );
            }
            if budget.tokens.is_none() && budget.cost_usd.is_none() {
                return Err(Fault::invalid(field(""), "limits nothing").hint("give tokens, cost_usd or both"));
            }
            if budget.tokens.is_some_and(|tokens| i64::try_from(tokens).is_err()) {
                return Err(Fault::invalid(field(".tokens"), "is more than can be counted").hint("leave it out"));
            }
            if let Some(dollars) = budget.cost_usd
                && !(dollars.is_finite() && (0.0..=MOST_DOLLARS).contains(&dollars))
            {
                return Err(Fault::invalid(field(".cost_usd"), format!("is {dollars}"))
                    .hint("give US dollars from 0 to 9000000, or leave it out"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn costs_round_up_to_billionths() {
        assert_eq!(nano(0.07), 70_000_000);
        assert_eq!(nano(0.000_000_000_1), 1);
        assert_eq!(nano(2.5), 2_500_000_000);
        assert_eq!(nano(0.0), 0);
        assert_eq!(nano(f64::NAN), 0);
        assert_eq!(nano(-1.0), 0);
    }

    #[test]
    fn limits_that_cannot_be_meant_are_refused_with_their_place() {
        let budget = |per, tokens, cost_usd| Budget { per, tokens, cost_usd };
        let with = |budgets| Limits {
            budgets,
            ..Limits::default()
        };
        for (limits, field) in [
            (
                Limits {
                    requests_per_second: Some(0.0),
                    ..Limits::default()
                },
                "limits.requests_per_second",
            ),
            (
                Limits {
                    max_concurrency: Some(0),
                    ..Limits::default()
                },
                "limits.max_concurrency",
            ),
            (with(vec![budget(BudgetPeriod::Day, None, None)]), "limits.budgets[0]"),
            (
                with(vec![
                    budget(BudgetPeriod::Day, Some(1), None),
                    budget(BudgetPeriod::Day, None, Some(1.0)),
                ]),
                "limits.budgets[1].per",
            ),
            (
                with(vec![budget(BudgetPeriod::Total, None, Some(f64::INFINITY))]),
                "limits.budgets[0].cost_usd",
            ),
            (
                with(vec![budget(BudgetPeriod::Total, Some(u64::MAX), None)]),
                "limits.budgets[0].tokens",
            ),
        ] {
            assert_eq!(limits.check().unwrap_err().field.as_deref(), Some(field));
        }
        let whole = Limits {
            requests_per_second: Some(0.5),
            max_concurrency: Some(8),
            budgets: vec![
                budget(BudgetPeriod::Day, Some(1_000_000), None),
                budget(BudgetPeriod::Month, Some(0), Some(20.0)),
            ],
        };
        whole.check().unwrap();
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), whole);
    }
}
