//! Non-inferiority of successive releases, with one probability of error over all of them.
//!
//! Each release is a look, and nobody knows how many will follow. Look k is made at alpha / (k (k +
//! 1)); these shares add up to alpha over any number of looks. By the union bound, the probability
//! that any inferior release is ever called non-inferior is then at most alpha, however the
//! releases depend on each other and on earlier verdicts. The same holds for the probability that
//! any non-inferior one is called inferior.
//!
//! Source: the alpha-spending from which J. Tian and A. Ramdas, "Online control of the familywise
//! error rate", Statistical Methods in Medical Research 30 (2021), section 2, start (with D. P.
//! Foster and R. A. Stine, JRSS B 70, 2008): any fixed series of shares that adds up to 1. Lan and
//! DeMets' functions ([`super::spending`]) do not apply, because they require a last look.

use super::non_inferiority::{Comparison, NonInferiority, non_inferiority};
use crate::{StatsError, error::probability};

/// The probability of error of look `look`, counted from 1.
///
/// # Errors
/// If `alpha` is outside (0, 1), or the look is 0.
pub fn release_alpha(alpha: f64, look: u64) -> Result<f64, StatsError> {
    probability("alpha", alpha)?;
    if look == 0 {
        return Err(StatsError::OutOfRange {
            argument: "look",
            value: 0.0,
            allowed: "at least 1",
        });
    }
    let k = look as f64;
    Ok(alpha / (k * (k + 1.0)))
}

/// Tests release number `look` at its share of `alpha`. Returns the share and the test.
///
/// # Errors
/// Those of [`release_alpha`] and [`non_inferiority`].
pub fn release_test(
    differences: Vec<f64>,
    margin: f64,
    alpha: f64,
    look: u64,
) -> Result<(f64, NonInferiority), StatsError> {
    let share = release_alpha(alpha, look)?;
    let found = non_inferiority(&[Comparison { differences, margin }], share)?;
    let test = found.into_iter().next().ok_or(StatsError::TooFew {
        what: "a non-inferiority test",
        needed: 1,
        found: 0,
    })?;
    Ok((share, test))
}

/// The minimum number of data sets whose signed-rank test can reach a probability of error: 2^-n is
/// its smallest p.
pub fn fewest_datasets(alpha: f64) -> u32 {
    (1..=1_024)
        .find(|n| 0.5_f64.powi(*n) <= alpha)
        .map_or(u32::MAX, i32::unsigned_abs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        gate::Verdict,
        random::{normal, stream},
    };

    #[test]
    fn the_shares_of_all_looks_add_up_to_alpha() {
        let sum = |looks: u64| (1..=looks).map(|k| release_alpha(0.05, k).unwrap()).sum::<f64>();
        assert!((release_alpha(0.05, 1).unwrap() - 0.025).abs() < 1e-15);
        assert!(sum(1_000) < 0.05 && sum(100_000) < 0.05 && sum(100_000) > 0.049_99);
        assert!(release_alpha(0.05, 0).is_err() && release_alpha(1.0, 1).is_err());
        assert_eq!([0.5, 0.05, 0.025, 1e-3].map(fewest_datasets), [1, 5, 6, 10]);
    }

    /// Rates at which any of 20 releases, each worse by exactly the margin, passes: with the
    /// shares, and with every release tested at the whole of alpha.
    fn simulated(runs: usize) -> (f64, f64) {
        let (mut spent, mut whole) = (0, 0);
        for run in 0..runs {
            let mut rng = stream(3, run);
            // The data sets stay the same, so releases depend on each other.
            let common: Vec<f64> = (0..20).map(|_| normal(&mut rng)).collect();
            let (mut any_spent, mut any_whole) = (false, false);
            for look in 1..=20 {
                let differences: Vec<f64> = common.iter().map(|own| -1.0 + 0.5 * own + normal(&mut rng)).collect();
                let (_, test) = release_test(differences, 1.0, 0.05, look).unwrap();
                let p = test.p_value.unwrap();
                any_spent |= test.verdict == Verdict::Pass;
                any_whole |= p <= 0.05;
            }
            spent += usize::from(any_spent);
            whole += usize::from(any_whole);
        }
        (spent as f64 / runs as f64, whole as f64 / runs as f64)
    }

    #[test]
    fn the_chance_of_ever_passing_an_inferior_release_is_held_over_twenty_releases() {
        let (spent, whole) = simulated(2_000);
        // The standard error of a share of 2,000 at 0.05 is 0.005.
        assert!(spent <= 0.05 + 2.0 * 0.005, "{spent}");
        assert!(whole > 0.25, "without spending the simulation errs: {whole}");
    }

    #[test]
    fn a_good_release_passes_late_too_where_there_are_data_sets_enough() {
        let good: Vec<f64> = (0..20).map(|i| 0.01 * f64::from(i)).collect();
        let (share, test) = release_test(good.clone(), 1.0, 0.05, 20).unwrap();
        assert!((share - 0.05 / 420.0).abs() < 1e-12);
        assert_eq!(test.verdict, Verdict::Pass);
        let (_, test) = release_test(good[..12].to_vec(), 1.0, 0.05, 20).unwrap();
        assert_eq!(test.verdict, Verdict::Undecided);
        assert!(fewest_datasets(share) > 12);
    }
}
