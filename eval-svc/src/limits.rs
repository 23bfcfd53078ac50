//! Resource limits of a run.

use serde::{Deserialize, Serialize};

/// Limits of a run. If the request sets none, the suite's limit applies; if neither does, there is
/// no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum calls to generators for texts, without the judge's calls.
    pub generator_calls: Option<u64>,
    /// Maximum cost of the generator's tokens, in the unit of its prices; above 0.
    pub cost: Option<f64>,
}

impl Limits {
    /// These limits, overridden by another's.
    #[must_use]
    pub fn overlaid(self, over: &Self) -> Self {
        Self {
            generator_calls: over.generator_calls.or(self.generator_calls),
            cost: over.cost.or(self.cost),
        }
    }

    /// Whether any limit is set.
    pub(crate) fn any(self) -> bool {
        self.generator_calls.is_some() || self.cost.is_some()
    }
}

/// Checks that an amount of money is a valid limit.
///
/// # Errors
/// The accepted values.
pub(crate) fn check_cost(cost: f64) -> Result<(), String> {
    if cost.is_finite() && cost > 0.0 {
        Ok(())
    } else {
        Err(format!(
            "is {cost}, should be above 0, in the unit of the generator's prices"
        ))
    }
}
