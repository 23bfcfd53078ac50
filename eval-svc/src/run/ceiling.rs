//! What a run may take, held against what it has taken.

use super::{RunError, record::Counters};
use crate::limits::Limits;

/// Limits that a run is held to while it works.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Ceiling {
    limits: Limits,
    /// Prices of a million tokens, of prompts and of answers.
    prices: (f64, f64),
}

impl Ceiling {
    /// These limits, with the prices of a million tokens, of prompts and of answers.
    pub(super) fn new(limits: Limits, prices: (f64, f64)) -> Self {
        Self { limits, prices }
    }

    /// # Errors
    /// [`RunError::LimitReached`] when a run has taken more than it may.
    pub(super) fn hold(&self, counters: &Counters) -> Result<(), RunError> {
        if let Some(limit) = self
            .limits
            .generator_calls
            .filter(|limit| counters.generator_calls > *limit)
        {
            return Err(RunError::LimitReached {
                field: "generator_calls",
                taken: format!("{} calls", counters.generator_calls),
                limit: limit.to_string(),
            });
        }
        let (prompt, generated) = self.prices;
        let cost = (counters.generator_tokens as f64 * prompt + counters.generated_tokens as f64 * generated) / 1e6;
        if let Some(limit) = self.limits.cost.filter(|limit| cost > *limit) {
            return Err(RunError::LimitReached {
                field: "cost",
                taken: format!("{cost:.4}"),
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

    #[test]
    fn a_run_that_has_taken_more_is_stopped() {
        let ceiling = Ceiling {
            limits: Limits {
                generator_calls: Some(10),
                cost: Some(1.0),
            },
            prices: (1.0, 4.0),
        };
        let counters = |generator_calls, generator_tokens, generated_tokens| Counters {
            generator_calls,
            generator_tokens,
            generated_tokens,
            ..Counters::default()
        };
        assert!(ceiling.hold(&counters(10, 200_000, 200_000)).is_ok());
        let field = |counters: Counters| match ceiling.hold(&counters) {
            Err(RunError::LimitReached { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(counters(11, 0, 0)), "generator_calls");
        assert_eq!(field(counters(10, 200_001, 200_000)), "cost");
        assert!(Ceiling::default().hold(&counters(u64::MAX, u64::MAX, 0)).is_ok());
    }
}
