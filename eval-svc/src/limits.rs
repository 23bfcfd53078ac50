//! What a run may take.

use serde::{Deserialize, Serialize};

/// Limits of a run. Where the request sets none, the suite's limit holds; where neither does, there
/// is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Calls to generators for texts; the judge's are not among them.
    pub generator_calls: Option<u64>,
    /// Money for the generator's tokens, in the unit of its prices; above 0.
    pub cost: Option<f64>,
}

impl Limits {
    /// These limits with another's laid over them.
    #[must_use]
    pub fn overlaid(self, over: &Self) -> Self {
        Self {
            generator_calls: over.generator_calls.or(self.generator_calls),
            cost: over.cost.or(self.cost),
        }
    }

    /// Whether anything is limited.
    pub(crate) fn any(self) -> bool {
        self.generator_calls.is_some() || self.cost.is_some()
    }
}

/// Whether an amount of money can be meant as a limit.
///
/// # Errors
/// What would be right.
pub(crate) fn check_cost(cost: f64) -> Result<(), String> {
    if cost.is_finite() && cost > 0.0 {
        Ok(())
    } else {
        Err(format!(
            "is {cost}, should be above 0, in the unit of the generator's prices"
        ))
    }
}
