//! The limits of a run, compared with its past and pending usage.

use crate::{
    limits::Limits,
    run::{RunError, record::Counters},
};

/// The limits that a running run must obey.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ceiling {
    limits: Limits,
    prices: TokenPrices,
    /// The run's usage before this process took it over. Its counters then start at zero again.
    before: Amount,
}

/// Prices of a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TokenPrices {
    pub(crate) prompt: f64,
    pub(crate) generated: f64,
}

/// A number of calls and a cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) calls: u64,
    pub(crate) cost: f64,
}

impl Amount {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            cost: self.cost + other.cost,
        }
    }

    /// The element-wise maximum.
    fn at_least(self, other: Self) -> Self {
        Self {
            calls: self.calls.max(other.calls),
            cost: self.cost.max(other.cost),
        }
    }
}

impl Ceiling {
    pub(crate) fn new(limits: Limits, prices: TokenPrices) -> Self {
        Self {
            limits,
            prices,
            before: Amount::default(),
        }
    }

    /// The same limits for a run that another process has executed so far.
    #[must_use]
    pub(crate) fn continued(self, counters: &Counters) -> Self {
        Self {
            before: self.taken(counters),
            ..self
        }
    }

    /// Whether any limit is set.
    pub(crate) fn any(&self) -> bool {
        self.limits.any()
    }

    /// The cost of these numbers of prompt and answer tokens.
    pub(crate) fn price(&self, prompt_tokens: f64, generated_tokens: f64) -> f64 {
        (prompt_tokens * self.prices.prompt + generated_tokens * self.prices.generated) / 1e6
    }

    fn taken(&self, counters: &Counters) -> Amount {
        Amount {
            calls: counters.generator_calls,
            cost: self.price(counters.generator_tokens as f64, counters.generated_tokens as f64),
        }
    }

    /// Checks that more can be started in addition to the reserved amounts.
    ///
    /// # Errors
    /// [`RunError::LimitReached`] if the run could then exceed a limit.
    pub(crate) fn admit(&self, counters: &Counters, reserved: Amount, more: Amount) -> Result<(), RunError> {
        let taken = self.taken(counters).at_least(self.before);
        let most = taken.plus(reserved).plus(more);
        // A request without cost is always permitted.
        if let Some(limit) = self.limits.generator_calls.filter(|limit| most.calls > *limit)
            && more.calls > 0
        {
            return Err(RunError::LimitReached {
                field: "generator_calls",
                taken: format!("{} calls, and the next text may take {} more", taken.calls, more.calls),
                limit: limit.to_string(),
            });
        }
        // Sums of money are not exact.
        let cost = self.limits.cost.filter(|limit| most.cost > limit * (1.0 + 1e-9));
        if let Some(limit) = cost
            && more.cost > 0.0
        {
            return Err(RunError::LimitReached {
                field: "cost",
                taken: format!("{:.4}, and the next text may cost {:.4} more", taken.cost, more.cost),
                limit: limit.to_string(),
            });
        }
        Ok(())
    }

    /// # Errors
    /// [`RunError::LimitReached`] if a run has exceeded a limit.
    pub(crate) fn hold(&self, counters: &Counters) -> Result<(), RunError> {
        let taken = self.taken(counters);
        if let Some(limit) = self.limits.generator_calls.filter(|limit| taken.calls > *limit) {
            return Err(RunError::LimitReached {
                field: "generator_calls",
                taken: format!("{} calls", taken.calls),
                limit: limit.to_string(),
            });
        }
        if let Some(limit) = self.limits.cost.filter(|limit| taken.cost > *limit) {
            return Err(RunError::LimitReached {
                field: "cost",
                taken: format!("{:.4}", taken.cost),
                limit: limit.to_string(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn ceiling() -> Ceiling {
        let limits = Limits {
            generator_calls: Some(10),
            cost: Some(1.0),
        };
        let prices = TokenPrices {
            prompt: 1.0,
            generated: 4.0,
        };
        Ceiling::new(limits, prices)
    }

    fn counters(generator_calls: u64, generator_tokens: u64, generated_tokens: u64) -> Counters {
        Counters {
            generator_calls,
            generator_tokens,
            generated_tokens,
            ..Counters::default()
        }
    }

    fn amount(calls: u64, cost: f64) -> Amount {
        Amount { calls, cost }
    }

    fn field(held: Result<(), RunError>) -> &'static str {
        match held {
            Err(RunError::LimitReached { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_that_has_taken_more_is_stopped() {
        let ceiling = ceiling();
        assert!(ceiling.hold(&counters(10, 200_000, 200_000)).is_ok());
        assert_eq!(field(ceiling.hold(&counters(11, 0, 0))), "generator_calls");
        assert_eq!(field(ceiling.hold(&counters(10, 200_001, 200_000))), "cost");
        assert!(Ceiling::default().hold(&counters(u64::MAX, u64::MAX, 0)).is_ok());
    }

    #[test]
    fn what_could_take_more_is_not_begun_and_what_takes_just_as_much_is() {
        let ceiling = ceiling();
        let half = counters(5, 100_000, 100_000);
        assert!(ceiling.admit(&half, amount(3, 0.0), amount(2, 0.0)).is_ok());
        assert_eq!(
            field(ceiling.admit(&half, amount(3, 0.0), amount(3, 0.0))),
            "generator_calls"
        );
        assert!(ceiling.admit(&half, amount(0, 0.25), amount(0, 0.25)).is_ok());
        assert_eq!(field(ceiling.admit(&half, amount(0, 0.25), amount(0, 0.26))), "cost");
        // Cached texts cost nothing and are used even when the limit is reached.
        assert!(
            ceiling
                .admit(&counters(11, 0, 0), Amount::default(), Amount::default())
                .is_ok()
        );
    }

    #[test]
    fn a_run_that_was_taken_over_does_not_begin_at_zero() {
        let ceiling = ceiling().continued(&counters(8, 0, 0));
        let none = counters(0, 0, 0);
        assert!(ceiling.admit(&none, Amount::default(), amount(2, 0.0)).is_ok());
        assert_eq!(
            field(ceiling.admit(&none, Amount::default(), amount(3, 0.0))),
            "generator_calls"
        );
        // Usage that is counted again is not counted twice.
        assert!(
            ceiling
                .admit(&counters(8, 0, 0), Amount::default(), amount(2, 0.0))
                .is_ok()
        );
    }
}
