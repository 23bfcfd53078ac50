//! The budget of a generator: requests, tokens, money. Spending is counted from the start of this
//! process.
//!
//! A spent budget stops calls, not runs. Finished texts are kept, and the others end with an error
//! that names the budget. If the run is repeated with a larger budget, texts in the cache are not
//! generated again.

use isomer_outbound::shared_limits::ReachedLimit;
use parking_lot::Mutex;

use super::Prices;
use crate::config::BudgetConfig;

/// A generator's account.
#[derive(Debug)]
pub struct Budget {
    limits: BudgetConfig,
    /// The generator's id, for messages and gauges.
    name: String,
    spent: Mutex<Spending>,
}

/// Amounts spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// Calls, including failed ones.
    pub requests: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the budget of generator `{name}` is spent: {what} ({field}); raise it and run again, what was made is kept")]
pub struct BudgetSpent {
    name: String,
    what: String,
    field: String,
}

impl BudgetSpent {
    /// The error for a spent budget of all processes of a fleet.
    pub(super) fn of_fleet(name: &str, reached: ReachedLimit) -> Self {
        Self {
            name: name.to_owned(),
            what: format!("{} by all processes of the fleet", reached.what),
            field: format!("fleet.budget.{}", reached.field),
        }
    }
}

impl Budget {
    /// A budget without any spending.
    pub fn new(name: &str, limits: BudgetConfig) -> Self {
        Self {
            limits,
            name: name.to_owned(),
            spent: Mutex::default(),
        }
    }

    /// The amounts spent so far.
    pub fn spent(&self) -> Spending {
        *self.spent.lock()
    }

    /// The prices of the generator's tokens; `None` if none are configured.
    pub fn prices(&self) -> Option<Prices> {
        let prices = Prices {
            prompt: self.limits.prompt_price,
            generated: self.limits.generated_price,
        };
        (prices.prompt > 0.0 || prices.generated > 0.0).then_some(prices)
    }

    fn cost(&self, spent: &Spending) -> f64 {
        let prices = self.prices().unwrap_or(Prices {
            prompt: 0.0,
            generated: 0.0,
        });
        prices.cost(spent.prompt_tokens, spent.generated_tokens)
    }

    /// Counts a call that is about to be made. Tokens are known only afterwards: calls in flight
    /// when the last token is spent are still paid for.
    ///
    /// # Errors
    /// If the budget is spent.
    pub fn take(&self) -> Result<(), BudgetSpent> {
        let mut spent = self.spent.lock();
        let over = |what: String, field: &str| {
            Err(BudgetSpent {
                name: self.name.clone(),
                what,
                field: format!("budget.{field}"),
            })
        };
        if let Some(limit) = self.limits.requests.filter(|limit| spent.requests >= *limit) {
            return over(format!("{} of {limit} requests", spent.requests), "requests");
        }
        let tokens = spent.prompt_tokens.saturating_add(spent.generated_tokens);
        if let Some(limit) = self.limits.tokens.filter(|limit| tokens >= *limit) {
            return over(format!("{tokens} of {limit} tokens"), "tokens");
        }
        let cost = self.cost(&spent);
        if let Some(limit) = self.limits.cost.filter(|limit| cost >= *limit) {
            return over(format!("a cost of {cost:.4} of {limit}"), "cost");
        }
        spent.requests += 1;
        Ok(())
    }

    /// Counts the tokens that a call used.
    pub fn pay(&self, prompt_tokens: u64, generated_tokens: u64) {
        let mut spent = self.spent.lock();
        spent.prompt_tokens = spent.prompt_tokens.saturating_add(prompt_tokens);
        spent.generated_tokens = spent.generated_tokens.saturating_add(generated_tokens);
        let tell = |kind: &'static str, value: f64| {
            metrics::gauge!(crate::metric_names::SPENT, "generator" => self.name.clone(), "kind" => kind).set(value);
        };
        tell("requests", spent.requests as f64);
        tell("tokens", spent.prompt_tokens as f64 + spent.generated_tokens as f64);
        tell("cost", self.cost(&spent));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn budget(limits: BudgetConfig) -> Budget {
        Budget::new("big", limits)
    }

    #[test]
    fn without_limits_nothing_is_refused() {
        let budget = budget(BudgetConfig::default());
        for _ in 0..100 {
            budget.take().unwrap();
            budget.pay(1 << 40, 1 << 40);
        }
        assert_eq!(budget.spent().requests, 100);
    }

    #[test]
    fn each_limit_refuses_by_its_name() {
        let requests = budget(BudgetConfig {
            requests: Some(2),
            ..BudgetConfig::default()
        });
        requests.take().unwrap();
        requests.take().unwrap();
        let error = requests.take().unwrap_err().to_string();
        assert!(
            error.contains("`big`") && error.contains("2 of 2 requests") && error.contains("budget.requests"),
            "{error}"
        );
        assert_eq!(requests.spent().requests, 2, "what is refused is not counted");

        let tokens = budget(BudgetConfig {
            tokens: Some(100),
            ..BudgetConfig::default()
        });
        tokens.take().unwrap();
        tokens.pay(60, 39);
        tokens.take().unwrap();
        tokens.pay(1, 0);
        let error = tokens.take().unwrap_err().to_string();
        assert!(
            error.contains("100 of 100 tokens") && error.contains("budget.tokens"),
            "{error}"
        );

        let cost = budget(BudgetConfig {
            cost: Some(2.5),
            prompt_price: 1.0,
            generated_price: 4.0,
            ..BudgetConfig::default()
        });
        cost.take().unwrap();
        cost.pay(500_000, 499_999);
        cost.take().unwrap();
        cost.pay(0, 1);
        let error = cost.take().unwrap_err().to_string();
        assert!(
            error.contains("2.5000 of 2.5") && error.contains("budget.cost"),
            "{error}"
        );
    }
}
