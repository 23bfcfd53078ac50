//! What makes a statistic undefined.

/// A statistic that these numbers do not have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer observations than the statistic needs.
    #[error("{what} needs at least {needed} observations, {found} given")]
    TooFew {
        /// Name of the statistic.
        what: &'static str,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// Two series that should be paired differ in length.
    #[error("paired series differ in length: {left} and {right}")]
    LengthMismatch {
        /// Length of the first.
        left: usize,
        /// Length of the second.
        right: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is not a finite number")]
    NotFinite {
        /// Its position, from 0.
        index: usize,
    },
    /// A correlation with a series that does not vary.
    #[error("a correlation with a constant series is undefined")]
    Constant,
    /// Every difference is zero, so nothing is left to rank.
    #[error("all differences are zero: the signed-rank test has nothing to rank")]
    AllZero,
    /// A confidence level outside (0, 1).
    #[error("a confidence level lies strictly between 0 and 1, not at {level}")]
    Level {
        /// What was asked for.
        level: f64,
    },
}

pub(crate) fn finite(values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index }),
        None => Ok(()),
    }
}

pub(crate) fn paired(x: &[f64], y: &[f64], what: &'static str, needed: usize) -> Result<(), StatsError> {
    if x.len() != y.len() {
        return Err(StatsError::LengthMismatch {
            left: x.len(),
            right: y.len(),
        });
    }
    if x.len() < needed {
        return Err(StatsError::TooFew {
            what,
            needed,
            found: x.len(),
        });
    }
    finite(x)?;
    finite(y)
}
