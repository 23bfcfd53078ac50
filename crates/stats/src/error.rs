//! Errors: the reasons why a statistic is undefined.

/// A statistic that is undefined for these numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer observations than the statistic needs.
    #[error("{what} needs at least {needed} observations, {found} given")]
    TooFew {
        /// Name of the statistic.
        what: &'static str,
        /// Required number of observations.
        needed: usize,
        /// Actual number of observations.
        found: usize,
    },
    /// Two series that should be paired differ in length.
    #[error("paired series differ in length: {left_name} has {left} values, {right_name} has {right}")]
    LengthMismatch {
        /// Name of the first.
        left_name: &'static str,
        /// Length of the first.
        left: usize,
        /// Name of the second.
        right_name: &'static str,
        /// Length of the second.
        right: usize,
    },
    /// A value is NaN or infinite.
    #[error("{argument}: value {index} is not a finite number")]
    NotFinite {
        /// Name of the argument.
        argument: &'static str,
        /// Its position, from 0.
        index: usize,
    },
    /// A correlation with a series that does not vary.
    #[error("a correlation with a constant series is undefined")]
    Constant,
    /// Every difference is zero, so there is nothing to rank.
    #[error("all differences are zero: the signed-rank test has nothing to rank")]
    AllZero,
    /// A confidence level outside (0, 1).
    #[error("a confidence level lies strictly between 0 and 1, not at {level}")]
    Level { level: f64 },
    /// No interval reaches the level with so few observations.
    #[error("{n} observations allow no {what} of level {level}: the widest one has {best}")]
    LevelUnreachable {
        /// The kind of interval.
        what: &'static str,
        level: f64,
        /// Observations.
        n: usize,
        /// The highest reachable level.
        best: f64,
    },
    /// An argument outside its allowed range.
    #[error("{argument} is {value}: it must be {allowed}")]
    OutOfRange {
        /// Name of the argument.
        argument: &'static str,
        value: f64,
        allowed: &'static str,
    },
    /// A method that cannot be used with tied values.
    #[error("{what} is not defined with ties; use {instead}")]
    Ties {
        /// Name of the method.
        what: &'static str,
        /// A suitable alternative.
        instead: &'static str,
    },
    /// A statistic that is undefined for another reason.
    #[error("{what} is undefined: {why}")]
    Undefined {
        /// Name of the statistic.
        what: &'static str,
        why: &'static str,
    },
}

pub(crate) fn finite(argument: &'static str, values: &[f64]) -> Result<(), StatsError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { argument, index }),
        None => Ok(()),
    }
}

/// Checks for finite values, at least `needed` of them.
pub(crate) fn sample(
    argument: &'static str,
    values: &[f64],
    what: &'static str,
    needed: usize,
) -> Result<(), StatsError> {
    if values.len() < needed {
        return Err(StatsError::TooFew {
            what,
            needed,
            found: values.len(),
        });
    }
    finite(argument, values)
}

pub(crate) fn paired(x: &[f64], y: &[f64], what: &'static str, needed: usize) -> Result<(), StatsError> {
    if x.len() != y.len() {
        return Err(StatsError::LengthMismatch {
            left_name: "x",
            left: x.len(),
            right_name: "y",
            right: y.len(),
        });
    }
    sample("x", x, what, needed)?;
    finite("y", y)
}

pub(crate) fn level(level: f64) -> Result<(), StatsError> {
    if level > 0.0 && level < 1.0 {
        Ok(())
    } else {
        Err(StatsError::Level { level })
    }
}

/// A probability strictly between 0 and 1.
pub(crate) fn probability(argument: &'static str, value: f64) -> Result<(), StatsError> {
    if value > 0.0 && value < 1.0 {
        Ok(())
    } else {
        Err(StatsError::OutOfRange {
            argument,
            value,
            allowed: "strictly between 0 and 1",
        })
    }
}
