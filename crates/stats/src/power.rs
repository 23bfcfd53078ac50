//! The effects that a design with given numbers of data sets and seeds can detect.
//!
//! The mean of per-dataset differences, averaged over seeds first, has variance (σ²_between +
//! σ²_seeds / seeds) / data sets. Its test is Student's t, whose power is exact (noncentral t).
//! Wilcoxon's signed-rank test needs π/3 as many observations for the same power under normal
//! differences (its asymptotic relative efficiency is 3/π, E. J. G. Pitman).

use crate::{
    Alternative, StatsError,
    describe::{mean, sample_sd},
    error::{finite, probability},
    special::{noncentral_student_sf, student_quantile},
};

/// Maximum number of data sets or seeds in the search.
const MOST: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Number of data sets (units of observation).
    pub units: usize,
    /// Number of seeds averaged within each.
    pub seeds: usize,
    /// Standard deviation of the true differences between data sets.
    pub sd_between: f64,
    /// Standard deviation over seeds within a data set.
    pub sd_seeds: f64,
}

/// The test of a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PowerOf {
    /// Student's t of the mean difference.
    Student,
    /// Wilcoxon's signed-rank test, by its efficiency against Student's t under normal differences.
    #[default]
    SignedRank,
}

/// The requirements on a design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// Probability of a false alarm, in (0, 1).
    pub alpha: f64,
    /// Probability of detecting the effect, in (alpha, 1).
    pub power: f64,
    /// One-sided or two-sided.
    pub alternative: Alternative,
    pub test: PowerOf,
}

impl Default for Aim {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            power: 0.8,
            alternative: Alternative::TwoSided,
            test: PowerOf::SignedRank,
        }
    }
}

impl Design {
    /// Estimates both standard deviations from differences, one series of seeds per data set
    /// (one-way analysis of variance; a negative between-variance is set to zero). With one seed
    /// everywhere the deviation over seeds is unknown and counts as between.
    ///
    /// # Errors
    /// If there are fewer than two data sets, one has no seeds, differences are not finite, or
    /// numbers of seeds differ.
    pub fn from_differences(differences: &[Vec<f64>]) -> Result<Self, StatsError> {
        if differences.len() < 2 {
            return Err(StatsError::TooFew {
                what: "a design (data sets)",
                needed: 2,
                found: differences.len(),
            });
        }
        let seeds = differences[0].len();
        let mut means = Vec::with_capacity(differences.len());
        let mut within = 0.0;
        for series in differences {
            if series.len() != seeds {
                return Err(StatsError::LengthMismatch {
                    left_name: "the first data set's seeds",
                    left: seeds,
                    right_name: "another data set's seeds",
                    right: series.len(),
                });
            }
            finite("differences", series)?;
            means.push(mean(series).ok_or(StatsError::TooFew {
                what: "a design (seeds)",
                needed: 1,
                found: 0,
            })?);
            within += sample_sd(series).unwrap_or(0.0).powi(2);
        }
        let variance_seeds = within / differences.len() as f64;
        let of_means = sample_sd(&means).unwrap_or(0.0).powi(2);
        Ok(Self {
            units: differences.len(),
            seeds,
            sd_between: (of_means - variance_seeds / seeds as f64).max(0.0).sqrt(),
            sd_seeds: variance_seeds.sqrt(),
        })
    }

    /// Standard error of the mean difference.
    pub fn standard_error(&self) -> f64 {
        ((self.sd_between.powi(2) + self.sd_seeds.powi(2) / self.seeds as f64) / self.units as f64).sqrt()
    }

    /// Probability of detecting a mean difference of `effect` (its size; the sign is the
    /// alternative's).
    ///
    /// # Errors
    /// If there are fewer than two data sets or no seeds, deviations are negative or not finite, or
    /// `alpha` or `power` is out of range.
    pub fn power(&self, effect: f64, aim: &Aim) -> Result<f64, StatsError> {
        self.check(aim)?;
        let se = self.standard_error() / efficiency(aim.test).sqrt();
        if se == 0.0 {
            return Ok(if effect == 0.0 { aim.alpha } else { 1.0 });
        }
        Ok(power(effect.abs() / se, (self.units - 1) as f64, aim))
    }

    /// Smallest mean difference that is detected with the requested power.
    ///
    /// # Errors
    /// Those of [`Design::power`].
    pub fn minimal_detectable_effect(&self, aim: &Aim) -> Result<f64, StatsError> {
        self.check(aim)?;
        let freedom = (self.units - 1) as f64;
        let (mut low, mut high) = (0.0, 1.0);
        while power(high, freedom, aim) < aim.power && high < 1e9 {
            high *= 2.0;
        }
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if power(middle, freedom, aim) < aim.power {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high * self.standard_error() / efficiency(aim.test).sqrt())
    }

    /// Number of data sets needed to detect `effect` with these seeds; `None` above a million.
    ///
    /// # Errors
    /// Those of [`Design::power`].
    pub fn units_needed(&self, effect: f64, aim: &Aim) -> Result<Option<usize>, StatsError> {
        self.least(2, effect, aim, |units| Self { units, ..*self })
    }

    /// Number of seeds needed to detect `effect` with these data sets; `None` if no number of seeds
    /// suffices because the deviation between data sets alone is too large.
    ///
    /// # Errors
    /// Those of [`Design::power`].
    pub fn seeds_needed(&self, effect: f64, aim: &Aim) -> Result<Option<usize>, StatsError> {
        self.least(1, effect, aim, |seeds| Self { seeds, ..*self })
    }

    fn least(
        &self,
        from: usize,
        effect: f64,
        aim: &Aim,
        design: impl Fn(usize) -> Self,
    ) -> Result<Option<usize>, StatsError> {
        let enough = |count| Ok::<bool, StatsError>(design(count).power(effect, aim)? >= aim.power);
        let (mut low, mut high) = (from, from);
        while !enough(high)? {
            if high >= MOST {
                return Ok(None);
            }
            low = high + 1;
            high = (high * 2).min(MOST);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if enough(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(high))
    }

    fn check(&self, aim: &Aim) -> Result<(), StatsError> {
        probability("alpha", aim.alpha)?;
        probability("power", aim.power)?;
        if aim.power <= aim.alpha {
            return Err(StatsError::OutOfRange {
                argument: "power",
                value: aim.power,
                allowed: "larger than alpha",
            });
        }
        if self.units < 2 {
            return Err(StatsError::TooFew {
                what: "a design (data sets)",
                needed: 2,
                found: self.units,
            });
        }
        if self.seeds == 0 {
            return Err(StatsError::TooFew {
                what: "a design (seeds)",
                needed: 1,
                found: 0,
            });
        }
        for (argument, value) in [("sd_between", self.sd_between), ("sd_seeds", self.sd_seeds)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(StatsError::OutOfRange {
                    argument,
                    value,
                    allowed: "a finite number of at least 0",
                });
            }
        }
        Ok(())
    }
}

fn efficiency(test: PowerOf) -> f64 {
    match test {
        PowerOf::Student => 1.0,
        PowerOf::SignedRank => 3.0 / std::f64::consts::PI,
    }
}

/// Power of the t test at a noncentrality of `delta` ≥ 0.
fn power(delta: f64, freedom: f64, aim: &Aim) -> f64 {
    if aim.alternative == Alternative::TwoSided {
        let critical = student_quantile(1.0 - aim.alpha / 2.0, freedom);
        noncentral_student_sf(critical, freedom, delta) + noncentral_student_sf(critical, freedom, -delta)
    } else {
        noncentral_student_sf(student_quantile(1.0 - aim.alpha, freedom), freedom, delta)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn student() -> Aim {
        Aim {
            test: PowerOf::Student,
            ..Aim::default()
        }
    }

    #[test]
    fn the_textbook_s_sample_size_is_found() {
        // Cohen (1988): d = 0.5, two-sided 0.05, power 0.80 needs 34 pairs (G*Power: 34, power
        // 0.8078).
        let design = Design {
            units: 34,
            seeds: 1,
            sd_between: 1.0,
            sd_seeds: 0.0,
        };
        assert_eq!(design.units_needed(0.5, &student()).unwrap(), Some(34));
        assert!((design.power(0.5, &student()).unwrap() - 0.8078).abs() < 5e-5);
        let effect = design.minimal_detectable_effect(&student()).unwrap();
        assert!((design.power(effect, &student()).unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn seeds_help_only_against_the_spread_over_seeds() {
        let noisy = Design {
            units: 9,
            seeds: 1,
            sd_between: 0.2,
            sd_seeds: 2.0,
        };
        let more = noisy.seeds_needed(0.8, &student()).unwrap().unwrap();
        assert!(more > 3);
        assert!(Design { seeds: more, ..noisy }.power(0.8, &student()).unwrap() >= 0.8);
        assert!(
            Design {
                seeds: more - 1,
                ..noisy
            }
            .power(0.8, &student())
            .unwrap()
                < 0.8
        );
        let varied = Design {
            sd_between: 5.0,
            ..noisy
        };
        assert_eq!(varied.seeds_needed(0.8, &student()).unwrap(), None);
        assert!(varied.units_needed(0.8, &student()).unwrap().unwrap() > 300);
    }

    #[test]
    fn the_spreads_are_told_apart() {
        // Means 1, 2, 3 (variance 1), every data set with a variance of 0.5 over two seeds.
        let found = Design::from_differences(&[vec![0.5, 1.5], vec![1.5, 2.5], vec![2.5, 3.5]]).unwrap();
        assert!((found.sd_seeds.powi(2) - 0.5).abs() < 1e-12);
        assert!((found.sd_between.powi(2) - 0.75).abs() < 1e-12);
        assert!((found.standard_error() - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!(Design::from_differences(&[vec![1.0]]).is_err());
        assert!(Design::from_differences(&[vec![1.0], vec![1.0, 2.0]]).is_err());
    }

    #[test]
    fn the_signed_rank_test_needs_a_little_more() {
        let design = Design {
            units: 20,
            seeds: 3,
            sd_between: 1.0,
            sd_seeds: 0.5,
        };
        let ratio = design.minimal_detectable_effect(&Aim::default()).unwrap()
            / design.minimal_detectable_effect(&student()).unwrap();
        assert!((ratio - (std::f64::consts::PI / 3.0).sqrt()).abs() < 1e-9);
        assert!(Design { units: 1, ..design }.power(1.0, &student()).is_err());
    }
}
