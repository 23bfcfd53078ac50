//! Dose and response: an isotonic curve of the effect, and the dose at half of the effect.
//!
//! The curve is the isotonic regression of the effects on the doses, restricted to values of at
//! least 0. That is the unrestricted regression cut off at 0 (scikit-learn's
//! `IsotonicRegression(y_min=0)`). It is joined to the point (0, 0), because dose 0 has no effect.
//! Between doses it is linear. The dose at half of the effect is the smallest one at which the
//! curve has half of the full effect. The full effect is the curve's value at the highest dose, or
//! a value that the caller gives, such as the distance of a score from chance.
//!
//! The interval is the percentile interval (B. Efron and R. J. Tibshirani, "An Introduction to the
//! Bootstrap", 1993, chapter 13) over replicates of the effects. The caller resamples items and
//! computes all doses from the same items, so that the replicates reflect the correlation between
//! doses. A replicate whose curve does not reach half counts as lying above every dose, like a
//! study that ends before the event.

use ndarray::ArrayView2;

use crate::{StatsError, bootstrap::Interval, describe::quantile, error::level as check_level, isotonic::Isotonic};

/// Doses at which effects are measured.
#[derive(Debug, Clone, PartialEq)]
pub struct DoseResponse {
    doses: Vec<f64>,
    weights: Vec<f64>,
    full: Option<f64>,
}

/// The dose at half of the effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfDose {
    /// The dose, in the unit of the doses.
    pub dose: f64,
    /// The curve's value at the highest dose.
    pub maximum: f64,
}

/// An interval of the dose at half of the effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfDoseInterval {
    pub low: f64,
    /// Upper end; `None` if it lies above the highest dose.
    pub high: Option<f64>,
    /// Percentile interval of the effect at the highest dose.
    pub effect: Interval,
    /// Replicates whose curve does not reach half.
    pub unreached: usize,
}

/// The reason why no dose has half of the effect.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoHalfDose {
    /// The curve is 0 at every dose, or the interval of the effect at the highest dose includes 0.
    #[error("no clear effect: {effect:.2} at the highest dose")]
    NoEffect {
        /// The effect at the highest dose, or the lower end of its interval.
        effect: f64,
    },
    /// The curve stays below half of the full effect.
    #[error("the effect stays below its half: {maximum:.2} at the highest dose, half is {half:.2}")]
    Unreached {
        /// The curve's value at the highest dose.
        maximum: f64,
        /// Half of the full effect.
        half: f64,
    },
    /// The numbers do not define a curve.
    #[error(transparent)]
    Undefined(#[from] StatsError),
}

impl DoseResponse {
    /// Doses above 0, ascending, with the weight of the effect at each (the number of items, or 1).
    /// `full` is the full effect if the caller knows it.
    ///
    /// # Errors
    /// If there are no doses or they do not ascend, a weight is not above 0, lengths differ, or
    /// `full` is not above 0.
    pub fn new(doses: &[f64], weights: &[f64], full: Option<f64>) -> Result<Self, StatsError> {
        let positive = |argument, values: &[f64]| {
            let wrong = values.iter().find(|value| !(value.is_finite() && **value > 0.0));
            wrong.map_or(Ok(()), |value| {
                Err(StatsError::OutOfRange {
                    argument,
                    value: *value,
                    allowed: "above 0",
                })
            })
        };
        if doses.is_empty() {
            return Err(StatsError::TooFew {
                what: "a curve of doses",
                needed: 1,
                found: 0,
            });
        }
        if doses.len() != weights.len() {
            return Err(different("doses", doses.len(), "weights", weights.len()));
        }
        positive("dose", doses)?;
        positive("weight", weights)?;
        positive("full effect", full.as_slice())?;
        if let Some(two) = doses.windows(2).find(|two| two[0] >= two[1]) {
            return Err(StatsError::OutOfRange {
                argument: "dose",
                value: two[1],
                allowed: "above the dose before it",
            });
        }
        Ok(Self {
            doses: doses.to_vec(),
            weights: weights.to_vec(),
            full,
        })
    }

    /// The curve: dose and effect at (0, 0) and at each dose.
    ///
    /// # Errors
    /// If there is not one finite effect for each dose.
    pub fn curve(&self, effects: &[f64]) -> Result<Vec<(f64, f64)>, StatsError> {
        if effects.len() != self.doses.len() {
            return Err(different("doses", self.doses.len(), "effects", effects.len()));
        }
        let fitted = Isotonic::fit_weighted(&self.doses, effects, &self.weights)?;
        let points = self.doses.iter().map(|dose| (*dose, fitted.at(*dose).max(0.0)));
        Ok(std::iter::once((0.0, 0.0)).chain(points).collect())
    }

    /// The dose at half of the effect.
    ///
    /// # Errors
    /// If no dose has an effect, the curve does not reach half, or no curve exists
    /// ([`DoseResponse::curve`]).
    pub fn half(&self, effects: &[f64]) -> Result<HalfDose, NoHalfDose> {
        let curve = self.curve(effects)?;
        let maximum = curve.last().map_or(0.0, |(_, effect)| *effect);
        if maximum <= 0.0 {
            return Err(NoHalfDose::NoEffect { effect: maximum });
        }
        let half = self.full.unwrap_or(maximum) / 2.0;
        let crossed = curve.windows(2).find(|two| two[1].1 >= half);
        let Some(&[(x, y), (next_x, next_y)]) = crossed.and_then(|two| two.first_chunk()) else {
            return Err(NoHalfDose::Unreached { maximum, half });
        };
        // `y` is below half, because this is the first window that reaches half. So the two differ.
        let dose = x + (next_x - x) * (half - y) / (next_y - y);
        Ok(HalfDose { dose, maximum })
    }

    /// The percentile interval of the dose at half of the effect. Each replicate is a row with the
    /// effect at each dose.
    ///
    /// # Errors
    /// [`NoHalfDose::NoEffect`] if the lower end of the interval of the effect at the highest dose
    /// is not above 0: the dose at half of a possibly zero effect has no meaning.
    /// [`NoHalfDose::Unreached`] if so many replicates do not reach half that the lower end also
    /// lies above the highest dose; its maximum and half are those of the mean effects. Also if
    /// there are no replicates, a row does not match the doses, or the level is outside (0, 1).
    pub fn interval(&self, replicates: ArrayView2<'_, f64>, level: f64) -> Result<HalfDoseInterval, NoHalfDose> {
        check_level(level)?;
        let resamples = replicates.nrows();
        let Some(means) = replicates.mean_axis(ndarray::Axis(0)) else {
            return Err(NoHalfDose::Undefined(StatsError::TooFew {
                what: "an interval (replicates)",
                needed: 1,
                found: 0,
            }));
        };
        let (mut doses, mut highest) = (Vec::with_capacity(resamples), Vec::with_capacity(resamples));
        for row in replicates.rows() {
            let effects = row.to_vec();
            match self.half(&effects) {
                Ok(half) => doses.push(half.dose),
                Err(NoHalfDose::Undefined(error)) => return Err(error.into()),
                Err(_) => {}
            }
            highest.extend(effects.last());
        }
        let tail = (1.0 - level) / 2.0;
        highest.sort_unstable_by(f64::total_cmp);
        let end = |q| quantile(&highest, q).unwrap_or(f64::NAN);
        let effect = Interval {
            low: end(tail),
            high: end(1.0 - tail),
            level,
            resamples,
        };
        if effect.low <= 0.0 {
            return Err(NoHalfDose::NoEffect { effect: effect.low });
        }
        let unreached = resamples - doses.len();
        doses.sort_unstable_by(f64::total_cmp);
        let reached = |q: f64| quantile_of_censored(&doses, unreached, q);
        let Some(low) = reached(tail) else {
            let curve = self.curve(&means.to_vec())?;
            let maximum = curve.last().map_or(0.0, |(_, effect)| *effect);
            let half = self.full.unwrap_or(maximum) / 2.0;
            return Err(NoHalfDose::Unreached { maximum, half });
        };
        Ok(HalfDoseInterval {
            low,
            high: reached(1.0 - tail),
            effect,
            unreached,
        })
    }
}

/// A quantile of ascending values and of `above` further values larger than all of them; `None` if
/// it depends on those.
fn quantile_of_censored(sorted: &[f64], above: usize, q: f64) -> Option<f64> {
    let position = q * (sorted.len() + above - 1) as f64;
    let last = sorted.len().checked_sub(1)?;
    (position.ceil() as usize <= last).then(|| quantile(sorted, position / last.max(1) as f64))?
}

fn different(left_name: &'static str, left: usize, right_name: &'static str, right: usize) -> StatsError {
    StatsError::LengthMismatch {
        left_name,
        left,
        right_name,
        right,
    }
}

#[cfg(test)]
mod tests;
